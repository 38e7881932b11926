"""The real command in processes of its own, on real files; also with a terminal in front of it."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "nachalnik"]
WAIT_S = 30.0

TOOLS = r"""
import os, sys, time
from effects.ports import OutputSink
from nachalnik import tool

@tool
def add(x: int, y: int) -> int:
    "Add two integers."
    print("a tool prints this")
    os.write(1, b"and so does a child of it\n")
    return x + y

@tool(capabilities=["fs:write"])
def note(text: str, sink: OutputSink) -> str:
    "Append a line to notes.txt."
    with open("notes.txt", "a") as file:
        file.write(f"{sink.key} {text}\n")
    return f"noted {text}"

@tool
def die(text: str) -> str:
    "Take effect, and die before it can be told."
    with open("notes.txt", "a") as file:
        file.write(f"{text}\n")
    os.kill(os.getpid(), 9)
    return ""

@tool
def sure(text: str) -> str:
    "As die, but it can tell what became of it."
    os.kill(os.getpid(), 9)
    return ""

@sure.reconciler
def told(key: str, text: str) -> str:
    return f"it was done: {text}"

@tool
def slow(seconds: float) -> str:
    "Sleep where nothing can stop it."
    with open("started", "w"):
        pass
    time.sleep(seconds)
    return "slept"

@tool
async def patient(seconds: float) -> str:
    "Wait where a cancel is heard."
    import anyio
    with open("started", "w"):
        pass
    await anyio.sleep(seconds)
    return "waited"

TOOLS = [add, note, die, sure, slow, patient]

def plain(a: int) -> int:
    "A typed function."
    return a

def untyped(a):
    return a

class Held:
    pass

NUMBER = 3
"""


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str

    def lines(self) -> list:
        """Every line of standard output as JSON; fails where there is anything else."""
        return [json.loads(line) for line in self.out.splitlines()]

    def hints(self) -> list[str]:
        """The commands that standard error tells to type, in their order."""
        return re.findall("nachalnik resume [^`\n]*", self.err)

    def events(self) -> list[str]:
        return [line["event"]["event"] for line in self.lines() if "event" in line]


@attrs.define
class Shell:
    """A folder to work in, with `tools.py` and a script for the model."""

    folder: Path
    runner: Callable[..., Ran] | None = None
    """Runs a command in this process instead, where that is as good: ten times as fast."""

    def __attrs_post_init__(self) -> None:
        (self.folder / "tools.py").write_text(TOOLS)

    @property
    def log(self) -> Path:
        return self.folder / "s.jsonl"

    def script(self, *replies: str, name: str = "script.txt") -> str:
        text = "".join(f"model> {reply}\n" for reply in replies)
        (self.folder / name).write_text(text)
        return name

    def env(self, **more: str) -> dict[str, str]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}
        for name in ("OPENAI_API_KEY", "NACHALNIK_API_KEY", "NO_COLOR", "COLUMNS"):
            if name not in more:
                env.pop(name, None)
        return env

    def run(self, *arguments: str, stdin: str | bytes = "", **more: str) -> Ran:
        if self.runner is not None and not stdin and not more:
            return self.runner(*arguments)
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ran = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.env(**more),
            input=given,
            capture_output=True,
            timeout=WAIT_S,
        )
        out, err = ran.stdout.decode(), ran.stderr.decode()
        assert "Traceback" not in err, err
        return Ran(ran.returncode, out, err)

    def turn(self, *arguments: str, tools: str = "tools:TOOLS", **more: str) -> Ran:
        """`run` on the log with the script; a prompt unless there is standard input."""
        prompt = () if "stdin" in more else ("go",)
        return self.run(*self.turn_words(*prompt, *arguments, tools=tools), **more)

    def turn_words(self, *arguments: str, tools: str = "tools:TOOLS") -> tuple[str, ...]:
        return (
            *("run", *arguments, "--log", "s.jsonl", "--script", "script.txt"),
            *(("--tools", tools) if tools else ()),
        )

    def resume(self, *arguments: str, tools: str = "tools:TOOLS") -> Ran:
        return self.run(*self.resume_words(*arguments, tools=tools))

    def resume_words(self, *arguments: str, tools: str = "tools:TOOLS") -> tuple[str, ...]:
        return ("resume", "s.jsonl", "--script", "script.txt", "--tools", tools, *arguments)

    def type(self, command: str) -> Ran:
        """A command line that was printed, in a shell, as somebody would type it."""
        start = f'nachalnik() {{ {" ".join(COMMAND)} "$@"; }}\n'
        ran = subprocess.run(
            ["sh", "-c", start + command],
            cwd=self.folder,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
        )
        out, err = ran.stdout.decode(), ran.stderr.decode()
        assert "Traceback" not in err, err
        return Ran(ran.returncode, out, err)

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.env(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def notes(self) -> list[str]:
        path = self.folder / "notes.txt"
        return path.read_text().splitlines() if path.exists() else []


def wait_for(path: Path) -> None:
    """Until a file is there. Fails after a time in which anything would have happened."""
    end = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.01)


class Terminal:
    """A command with a terminal for standard input, output and error."""

    def __init__(self, shell: Shell, *arguments: str, out: int | None = None, **more: str) -> None:
        self.seen = ""
        self._fd, other = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=shell.folder,
            env=shell.env(**{"TERM": "xterm", **more}),
            stdin=other,
            stdout=other if out is None else out,
            stderr=other,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(other)

    def until(self, text: str) -> str:
        """What is printed up to and with `text`, which is thereby used up."""
        end = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} never came: {self.seen!r}"
            if not self._read(0.1) and self.process.poll() is not None:
                raise AssertionError(f"{text!r} never came: {self.seen!r}")
        head, _, self.seen = self.seen.partition(text)
        return head + text

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> tuple[int, str]:
        """The exit status, and what was printed last."""
        while self._read(WAIT_S):
            pass
        status = self.process.wait(WAIT_S)
        os.close(self._fd)
        assert "Traceback" not in self.seen, self.seen
        return status, self.seen

    def _read(self, timeout: float) -> bool:
        if not select.select([self._fd], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode().replace("\r\n", "\n")
        return bool(data)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def finish(process: subprocess.Popen) -> Ran:
    """Wait for the end; what was not read yet of its output. One that does not end is killed."""
    timer = threading.Timer(WAIT_S, process.kill)
    timer.start()
    try:
        # Not `communicate`, which would lose what a `readline` before it has buffered.
        out = b"" if process.stdout is None else process.stdout.read()
        err = process.stderr.read()
        status = process.wait()
    finally:
        timer.cancel()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    assert b"Traceback" not in err, err.decode()
    return Ran(status, out.decode(), err.decode())


def interrupt(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
