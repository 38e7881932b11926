"""`nachalnik run`: a prompt becomes a turn."""

import sys
from collections.abc import AsyncIterator

import anyio.to_thread
import click

from nachalnik.cli.asking import Asker, Nobody, Person, is_at_terminal
from nachalnik.cli.command import Command, Stop, as_json
from nachalnik.cli.driving import Session, drive
from nachalnik.cli.interrupts import Interrupts
from nachalnik.cli.options import RULES_HELP, PartOptions, Parts, part_options
from nachalnik.cli.output import complain
from nachalnik.cli.statuses import (
    DONE,
    FAILED,
    INTERRUPTED,
    OWNED,
    UNUSABLE,
    WAITING,
    listed,
)
from reducers.vocabulary.items import ContextItem

EPILOG = f"""\
What happens is printed as it happens: text as it streams, each call with its arguments, each
result, and where the session rests. With --json it is one record a line, as `show --json` prints
it, fragments between them, and a last line with the state, the open questions and the status.

{RULES_HELP}
A call that no rule speaks of is asked about at a terminal and refused elsewhere. One that --ask
speaks of waits elsewhere: the status is 3, and `nachalnik resume` takes the answer. What is open on
the log comes first, before the prompt enters.

Ctrl-C lets the turn rest before its next step; a second one leaves what is under way, and the log
says so.

Examples:
  nachalnik run "Say hello." --log s.jsonl --model gpt-5-mini
  nachalnik run "Say hello." --log s.jsonl --model qwen3 --base-url http://127.0.0.1:11434/v1
  nachalnik run "Tidy up." --log s.jsonl --model gpt-5-mini \\
      --tools my_tools:TOOLS --allow fs:read --ask fs:write
  nachalnik run --log s.jsonl --script replies.txt < prompts.txt

{
    listed(
        (DONE, "every turn is at its end"),
        (FAILED, "a turn failed, or rests at its limit of requests"),
        (UNUSABLE, "the log cannot be read, or an option cannot be used or is missing"),
        (WAITING, "a question is open and nobody is there to answer it"),
        OWNED,
        INTERRUPTED,
    )
}
"""


@click.command("run", cls=Command, epilog=EPILOG)
@click.argument("prompt", required=False)
@click.option("--log", metavar="FILE", required=True, help="The session's log, new or existing.")
@click.option("--system", metavar="TEXT", help="What a new session tells the model at its top.")
@part_options
@as_json
def command(
    prompt: str | None, log: str, system: str | None, parts: PartOptions, is_json: bool
) -> int:
    """Run one turn on a log: PROMPT, or each line of standard input where there is none."""
    if prompt is None and sys.stdin.isatty():
        raise Stop("nothing to say: give a PROMPT, or lines on standard input")
    if prompt is not None and not prompt.strip():
        raise Stop("the PROMPT is blank")

    def asker(interrupts: Interrupts, made: Parts) -> Asker:
        return Person(interrupts) if is_at_terminal() else Nobody(made.rules.info())

    async def work(session: Session) -> int:
        kernel = session.kernel
        if status := await session.recover():
            return status
        if not await session.questions():
            complain("the prompt has not entered: what is open on the log comes first")
            return session.unanswered()
        if session.absent_tools():
            return UNUSABLE
        if system is not None:
            if kernel.items() or kernel.turn_number():
                complain("--system is left out: the session has begun already")
            else:
                kernel.push(ContextItem.system(system).pinned())
        async for text in _prompts(prompt, session):
            kernel.push(ContextItem.user(text))
            if status := await session.turn():
                return status
        return DONE

    return drive(log, parts, asker, work, is_json=is_json, needs_model=True)


async def _prompts(prompt: str | None, session: Session) -> AsyncIterator[str]:
    """The prompt, or the lines of standard input that are not blank, as they come."""
    if prompt is not None:
        yield prompt
        return
    while not session.interrupts.count:
        line = b""
        with session.interrupts.guard():
            line = await anyio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True)
        if not line:
            return
        # What is no UTF-8 is mended by the kernel, which counts it.
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if text.strip():
            yield text
