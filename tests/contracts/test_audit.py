"""The purity alarm fires, in the right thread, and only while it is armed."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.contracts.audit import TouchedTheWorld, purity_alarm


@pytest.mark.parametrize(
    "touch",
    [
        pytest.param(lambda: Path(__file__).read_bytes(), id="read a file"),
        pytest.param(lambda: Path("never-written").write_text("x"), id="write a file"),
        pytest.param(lambda: Path("never-there").unlink(), id="remove a file"),
        pytest.param(lambda: list(Path.cwd().iterdir()), id="list a folder"),
        pytest.param(lambda: Path("never-made").mkdir(), id="make a folder"),
        pytest.param(lambda: os.putenv("NEVER", "set"), id="set the environment"),
        pytest.param(lambda: socket.socket(), id="make a socket"),
        pytest.param(lambda: socket.getaddrinfo("localhost", 1), id="resolve a name"),
        pytest.param(lambda: subprocess.run([sys.executable, "-V"]), id="run a process"),
        pytest.param(lambda: os.system("true"), id="run a shell"),
        pytest.param(lambda: os.posix_spawn("/bin/true", ["true"], {}), id="spawn"),
    ],
)
def test_the_alarm_fires_before_the_world_is_touched(touch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TouchedTheWorld), purity_alarm():
        touch()
    assert list(tmp_path.iterdir()) == []


def test_a_swallowed_alarm_is_raised_at_the_end_of_the_block():
    with pytest.raises(TouchedTheWorld, match="open"), purity_alarm():
        with contextlib.suppress(Exception):
            Path(__file__).read_bytes()


def test_pure_code_and_its_own_exceptions_pass():
    with purity_alarm():
        assert sorted({3, 1, 2}) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError), purity_alarm():
        1 // 0


def test_it_is_silent_when_it_is_not_armed():
    with purity_alarm():
        pass
    assert Path(__file__).read_bytes()


def test_an_inner_block_does_not_disarm_the_outer_one():
    with pytest.raises(TouchedTheWorld), purity_alarm():
        with purity_alarm():
            pass
        Path(__file__).read_bytes()
    assert Path(__file__).read_bytes()


def test_an_alarm_heard_in_an_inner_block_is_heard_once():
    with purity_alarm():
        with pytest.raises(TouchedTheWorld), purity_alarm():
            Path(__file__).read_bytes()
    assert Path(__file__).read_bytes()


def test_other_threads_are_not_watched():
    armed, done = threading.Event(), threading.Event()
    read: list[bytes] = []

    def bystander() -> None:
        armed.wait(10)
        read.append(Path(__file__).read_bytes())
        done.set()

    thread = threading.Thread(target=bystander)
    thread.start()
    with purity_alarm():
        armed.set()
        assert done.wait(10)
    thread.join()
    assert read
