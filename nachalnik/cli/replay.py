"""`nachalnik replay`: every input judged again, offline, and compared byte for byte."""

from typing import Any

import attrs
import click
import msgspec

from effects.logs.contents import ContentFolder
from effects.logs.scan import read_log
from effects.logs.syscalls import SYSCALLS
from effects.parts import load_object, load_reducer
from effects.replay import Divergence, Redriven, first_difference, read_header, redrive
from nachalnik.cli.command import Command, Stop, as_json
from nachalnik.cli.options import make_importable
from nachalnik.cli.output import standard_output
from nachalnik.cli.statuses import DONE, FAILED, INTERRUPTED, UNUSABLE, listed
from nachalnik.cli.words import on_one_line, visible
from reducers.reducer import Projector, Reducer
from reducers.state import State
from reducers.tokens import TokenCounter
from reducers.vocabulary.inputs import DEFAULT_SEAMS, Seams

EPILOG = f"""\
Each recorded input is judged by the rules of this version, and what comes of it is compared with
what was recorded. Nothing is sent and no tool is run; no key is needed. The log is only read.

--with puts a pure seam (a projector, a token counter) in the place of the one the log names, or a
whole Reducer in the place of both: an instance, or a class that needs no arguments.

Examples:
  nachalnik replay s.jsonl
  nachalnik replay s.jsonl --until 40
  nachalnik replay s.jsonl --with my_seams:Shorter

{
    listed(
        (DONE, "identical"),
        (FAILED, "a divergence; the first is shown, as expected and as got"),
        (UNUSABLE, "the log cannot be read, or a seam it names cannot be loaded"),
        INTERRUPTED,
    )
}
"""


@click.command("replay", cls=Command, epilog=EPILOG)
@click.argument("log")
@click.option(
    "--until", metavar="POSITION", type=click.IntRange(min=0), help="Stop behind this commit."
)
@click.option(
    "--with",
    "seams",
    metavar="MODULE:NAME",
    multiple=True,
    help="A seam or Reducer to judge with. Give it again for the other.",
)
@as_json
def command(log: str, until: int | None, seams: tuple[str, ...], is_json: bool) -> int:
    """Judge every input of LOG again and compare what comes of it with what was recorded."""
    with standard_output(is_json) as output:
        replaced = replacements(seams)
        with read_log(log) as view:
            load = ContentFolder(SYSCALLS, view.path).read
            values = (value for _, value in view.commits)
            header = read_header(view)
            found = redrive(
                header, values, load, until=until, reducer_of=replaced.reducer, path=view.path
            )
        if until is not None and found.divergence is None and found.commits < until:
            raise Stop(f"{log}: there is no position {until}; the last is {found.commits}")
        if is_json:
            output.json(_as_dict(found))
        elif found.divergence is None:
            output.line(f"identical: {found.commits} commits, {found.events} events")
        else:
            for line in _told(found.divergence):
                output.line(line)
    return DONE if found.divergence is None else FAILED


# -- what judges -------------------------------------------------------------------------------


@attrs.define
class Replacements:
    """What `--with` names, in place of what the log names."""

    whole: Reducer | None = None
    projector: Projector | None = None
    counter: TokenCounter | None = None

    def reducer(self, state: State) -> Reducer:
        if self.whole is not None:
            return self.whole
        # A seam that is replaced need not be there to be loaded.
        named, default = state.session.seams, DEFAULT_SEAMS
        loaded = load_reducer(
            Seams(
                default.projector if self.projector else named.projector,
                default.counter if self.counter else named.counter,
            )
        )
        return Reducer(self.projector or loaded.projector, self.counter or loaded.counter)


def replacements(places: tuple[str, ...]) -> Replacements:
    """Raises `InvalidInput`, `Stop`: which place cannot be used, and why."""
    make_importable()
    found = Replacements()
    for place in places:
        seam = _instance(load_object(place), place)
        kinds = {
            "whole": isinstance(seam, Reducer),
            "projector": callable(getattr(seam, "project", None)),
            "counter": callable(getattr(seam, "count_item", None)),
        }
        kind = next((name for name, fits in kinds.items() if fits), None)
        if kind is None:
            raise Stop(f"--with {place}: it is neither a projector, nor a counter, nor a Reducer")
        if getattr(found, kind) is not None:
            raise Stop(f"--with {place}: its kind was given already")
        setattr(found, kind, seam)
    if found.whole is not None and (found.projector or found.counter):
        raise Stop("--with: a Reducer holds both seams; leave the others out")
    return found


def _instance(found: Any, place: str) -> Any:
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:
        raise Stop(
            f"--with {place}: name an instance, or a class that can be made without arguments "
            f"({type(error).__name__}: {error})"
        ) from error


# -- what came of it ---------------------------------------------------------------------------


def _event(event: Any) -> Any:
    return None if event is None else msgspec.to_builtins(event)


def _as_dict(found: Redriven) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "identical": found.divergence is None,
        "commits": found.commits,
        "events": found.events,
    }
    if found.divergence is not None:
        place, expected, got = first_difference(found.divergence)
        plain["divergence"] = {
            "position": found.divergence.position,
            "input": found.divergence.input,
            "event": place,
            "expected": _event(expected),
            "got": _event(got),
            "error": found.divergence.error,
        }
    return plain


def _told(divergence: Divergence) -> list[str]:
    place, expected, got = first_difference(divergence)
    head = f"divergence at position {divergence.position}, input {divergence.input}"
    if divergence.error:
        head += f": {on_one_line(divergence.error)}"
    elif expected is None and got is None:
        return [f"{head}: the events are equal, the bytes of the commit are not"]
    else:
        head += f", event {place} of the commit"
    return [head, f"expected {_json(expected)}", f"got      {_json(got)}"]


def _json(event: Any) -> str:
    return "nothing" if event is None else visible(msgspec.json.encode(event).decode())
