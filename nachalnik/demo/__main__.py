"""The demo's stages, and what is said at each."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from nachalnik.cli.statuses import INTERRUPTED
from nachalnik.demo import session
from nachalnik.testing.wire import WireServer

REPLIES = sorted(Path(__file__).with_name("replies").glob("*.sse"))
LOG = "session.jsonl"
SHOWN_EVENTS = slice(4, 11)
SHOWN_CHARACTERS = 84

WIRE = """
The model is a script, and everything else is real. Its replies stand in nachalnik/demo/replies,
byte for byte as a Chat Completions server streams them. They come over a loopback socket and go
through OpenAIChatProvider, as those of any such server do. A piece of the first:
"""
FIRST = f"""
A process opens a log, pushes one message and runs the turn:

  {session.PROMPT}

Each line below is an event, behind the position of its commit in the log. The rules allow fs:read,
so both files are read, at the same time. No rule speaks of fs:write: that call is asked about.
"""
KILLED = """
  SIGKILL. The file is written, and the process died before it could say so.
"""
SECOND = """
Another process opens the log. The call was started and has no result, so its outcome is unknown;
it is not run again. Its tool can tell what became of it, because the key of the call stands in the
file it wrote. The tool is asked before any person is, its answer becomes the result of the call,
and the turn goes on to its end.
"""
ONCE = """
  The writing tool was started {starts} time(s), and the folder holds {notes} note(s).
"""
COMMANDS = {
    "check": "Every line of the log is as it was written, and every call has its result.",
    "replay": "Every input is judged again, with no model and no tool; the bytes must be equal.",
    "show": "The whole session, from its log alone. Its clock counts, so the times repeat.",
}
NEXT = """
With your own key in OPENAI_API_KEY, or with a local server that speaks Chat Completions (this is
Ollama's address), and any model that it has:

  {command} run "Say hello." --log my.jsonl --model gpt-5-mini
  {command} run "Say hello." --log my.jsonl --model qwen3 --base-url http://127.0.0.1:11434/v1

Kill one in the middle if you like, and go on with

  {command} resume my.jsonl --model gpt-5-mini
"""


def main() -> int:
    replies = [reply.read_bytes() for reply in REPLIES]
    with (
        tempfile.TemporaryDirectory(prefix="nachalnik-demo-") as folder,
        WireServer(replies) as server,
    ):
        log = Path(folder, LOG)
        say("1. The wire", WIRE)
        print(piece_of(replies[0]))
        say("2. A session that dies", FIRST)
        if not run_until_killed(log, server.base_url):
            print("The session ended before its tool had written.", file=sys.stderr)
            return 1
        print(KILLED.rstrip())
        say("3. The session goes on", SECOND)
        starts = anyio.run(session.go_on, log, server.base_url)
        print(ONCE.format(starts=starts, notes=len(list(log.parent.glob(session.NOTES)))))
        for number, (command, words) in enumerate(COMMANDS.items(), start=4):
            say(f"{number}. nachalnik {command} {LOG}", words)
            argv = [sys.executable, "-m", "nachalnik", command, LOG]
            status = subprocess.call(argv, cwd=folder)  # noqa: S603
            if status:
                return status
    say("Next", NEXT.format(command=command_here()))
    return 0


def say(title: str, words: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}\n{words.strip()}\n", flush=True)


def piece_of(reply: bytes) -> str:
    """Some events in the middle of a reply, from where they begin to differ."""
    events = reply.decode().split("\n\n")[SHOWN_EVENTS]
    pieces = (event[event.index('"choices"') :] for event in events)
    return "\n".join(f"  data: {{... {piece[:SHOWN_CHARACTERS]} ..." for piece in pieces)


def run_until_killed(log: Path, base_url: str) -> bool:
    """Whether the first process came as far as the effect of its writing tool."""
    command = [sys.executable, "-m", session.__name__, str(log), base_url]
    has_written = False
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C is for us, and we end it
    ) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                has_written = line.rstrip("\n") == session.WRITTEN
                if has_written:
                    break
                print(line, end="", flush=True)
        finally:
            child.kill()
    return has_written and child.returncode == -signal.SIGKILL


def command_here() -> str:
    """What to type for the console command, from where the reader is."""
    command, here = Path(sys.executable).with_name("nachalnik"), Path.cwd()
    return str(command.relative_to(here)) if command.is_relative_to(here) else command.name


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
