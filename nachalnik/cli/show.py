"""`nachalnik show`: the timeline of a log, or the state at a position. Locks and writes nothing."""

import os
import time
from collections.abc import Iterator

import click

from effects.logs.contents import ContentFolder
from effects.logs.lines import Place
from effects.logs.scan import LogView, follow, read_log
from effects.logs.syscalls import SYSCALLS
from effects.replay import initial_of, read_header, states
from nachalnik.cli.command import Command, Stop, as_json
from nachalnik.cli.output import Output, complain
from nachalnik.cli.snapshot import print_state, state_dict
from nachalnik.cli.statuses import DONE, INTERRUPTED, UNUSABLE, listed
from nachalnik.cli.timeline import day, lines_of
from nachalnik.cli.words import counted
from reducers.state import Commit, State
from reducers.views import records

Step = tuple[State, Commit, State]
"""A commit between the states before and after it."""
LOOK_S = 0.2
"""How often a log that is followed is looked at."""

EPILOG = f"""\
The timeline has a line for each event: position and time (UTC) of its commit, its name, and what
matters of it. With --json it is one record a line, whole.

With @POSITION the state is shown as it was after that commit: where the loop stood, every item with
its state and tokens, open questions, the budget, and the request that the items make: the one that
is out, unless what entered since makes another; then both are told. With --json it is one value. A
file whose own name ends in @NUMBER is meant where there is one.

The log may be in use: it is not locked, and nothing is written.

Examples:
  nachalnik show s.jsonl
  nachalnik show s.jsonl@9
  nachalnik show s.jsonl --follow
  nachalnik show s.jsonl --json | jq 'select(.event.event == "tool.requested").event.args'

{
    listed(
        (DONE, "shown"),
        (UNUSABLE, "the log cannot be read, or is damaged behind what was shown"),
        (INTERRUPTED, "interrupted, as --follow always is"),
    )
}
"""


@click.command("show", cls=Command, epilog=EPILOG)
@click.argument("log", metavar="LOG[@POSITION]")
@click.option("--all", "is_whole", is_flag=True, help="Show bookkeeping events too.")
@click.option("--follow", "is_followed", is_flag=True, help="Go on as the log grows, until Ctrl-C.")
@as_json
def command(log: str, is_whole: bool, is_followed: bool, is_json: bool) -> int:
    """Tell what happened in LOG, or show its state after the commit at POSITION."""
    path, position = place_of(log)
    if position is not None:
        if is_followed or is_whole:
            raise Stop("--follow and --all are for the timeline: leave out @POSITION")
        return _show_state(path, position, is_json)
    return _show_timeline(path, is_whole, is_followed, is_json)


def place_of(text: str) -> tuple[str, int | None]:
    """The path and, behind the last @, the position. A file of the whole name wins."""
    path, _, digits = text.rpartition("@")
    if os.path.lexists(text) or not path or not (digits.isascii() and digits.isdigit()):
        return text, None
    if len(digits) > 18:
        raise Stop(f"{path}: there is no position {digits[:18]}...")
    return path, int(digits)


def _show_state(path: str, position: int, is_json: bool) -> int:
    with read_log(path) as view:
        state = _before(view)
        for _, _, after in _folded(view.path, _values(view, position), state):
            state = after
    if state.position < position:
        raise Stop(f"{path}: there is no position {position}; the last is {state.position}")
    if is_json:
        Output().json(state_dict(state))
    else:
        print_state(Output(), state)
    return DONE


def _show_timeline(path: str, is_whole: bool, is_followed: bool, is_json: bool) -> int:
    output = Output()
    printer = _Printer(output, is_whole, is_json)
    with read_log(path) as view:
        state = _before(view)
        for before, commit, after in _folded(view.path, _values(view), state):
            printer.print(before, commit, after)
            state = after
            if output.is_closed:
                return DONE
        place = view.place
        if view.torn and not is_followed:
            complain(f"{path}: {counted(view.torn, 'byte')} at the end belong to no whole commit")
    if is_followed:
        _follow(path, place, state, printer)
    return DONE


def _before(view: LogView) -> State:
    return initial_of(read_header(view))


def _values(view: LogView, until: int | None = None) -> Iterator[bytes]:
    """Of the commits up to the one at `until`, which stands a line further down."""
    if until == 0:
        return
    for line, value in view.commits:
        yield value
        if line - 1 == until:
            return


def _folded(path: str, values: Iterator[bytes], state: State) -> Iterator[Step]:
    """The timeline never looks at an input."""
    return states(state, values, ContentFolder(SYSCALLS, path).read, path=path, has_inputs=False)


def _follow(path: str, place: Place, state: State, printer: "_Printer") -> None:
    """Until Ctrl-C, or until nobody reads. Raises `LogDamaged` where the log does not go on."""
    path = os.path.realpath(path)
    while not printer.output.is_closed:
        values, place = follow(path, place)
        for before, commit, after in _folded(path, iter(values), state):
            printer.print(before, commit, after)
            state = after
        if not values:
            time.sleep(LOOK_S)


class _Printer:
    """Prints commits as lines or as JSON, a new day where one begins."""

    def __init__(self, output: Output, is_whole: bool, is_json: bool) -> None:
        self.output = output
        self._is_whole = is_whole
        self._is_json = is_json
        self._day = ""

    def print(self, before: State, commit: Commit, after: State) -> None:
        if self._is_json:
            for record in records(before, commit, after):
                if self._is_whole or record.seq is not None:
                    self.output.json(record.to_dict())
            return
        lines = lines_of(before, commit, after, is_whole=self._is_whole)
        if lines and day(commit.at) != self._day:
            self._day = day(commit.at)
            self.output.line(f"-- {self._day}")
        for line in lines:
            self.output.line(line)
