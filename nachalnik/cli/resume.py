"""`nachalnik resume`: what is open on a log, then on with its turn."""

import click

from effects.logs.scan import read_log
from nachalnik.cli.asking import (
    Asker,
    Given,
    Person,
    is_at_terminal,
    list_left,
    parse_answers,
)
from nachalnik.cli.command import Command, Stop, as_json
from nachalnik.cli.driving import Session, drive
from nachalnik.cli.interrupts import Interrupts
from nachalnik.cli.options import (
    KEY,
    OPENAI_KEY,
    RULES_HELP,
    PartOptions,
    Parts,
    part_options,
    provider_of_log,
)
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
from nachalnik.cli.words import visible
from nachalnik.kernel import Kernel
from reducers.vocabulary.items import UserMessage

EPILOG = f"""\
First the tools that can tell how a run ended which a crash cut short are asked. Then what is still
open is asked about at the terminal; elsewhere --answer answers it, and what has no answer is listed
with its ID. A permission is allowed or denied. A call whose outcome is unknown is never run again
by itself: say retry (run it again, under the same key), settle:TEXT (its result was TEXT), or fail
or fail:TEXT (it failed). A run that Ctrl-C left is answered so too, under the name of its call.
Then the turn goes on to its end, if it is not there.

Without --model and --script the model that the log names is asked, at the server it names: OpenAI's
with the key in {OPENAI_KEY}, one on this machine with that in {KEY}. Any other
is sent a key only where --base-url names it. Tools stand in no log: give --tools again.

{RULES_HELP}
Away from a terminal nothing is refused for want of an answer: it waits, and the status is 3.

Examples:
  nachalnik resume s.jsonl
  nachalnik resume s.jsonl --answer 1=allow --answer 2=settle:"It was sent." \\
      --model gpt-5-mini --tools my_tools:TOOLS

{
    listed(
        (DONE, "the turn is at its end, or nothing was left to do"),
        (FAILED, "the turn failed, or rests at its limit of requests"),
        (UNUSABLE, "the log cannot be read, an answer or option cannot be used, or one is missing"),
        (WAITING, "a question is open and nobody is there to answer it"),
        OWNED,
        INTERRUPTED,
    )
}
"""


@click.command("resume", cls=Command, epilog=EPILOG)
@click.argument("log")
@click.option(
    "--answer",
    "answers",
    metavar="ID=HOW",
    multiple=True,
    help="Answer a question: allow, deny, retry, fail or settle:TEXT. Give it again for more.",
)
@part_options
@as_json
def command(log: str, answers: tuple[str, ...], parts: PartOptions, is_json: bool) -> int:
    """Answer the open questions of LOG, then go on with its turn."""
    given = Given(parse_answers(answers))
    read_log(log).close()  # what is no log is told before a new one would be begun

    def asker(interrupts: Interrupts, _: Parts) -> Asker:
        return Person(interrupts) if is_at_terminal() else given

    async def work(session: Session) -> int:
        given.check(session.kernel)
        if status := await session.recover():
            return status
        await given.answer(session.kernel)
        for name in given.answers:
            complain(f"--answer {name}: not needed: its tool told how the run had ended")
        if session.asker is given:
            list_left(session.kernel)
        if not await session.questions():
            return session.unanswered()
        if not _is_unfinished(session.kernel):
            complain(f"{log}: nothing is left to do")
            return DONE
        if not _has_parts(session):
            if answers:
                complain("the answers are in the log: leave out --answer")
            return UNUSABLE
        return await session.turn()

    return drive(log, parts, asker, work, is_json=is_json, needs_model=False)


def _has_parts(session: Session) -> bool:
    """Whether the turn can go on: with the model the log names where none is given, and with the
    tools of the calls that are ready. What is missing is told."""
    is_whole = not session.absent_tools()
    if session.kernel.provider() is None:
        named = session.kernel.state_at(session.kernel.position).parts.model
        try:
            session.kernel.set_provider(provider_of_log(named, session.options))
        except Stop as stop:
            complain(visible(str(stop)))
            is_whole = False
    return is_whole


def _is_unfinished(kernel: Kernel) -> bool:
    """Whether a turn is open, or a crash came between a prompt and its turn."""
    if kernel.is_turn_open():
        return True
    sent = (item for item in reversed(kernel.items()) if item.is_projected())
    return isinstance(getattr(next(sent, None), "kind", None), UserMessage)
