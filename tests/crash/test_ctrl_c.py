"""Ctrl-C at any moment: the session goes on, or says that it has to be opened again (R25).

CPython raises it where a function begins and where a call of C ends, and nowhere else; the tests
raise it at such places of the shell and the face. The core is pure: there it undoes nothing. One
that comes while a log is being opened ends the process, as the signals below do: its lock goes so.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.session import Life, Outside, check_session
from tests.crash.test_failing_calls import goes_on, reopened

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(str(ROOT / package) + "/" for package in ("effects", "nachalnik"))
# What the event loop has begun and a Ctrl-C in its middle leaves behind.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
MODES = pytest.mark.parametrize("parallel", [False, True], ids=["serial", "parallel"])


class Places:
    """Counts the places at which Ctrl-C can be raised, and raises it at one of them."""

    def __init__(self, at=0):
        self.at = at
        self.count = 0
        self.where = ""

    def __enter__(self):
        sys.setprofile(self.visit)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def visit(self, frame, event, _):
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(OURS):
            self.count += 1
            if self.count == self.at:
                sys.setprofile(None)
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} ({event})"
                raise KeyboardInterrupt


def lived(folder, at, parallel):
    """Live the session with one Ctrl-C in it; where it came, and how many places there were."""
    acknowledged = []
    places = Places(at)
    life = Life(folder, parallel=parallel, told=acknowledged.append)
    for _ in range(3):
        try:
            if life.kernel is None:
                life.open()
            with places:
                life.live()
            break
        except KeyboardInterrupt:
            if life.kernel is not None and not goes_on(life.kernel):
                reopened(life)
    else:
        raise AssertionError(f"it never came to an end: {places.where}")
    life.close()
    try:
        check_session(folder, acknowledged)
    except AssertionError as error:
        raise AssertionError(f"Ctrl-C at {places.where}: {error}") from error
    return places


def at_places(tmp_path, parallel, share):
    (tmp_path / "whole").mkdir()
    total = lived(tmp_path / "whole", 0, parallel).count
    assert total > 600
    met = set()
    for at in range(1, total, max(1, int(total * share))):
        folder = tmp_path / str(at)
        folder.mkdir()
        met.add(lived(folder, at, parallel).where)
    return met


@MODES
def test_a_sample_of_places(tmp_path, parallel):
    assert len(at_places(tmp_path, parallel, 1 / 23)) > 15


@MODES
@pytest.mark.deep
def test_every_place(tmp_path, parallel):
    assert len(at_places(tmp_path, parallel, 0)) > 100


# -- the real signal ---------------------------------------------------------------------------


def interrupted(folder, mode, first, step):
    words = [sys.executable, "-m", "tests.crash.lives", folder, mode, first, step, 0, "SIGINT"]
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True, timeout=3000)
    return sorted(folder.iterdir(), key=lambda life: int(life.name))[:-1]


def check_interrupted(folders, mode):
    for folder in folders:
        life = Life(folder, parallel=mode == "PARALLEL")
        life.open()
        life.live()
        life.close()
        check_session(folder, Outside(folder / "acknowledged").lines())


@pytest.mark.parametrize("mode", ["SERIAL", "PARALLEL"])
def test_a_sample_of_signals(tmp_path, mode):
    folders = interrupted(tmp_path, mode, 20, 17)
    assert len(folders) > 5
    check_interrupted(folders, mode)


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["SERIAL", "PARALLEL"])
def test_a_signal_at_every_moment(tmp_path, mode):
    folders = interrupted(tmp_path, mode, 1, 1)
    assert len(folders) > 120
    check_interrupted(folders, mode)
