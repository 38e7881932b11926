"""One writer a log: between processes, within one, and after one was killed."""

import gc
import os
import random
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from effects.logs.file import FileLog
from effects.logs.lock import read_owner
from effects.logs.port import LogUnusable, Owner, SessionOwned
from effects.logs.syscalls import SYSCALLS, Syscalls
from tests.effects.logs.samples import HEADER, commit, commits, everything, stored, write_log

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.log"


@pytest.fixture(autouse=True)
def no_file_stays_open():
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    yield
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


class Rival:
    """Another process; see rival.py."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.effects.logs.rival"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.hear() == "ready"

    @property
    def pid(self):
        return self.process.pid

    def tell(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().strip()

    def ask(self, order):
        self.tell(order)
        return self.hear()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


# -- two processes ---------------------------------------------------------------------


@pytest.mark.parametrize("trials", [20, pytest.param(100, marks=pytest.mark.deep)])
def test_conc_01_exactly_one_of_two_gets_the_session(tmp_path, trials):
    chance = random.Random(1)
    wins = [0, 0]
    with Rival() as first, Rival() as second:
        rivals = (first, second)
        for trial in range(trials):
            path = tmp_path / f"{trial}.log"
            write_log(path, 1)
            for rival in rivals:
                rival.tell(f"open {path} {chance.uniform(0, 0.003)}")
            answers = [rival.hear() for rival in rivals]
            winner = answers.index("opened")
            wins[winner] += 1
            loser = rivals[1 - winner]
            # Between taking the lock and leaving its name, the winner is not known by name.
            assert answers[1 - winner] in ("owned 0", f"owned {rivals[winner].pid}")
            assert loser.ask(f"open {path} 0") == f"owned {rivals[winner].pid}"
            assert stored(path) == [commit(1), commit(2, f"from {rivals[winner].pid}")]
            assert [rival.ask("end") for rival in rivals] == ["ended", "ended"]
            assert loser.ask(f"open {path} 0") == "opened"
            assert loser.ask("end") == "ended"
            assert stored(path)[2:] == [commit(3, f"from {loser.pid}")]
    assert sum(wins) == trials


def test_a_killed_owner_frees_the_session_without_cleanup(path):
    write_log(path, 1)
    with Rival() as rival:
        assert rival.ask(f"open {path} 0") == "opened"
        with pytest.raises(SessionOwned) as caught:
            FileLog.open(path)
        assert caught.value.owner.pid == rival.pid
        rival.kill()
        assert read_owner(SYSCALLS, str(path)).pid == rival.pid  # the name outlives it: advisory
        with FileLog.open(path) as log:
            assert log.position == 2
            assert read_owner(SYSCALLS, str(path)).pid == os.getpid()
            log.append(commit(3))
    assert read_owner(SYSCALLS, str(path)) is None


def test_a_forked_copy_is_refused_and_takes_nothing_from_its_owner(path):
    write_log(path, 1)
    with Rival() as rival:
        assert rival.ask(f"open {path} 0") == "opened"
        assert rival.ask("fork") == "refused"
        with pytest.raises(SessionOwned) as caught:
            FileLog.open(path)
        assert caught.value.owner.pid == rival.pid
        assert rival.ask("end") == "ended"
    assert stored(path) == [commit(1), commit(2, f"from {rival.pid}")]


# -- one process -----------------------------------------------------------------------


def test_a_second_opening_in_this_process_is_refused(path):
    with FileLog.create(path, HEADER) as log:
        with pytest.raises(SessionOwned, match=f"owned by process {os.getpid()} on ") as caught:
            FileLog.open(path)
        owner = caught.value.owner
        assert owner == read_owner(SYSCALLS, str(path))
        assert owner.host == os.uname().nodename
        age = datetime.now(UTC) - datetime.fromisoformat(owner.since)
        assert timedelta(0) <= age < timedelta(minutes=1)
        log.append(commit(1))
    with FileLog.open(path) as log:
        assert list(log.values()) == [commit(1)]


class Watching(Syscalls):
    def __init__(self):
        self.names = []

    def __getattribute__(self, name):
        if not name.startswith("_") and name != "names":
            self.names.append(name)
        return super().__getattribute__(name)


def test_a_refused_opening_has_touched_nothing(tmp_path, path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        with path.open("ab") as file:
            file.write(b"under way")
        before = everything(tmp_path)
        calls = Watching()
        with pytest.raises(SessionOwned):
            FileLog.open(path, calls=calls)
        assert set(calls.names) == {"stat", "open", "fstat", "pread", "close", "flock"}
        assert everything(tmp_path) == before
        os.truncate(path, len(path.read_bytes()) - len(b"under way"))


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_two_names_of_one_log_are_one_log(tmp_path, path, link):
    write_log(path, 1)
    other = tmp_path / "store" / "other.log"
    other.parent.mkdir()
    link(other, path)
    with FileLog.open(path) as log:
        with pytest.raises(SessionOwned) as caught:
            FileLog.open(other)
        log.append(commit(2))
    if link is Path.symlink_to:
        assert caught.value.owner.pid == os.getpid()
        assert [found.name for found in other.parent.iterdir()] == ["other.log"]
    with FileLog.open(other) as log:
        assert list(log.values()) == commits(1, 2)


def test_a_removed_lock_file_lets_nobody_else_in(path):
    with FileLog.create(path, HEADER) as log:
        path.with_name("demo.log.lock").unlink()
        for _ in range(2):
            with pytest.raises(SessionOwned) as caught:
                FileLog.open(path)
            assert caught.value.owner.pid == os.getpid()
        log.append(commit(1))
    assert stored(path) == [commit(1)]


@pytest.mark.parametrize("name", [b"", b"{", b"[]", b'{"pid":"x"}', b"\xff"])
def test_an_owner_whose_name_cannot_be_read_is_an_owner(path, name):
    with FileLog.create(path, HEADER):
        path.with_name("demo.log.owner").write_bytes(name)
        with pytest.raises(SessionOwned, match="has not left its name") as caught:
            FileLog.open(path)
        assert caught.value.owner is None


def test_a_failed_opening_lets_go(path):
    whole = write_log(path, 2)
    path.write_bytes(whole.replace(b'"x"', b'"y"'))
    for _ in range(2):
        with pytest.raises(Exception, match="line 2"):
            FileLog.open(path)
    path.write_bytes(whole)
    FileLog.open(path).close()


def test_closing_twice_does_not_take_the_log_from_the_next_owner(path):
    first = FileLog.create(path, HEADER)
    first.close()
    with FileLog.open(path) as second:
        first.close()
        del first
        with pytest.raises(SessionOwned) as caught:
            FileLog.open(path)
        assert caught.value.owner.pid == os.getpid()
        second.append(commit(1))
        with pytest.raises(LogUnusable):
            second.close()
            second.append(commit(2))


def test_the_owner_file_is_for_people_and_programs(path):
    with FileLog.create(path, HEADER):
        text = path.with_name("demo.log.owner").read_text()
    assert re.fullmatch(
        r'\{"pid":\d+,"host":"[^"]+","since":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"\}', text
    )
    assert msgspec.json.decode(text, type=Owner).pid == os.getpid()
