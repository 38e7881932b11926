"""Ctrl-C: once the turn rests, twice what is under way is left, three times everything ends.
Whenever it comes: status 130, no traceback, and a log in which nothing is lost."""

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from effects.logs.scan import read_log
from effects.replay import redrive
from nachalnik.checking import check
from nachalnik.cli.interrupts import Interrupts
from nachalnik.testing.wire import Reply, WireServer, chat_stream
from reducers.codec import decode_header
from tests.nachalnik.cli.shell import WAIT_S, Ran, finish, interrupt, wait_for
from tests.nachalnik.samples import make_log, rounds

TWO = 'call c1 patient{"seconds":0.7} + call c2 note{"text":"hi"}'


def is_whole(shell) -> None:
    """As `check` and `replay` have it."""
    assert check(shell.log) == []
    with read_log(shell.log) as view:
        values = (value for _, value in view.commits)
        assert redrive(decode_header(view.header), values, None).divergence is None


def test_once_the_turn_rests_before_its_next_step(shell):
    shell.script(TWO, '"Done."')
    process = shell.start(*shell.turn_words("go", "--allow", "*"))
    wait_for(shell.folder / "started")
    interrupt(process)
    ran = finish(process)
    assert ran.status == 130
    assert "Ctrl-C again leaves it now" in ran.err
    assert "[c1] gave waited" in ran.out  # what ran was not cut off
    assert "[c2] failed: Interrupted before it ran" in ran.out
    assert shell.notes() == []
    assert shell.resume("--allow", "*").out.startswith("Done.\n-- finished")
    is_whole(shell)


def test_twice_what_is_under_way_is_left(shell):
    shell.script('call c1 patient{"seconds":60}', '"Done."')
    process = shell.start(*shell.turn_words("go", "--allow", "*"))
    wait_for(shell.folder / "started")
    interrupt(process)
    time.sleep(0.1)
    interrupt(process)
    ran = finish(process)
    assert ran.status == 130
    assert "-- idle, the turn is not at its end" in ran.out
    assert "patient was started by call c1; whether it took effect is unknown." in ran.err
    assert "if its result was TEXT: nachalnik resume s.jsonl " in ran.err
    assert "--answer c1=settle:TEXT" in ran.err
    again = shell.resume("--allow", "*")
    assert "patient was started by call c1; whether it took effect is unknown." in again.err
    assert "[c1] failed: It was started and its result was never received" in again.out
    assert again.status == 0
    is_whole(shell)


def test_twice_a_tool_that_cannot_be_stopped_is_left_too(shell):
    shell.script('call c1 slow{"seconds":60}', '"Done."')
    process = shell.start(*shell.turn_words("go", "--allow", "*"))
    wait_for(shell.folder / "started")
    interrupt(process)
    time.sleep(0.1)
    interrupt(process)
    ran = finish(process)  # which would take a minute if its thread were waited for
    assert ran.status == 130
    assert shell.resume("--answer", "c1=settle:I looked: it slept.").status == 0
    is_whole(shell)


def test_three_times_is_a_kill_and_the_log_stands(shell):
    shell.script('call c1 block{"seconds":60}', '"Done."')
    (shell.folder / "blocking.py").write_text(
        "import time\nfrom nachalnik import tool\n\n"
        "@tool(thread=False)\n"
        "def block(seconds: float) -> str:\n"
        "    open('started', 'w').close()\n"
        "    time.sleep(seconds)\n"
        "    return ''\n"
    )
    words = shell.turn_words("go", "--allow", "*", tools="blocking:block")
    process = shell.start(*words)
    wait_for(shell.folder / "started")
    for _ in range(3):
        interrupt(process)
        time.sleep(0.1)
    assert finish(process).status == 130
    assert shell.resume("--answer", "2=fail", tools="blocking:block").status == 0
    is_whole(shell)


def test_one_more_than_was_needed_does_not_spoil_the_status():
    before = signal.getsignal(signal.SIGINT)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert interrupts.count == 1
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_request_that_never_ends_is_left_and_asked_again(shell):
    body = chat_stream("one two three")
    with WireServer([Reply(body, stall_at=90), chat_stream("All of it.")]) as server:
        words = ("--log", "s.jsonl", "--model", "m", "--base-url", server.base_url)
        process = shell.start("run", "go", *words)
        assert process.stdout.read(3) == b"one"
        interrupt(process)
        time.sleep(0.1)
        interrupt(process)
        assert finish(process).status == 130
        is_whole(shell)
        # A provider that is asked to rest gives what it has, so it may be the answer already.
        again = shell.run("resume", *words[1:])
        assert again.status == 0
    is_whole(shell)


def test_between_lines_of_standard_input_it_ends_at_once(shell):
    shell.script('"One."', '"Two."')
    process = shell.start(*shell.turn_words(), stdin=subprocess.PIPE)
    process.stdin.write(b"first\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"One.\n"
    interrupt(process)
    ran = Ran(process.wait(WAIT_S), "", process.stderr.read().decode())
    assert (ran.status, ran.err) == (130, "")
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    is_whole(shell)


@pytest.mark.parametrize("seed", range(4))
def test_whenever_it_comes_nothing_is_lost(shell, seed):
    """At a moment of chance in a turn of many commits; what was told is in the log."""
    calls = [f'"Step {n}." + call c{n} add{{"x":{n},"y":2}}' for n in range(7)]
    shell.script(*calls, '"Done."')
    process = shell.start(*shell.turn_words("go", "--allow", "*", "--json"))
    chance = random.Random(seed)
    lines = [process.stdout.readline() for _ in range(chance.randrange(1, 40))]
    for _ in range(chance.randrange(1, 3)):
        interrupt(process)
        time.sleep(chance.random() * 0.02)
    ran = finish(process)
    assert ran.status in (0, 130)
    out = b"".join(lines).decode() + ran.out
    told = [line for line in out.splitlines() if '"seq":' in line]
    assert told == shell.run("show", "s.jsonl", "--json").out.splitlines()[-len(told) :]
    is_whole(shell)
    if "Done." not in out:
        assert shell.resume("--allow", "*").status == 0
        is_whole(shell)


@pytest.mark.parametrize(
    "words", [["show", "s.jsonl"], ["check", "s.jsonl"], ["replay", "s.jsonl"]]
)
def test_readers_end_quietly(shell, words):
    make_log(shell.log, *rounds(150))
    process = shell.start(*words)
    wait_until_read(process, shell.log)
    interrupt(process)
    ran = finish(process)
    assert ran.status in (0, 130)
    assert ran.err.strip() == ""


def wait_until_read(process, path) -> None:
    """Until the process has the file open: before that, Ctrl-C is the interpreter's own affair."""
    folder = Path(f"/proc/{process.pid}/fd")
    end = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < end:
        if not folder.exists():
            time.sleep(1)
            return
        with contextlib.suppress(OSError):
            if str(path) in [os.readlink(fd) for fd in folder.iterdir()]:
                return
        time.sleep(0.01)
