"""The demo's session, told by two processes: one that is killed, and one that goes on.

`python -m nachalnik.demo.session LOG BASE_URL` is the first. It never ends by itself: when the
writing tool has written, it prints `WRITTEN` and waits to be killed.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import anyio

from effects.parts import Rules
from effects.providers.openai_chat import OpenAIChatProvider
from nachalnik.cli.timeline import matter
from nachalnik.demo.tools import reading_tool, writing_tool
from nachalnik.kernel import Kernel
from nachalnik.subscriptions import Live
from reducers.views import Record
from reducers.vocabulary.config import Config
from reducers.vocabulary.items import ContextItem

PROMPT = "Look at README.md and pyproject.toml, then write a note about them."
WRITTEN = "-- the tool has written its file --"
NOTES = "*.md"

TOLD = (
    "model.requested",
    "model.finished",
    "tool.requested",
    "permission.requested",
    "permission.decided",
    "tool.started",
    "tool.finished",
    "question.opened",
    "question.answered",
    "turn.closed",
)
"""The records that the story needs; `nachalnik show` tells all."""

STAMP_MS = 1764540000000
HOUR_MS = 3_600_000


def open_session(
    log: Path, base_url: str, opening: int, when_written: Callable[[], None] | None = None
) -> tuple[Kernel, OpenAIChatProvider]:
    """The same parts in either process. A clock that counts seconds makes the output repeat."""
    provider = OpenAIChatProvider("demo-1", base_url=base_url, name="loopback")
    stamps = itertools.count(STAMP_MS + opening * HOUR_MS, 1000)
    kernel = Kernel.open(
        log,
        provider=provider,
        tools=[reading_tool(Path.cwd()), writing_tool(log.parent, when_written)],
        policy=Rules(allow=["fs:read"]),
        config=Config(session_name="demo", parallel_tool_calls=True),
        clock=partial(next, stamps),
    )
    return kernel, provider


def tell(events: Iterable[Live]) -> None:
    for event in events:
        if isinstance(event, Record) and event.name in TOLD:
            print(f"  {event.position:>3}  {event.name:<21} {matter(event)}", flush=True)


# -- the first process -------------------------------------------------------------------------


async def begin(log: Path, base_url: str) -> None:
    """Push, run, answer the question with yes, run the writing tool; and wait there."""

    def when_written() -> None:
        tell(events.drain())
        print(WRITTEN, flush=True)
        sys.stdin.read()  # ends when the parent is gone
        os._exit(1)

    kernel, _ = open_session(log, base_url, 0, when_written)
    events = kernel.subscribe(all=True)
    kernel.push(ContextItem.user(PROMPT))
    await kernel.turn()
    tell(events.drain())
    for question in kernel.pending_permissions():
        print(f"\n  May {question.tool} run? The demo says yes in your place.\n", flush=True)
        kernel.decide(question.id, "allow", args=question.args_digest)
    await kernel.turn()


# -- the second process ------------------------------------------------------------------------


async def go_on(log: Path, base_url: str) -> int:
    """Open again, let the tool settle what is unknown, end the turn.

    Returns how often the writing tool was ever started.
    """
    kernel, provider = open_session(log, base_url, 1)
    with kernel:
        history = kernel.history(all=True)
        tell(one for one in history if one.position == kernel.position)
        events = kernel.subscribe(all=True)
        await kernel.turn()
        tell(events.drain())
        await provider.aclose()
        started = [one for one in kernel.history() if one.name == "tool.started"]
    return sum(one["tool"] == "write_note" for one in started)


if __name__ == "__main__":
    anyio.run(begin, Path(sys.argv[1]), sys.argv[2])
