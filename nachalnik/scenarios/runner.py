"""Running scripts, and comparing what they left with what they say."""

import contextlib
import difflib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import anyio
import attrs

import nachalnik
from effects.logs.port import LogError
from nachalnik.scenarios import trace
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import RULE, NotationError, Story, parse
from nachalnik.scenarios.oracles import ends_problems, log_problems, read_told, start_problems
from nachalnik.scenarios.teller import Teller

STORY_S_MAX = 60.0
"""Seconds after which a story is taken for stuck: none waits for anything but its own lines."""

Outcome = Literal["as written", "rewritten", "differs", "broken", "unreadable", "unwritable"]


@attrs.frozen
class Report:
    """What became of one script. `findings` are oracles and expectations that do not hold, `diff`
    the lines in which its trace differs."""

    script: str
    outcome: Outcome
    findings: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 as written, 1 when it differs or an oracle is broken, 2 for a file of no use."""
        if self.outcome in ("unreadable", "unwritable"):
            return 2
        return 0 if self.outcome in ("as written", "rewritten") else 1

    def __str__(self) -> str:
        lines = [f"{self.outcome}: {self.script}"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  {line}" for line in self.diff]
        return "\n".join(lines)


def run_files(paths: Iterable[str | os.PathLike[str]], rewrite: bool = False) -> Iterator[Report]:
    """Run scripts, one each time a report is asked for."""
    for path in paths:
        yield run_file(path, rewrite)


def run_file(path: str | os.PathLike[str], rewrite: bool = False) -> Report:
    """Run one script; with `rewrite`, put the trace it left in the place of the one it has. One
    whose log cannot be read to its end left no trace, and keeps the one it has."""
    name = os.fspath(path)
    try:
        story = parse(Path(path).read_text(encoding="utf-8"))
    except NotationError as error:
        problem = f"{name}, line {error.line}: {error.problem}"
        return Report(name, "unreadable", (problem,))
    except (OSError, UnicodeDecodeError) as error:
        return Report(name, "unreadable", (f"{name}: {error}; name a script in UTF-8",))
    with tempfile.TemporaryDirectory(prefix="nachalnik-story-") as place:
        folder = Folder(place)
        findings = run_story(story, folder, Path(path))
        findings, found = judge(story, folder, findings)
    if rewrite and found is not None and story.trace != found:
        try:
            Path(path).write_text(f"{story.head}{_newline(story.head)}{RULE}\n{found}", "utf-8")
        except OSError as error:
            return Report(name, "unwritable", (*findings, f"its trace was not written: {error}"))
    if findings or found is None:
        return Report(name, "broken", tuple(findings))
    if story.trace == found:
        return Report(name, "as written")
    if rewrite:
        return Report(name, "rewritten")
    if story.trace is None:
        return Report(name, "differs", ("it has no trace yet: --rewrite writes it",))
    return Report(name, "differs", (), _difference(story.trace, found))


def _newline(head: str) -> str:
    return "" if head.endswith("\n") or not head else "\n"


def _difference(written: str, found: str) -> tuple[str, ...]:
    lines = difflib.unified_diff(
        written.splitlines(), found.splitlines(), "as written", "as it ran", lineterm="", n=1
    )
    return tuple(lines)


# -- running -----------------------------------------------------------------------------------


def run_story(story: Story, folder: Folder, script: Path) -> list[str]:
    """Tell a story in this process, or, where one is killed or left, in processes of its own.

    Returns what went wrong with the telling itself.
    """
    if not story.needs_process:
        try:
            return anyio.run(_tell_in_time, story, folder)
        except Exception as error:
            return [f"step {folder.place()}: a fault: {type(error).__name__}: {error}"]
    return _run_children(folder, script)


async def _tell_in_time(story: Story, folder: Folder) -> list[str]:
    with anyio.move_on_after(STORY_S_MAX) as scope:
        await Teller(story, folder).tell()
    return [_stuck(folder)] if scope.cancelled_caught else []


def _stuck(folder: Folder) -> str:
    return f"step {folder.place()}: it did not end within {STORY_S_MAX:.0f} s"


def _run_children(folder: Folder, script: Path) -> list[str]:
    root = str(Path(nachalnik.__file__).parent.parent)
    paths = [root, os.environ.get("PYTHONPATH", "")]
    child = subprocess.Popen(  # noqa: S603 - ourselves, with arguments of our own
        [sys.executable, "-m", "nachalnik.scenarios.child", str(script), str(folder.path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said: str | None = None
    try:
        said = child.communicate(timeout=STORY_S_MAX)[1]
    except subprocess.TimeoutExpired:
        return [_stuck(folder)]
    finally:
        if said is None:
            _kill(child)
    return said.strip().splitlines()[-2:] if child.returncode else []


def _kill(child: subprocess.Popen[str]) -> None:
    """End a child and those it started. In a session of their own they hear no Ctrl-C of ours."""
    with contextlib.suppress(ProcessLookupError), child:
        os.killpg(child.pid, signal.SIGKILL)


# -- judging -----------------------------------------------------------------------------------


def judge(story: Story, folder: Folder, findings: list[str]) -> tuple[list[str], str | None]:
    """Every finding of a story that was told, and its trace: None where the log cannot be read to
    its end."""
    try:
        told = read_told(folder.log)
    except (LogError, ValueError) as error:
        return [*findings, f"oracle L: the log cannot be read: {error}"], None
    found = [*findings, *folder.findings()]
    unused = story.replies[folder.next_reply() :]
    found += [f"line {reply.line}: this reply was never asked for" for reply in unused]
    found += log_problems(told, folder)
    found += start_problems(told, folder)
    found += ends_problems(told, story.open)
    if told.problem:
        return found, None
    return found, trace.render(told.states, told.commits, folder.notes())
