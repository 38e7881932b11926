"""A session killed at any moment comes back, loses nothing and repeats nothing (ONCE, RESU)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.session import Life, Outside, check_session

ROOT = Path(__file__).resolve().parents[2]
MODES = pytest.mark.parametrize("mode", ["SERIAL", "PARALLEL"])


def killed(folder, mode, first, step, again=0):
    """The folders of the lives that were killed, in order of the moment."""
    words = [sys.executable, "-m", "tests.crash.lives", str(folder), mode, first, step, again]
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True, timeout=3000)
    lives = sorted(folder.iterdir(), key=lambda life: int(life.name))
    return lives[:-1]


def assert_whole(folder, mode):
    """Live the session to its end; then nothing is missing and nothing happened twice."""
    life = Life(folder, parallel=mode == "PARALLEL")
    life.open()
    life.live()
    life.close()
    acknowledged = Outside(folder / "acknowledged").lines()
    return check_session(folder, acknowledged), acknowledged


@MODES
def test_a_sample_of_moments(tmp_path, mode):
    lives = killed(tmp_path, mode, 2, 11)
    assert len(lives) > 10
    promises = {tuple(assert_whole(folder, mode)[1]) for folder in lives}
    assert len(promises) > 4


@MODES
@pytest.mark.deep
def test_every_moment(tmp_path, mode):
    lives = killed(tmp_path, mode, 1, 1)
    assert len(lives) > 120
    names = set()
    for folder in lives:
        records, _ = assert_whole(folder, mode)
        names.update(one.name for one in records)
    # The crashes have shown every way in which a session comes back.
    assert {"request.abandoned", "question.opened", "question.answered", "tool.retried"} <= names


@MODES
@pytest.mark.deep
@pytest.mark.parametrize("again", [3, 8, 13, 21, 34])
def test_killed_again_while_it_comes_back(tmp_path, mode, again):
    for folder in killed(tmp_path, mode, 1, 2, again):
        assert_whole(folder, mode)


@MODES
def test_a_session_without_a_crash(tmp_path, mode):
    """The instrument: the same oracles on a session nobody killed."""
    records, _ = assert_whole(tmp_path, mode)
    assert [one.name for one in records].count("session.opened") == 1  # by the check itself
    assert "tool.retried" not in {one.name for one in records}
    assert len(Outside(tmp_path / "outside").lines()) == 6


def test_the_oracles_see_a_loss_and_a_repetition(tmp_path):
    """The instrument, again: a doctored world is found out."""
    assert_whole(tmp_path, "SERIAL")
    outside = tmp_path / "outside"
    lines = outside.read_text()
    for doctored in (lines.partition("\n")[2], lines + lines.partition("\n")[0] + "\n"):
        outside.write_text(doctored)
        with pytest.raises(AssertionError):
            check_session(tmp_path)
    outside.write_text(lines)
    with pytest.raises(AssertionError):
        check_session(tmp_path, ["push something that never arrived"])
