"""DISK: a failed append means "not accepted", not "half a line and carry on"."""

import errno
import signal
import subprocess
import sys

import anyio
import pytest

from effects.logs.file import FileLog
from effects.logs.port import LogUnusable, LogWriteFailed
from effects.logs.scan import check_log
from nachalnik import ContextItem, Kernel, Rules
from reducers.vocabulary.phases import Finished, Idle
from tests.cases.peers import ROOT
from tests.effects.logs.faults import Faults, failing, failing_after
from tests.effects.shell import Model, Tool, calls, named, results, said, sound


@pytest.fixture
def faults(monkeypatch):
    """The system calls of every log that a kernel opens from now on."""
    calls = Faults()

    class Faulty(FileLog):
        @classmethod
        def create(cls, path, header, durability="fsync", calls=calls):
            return super().create(path, header, durability, calls)

        @classmethod
        def open(cls, path, durability="fsync", fingerprint=None, calls=calls):
            return super().open(path, durability, fingerprint, calls)

    monkeypatch.setattr("nachalnik.kernel.FileLog", Faulty)
    return calls


def _open(path, *replies, note=None):
    note = note or Tool("note", "noted")
    return Kernel.open(
        path, provider=Model(*replies), tools=[note], policy=Rules(allow=["*"])
    ), note


def _last_line(path):
    return path.read_bytes().splitlines(keepends=True)[-1]


def _full_at(faults, write, count):
    """The disk is full at a write from now: `count` bytes of it arrive."""
    if count == 0:
        faults.arm(write, failing(errno.ENOSPC), only="write")
    else:
        faults.arm(write, failing_after(errno.ENOSPC, count), times=2, only="write")


SENT, ANSWERED, RAN = 1, 2, 3
"""Writes of a turn: its request, the reply that starts the call, the call's result."""


@pytest.mark.parametrize("count", [0, 1, 200, 399])
@pytest.mark.parametrize("write", [SENT, ANSWERED, RAN])
def test_disk_01_the_disk_fills_up_in_an_append(tmp_path, faults, write, count):
    path = tmp_path / "log.jsonl"
    again = [calls("note")] if write == ANSWERED else []
    kernel, note = _open(path, calls("note"), *again, said("done"))
    kernel.push(ContextItem.user("go " + "x" * 400))
    _full_at(faults, write, count)
    with pytest.raises(LogWriteFailed, match="No space left"):
        anyio.run(kernel.turn)
    assert faults.has_acted
    # what could not be written did not happen, and neither did its effect
    requests = len(kernel.provider().requests)
    assert requests == (0 if write == SENT else 1)
    assert note.runs == (["c1"] if write == RAN else [])
    assert len(named(kernel, "turn.opened")) == (0 if write == SENT else 1)
    assert len(named(kernel, "tool.started")) == (1 if write == RAN else 0)
    # a result that the world gave is kept in hand and written when there is space again
    assert results(kernel) == ([("c1", "noted", False)] if write == RAN else [])
    assert _last_line(path).endswith(b"}}\n")
    # space is back: the session goes on without being opened again
    assert kernel.state() == Idle()
    assert isinstance(anyio.run(kernel.turn), Finished)
    sound(kernel)
    kernel.close()
    assert not list(check_log(path))
    assert len(note.runs) == 1


@pytest.mark.parametrize("write", [ANSWERED, RAN])
def test_disk_01_the_disk_stays_full_for_a_while(tmp_path, faults, write):
    """Also what tells that the driver left cannot be written; it is when space is back."""
    path = tmp_path / "log.jsonl"
    again = [calls("note")] if write == ANSWERED else []
    kernel, note = _open(path, calls("note"), *again, said("done"))
    kernel.push(ContextItem.user("go"))
    faults.arm(write, failing(errno.ENOSPC), times=5, only="write")
    with pytest.raises(LogWriteFailed):
        anyio.run(kernel.turn)
    assert note.runs == (["c1"] if write == RAN else [])
    faults.arm(0, None)
    assert isinstance(anyio.run(kernel.turn), Finished)
    assert len(note.runs) == 1
    sound(kernel)
    kernel.close()
    assert not list(check_log(path))


PROGRAM = """
import os, signal, sys, anyio
from effects.logs.file import FileLog
from effects.logs.syscalls import Syscalls
import nachalnik.kernel
from nachalnik import ContextItem, Kernel, Rules
from tests.effects.shell import Model, Tool, calls, said

path, write, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Killed(Syscalls):
    armed, seen = False, 0
    def write(self, fd, data):
        self.seen += self.armed
        if self.armed and self.seen == write:
            os.write(fd, data[:count])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)

door = Killed()
class Faulty(FileLog):
    @classmethod
    def create(cls, path, header, durability="fsync", calls=door):
        return super().create(path, header, durability, calls)
nachalnik.kernel.FileLog = Faulty
kernel = Kernel.open(path, provider=Model(calls("note"), said("done")),
                     tools=[Tool("note", "noted")], policy=Rules(allow=["*"]))
kernel.push(ContextItem.user("go " + "x" * 400))
door.armed = True
anyio.run(kernel.turn)
"""


@pytest.mark.parametrize(("write", "count"), [(SENT, 1), (ANSWERED, 200), (RAN, 399)])
def test_disk_01_a_crash_in_the_append_opens(tmp_path, write, count):
    path = tmp_path / "log.jsonl"
    command = [sys.executable, "-c", PROGRAM, str(path), str(write), str(count)]
    ran = subprocess.run(command, cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL
    note = Tool("note", "noted")
    kernel, _ = _open(path, calls("note"), said("done"), note=note)
    assert (tmp_path / "log.jsonl.torn").stat().st_size == count
    if write == RAN:  # the call had started: nobody runs it again by himself
        assert [one.call for one in kernel.pending_questions()] == ["c1"]
        kernel.settle("c1", "noted")
    kernel.provider().replies = kernel.provider().replies[1 if write == RAN else 0 :]
    assert isinstance(anyio.run(kernel.turn), Finished)
    assert results(kernel) == [("c1", "noted", False)]
    sound(kernel)
    kernel.close()
    assert not list(check_log(path))


def test_disk_04_a_failed_sync_stops_the_session(tmp_path, faults):
    path = tmp_path / "log.jsonl"
    kernel, note = _open(path, calls("note"), said("done"))
    kernel.push(ContextItem.user("go"))
    faults.arm(1, failing(errno.EIO), only="fsync")
    with pytest.raises(LogUnusable, match=r"may be lost: .*Input/output error"):
        anyio.run(kernel.turn)
    # what was announced was not sent, and later syncs that would succeed change nothing
    assert kernel.provider().requests == []
    for attempt in (lambda: kernel.push(ContextItem.user("more")), lambda: anyio.run(kernel.turn)):
        with pytest.raises(LogUnusable, match="Close it and open it again"):
            attempt()
    assert kernel.provider().requests == []
    assert note.runs == []
    assert len(kernel.items()) == 1  # reading goes on
    kernel.close()
    reopened, _ = _open(path, said("done"))
    assert reopened.state() == Idle()
    assert isinstance(anyio.run(reopened.turn), Finished)
    sound(reopened)
    reopened.close()
    assert not list(check_log(path))


def test_disk_04_a_sync_that_fails_after_a_result(tmp_path, faults):
    """The result is written and not durable: the next request must not go out."""
    path = tmp_path / "log.jsonl"
    kernel, note = _open(path, calls("note"), said("done"))
    kernel.push(ContextItem.user("go"))
    syncs = 2  # before the first request, before the call; the third is before the next request
    faults.arm(syncs + 1, failing(errno.EIO), only="fsync")
    with pytest.raises(LogUnusable):
        anyio.run(kernel.turn)
    assert note.runs == ["c1"]
    assert len(kernel.provider().requests) == 1
