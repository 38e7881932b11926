"""The state of a session, and how each event changes it.

A machine takes from an event what concerns it; one event may concern several, and a few need a word
of a neighbour (`JOINT`). Adding an event is one line in the table of a machine; a test holds the
keys of `TABLE` against the union `Event`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from reducers.machines import (
    calibration,
    calls,
    context,
    loop,
    parts,
    questions,
    requests,
    session,
    timers,
)
from reducers.machines.calibration import Calibrations
from reducers.machines.calls import Calls
from reducers.machines.context import Context
from reducers.machines.loop import Loop
from reducers.machines.parts import Parts
from reducers.machines.questions import Questions
from reducers.machines.requests import Requests
from reducers.machines.session import Session
from reducers.machines.timers import Timers
from reducers.vocabulary.content import Held
from reducers.vocabulary.effects import Effect
from reducers.vocabulary.events import (
    BookkeepingEvent,
    ContextAdded,
    CounterObserved,
    Event,
    ModelRequested,
    RecordedEvent,
    ToolRequested,
)
from reducers.vocabulary.inputs import Input
from reducers.vocabulary.json import EMPTY_OBJECT


class State(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a fold of the log amounts to. Exists only at commit borders."""

    position: int = 0
    """Of the last commit."""
    last_seq: int = 0
    """Of the last recorded event."""
    session: Session = Session()
    parts: Parts = Parts()
    context: Context = Context()
    loop: Loop = Loop()
    requests: Requests = Requests()
    calls: Calls = Calls()
    questions: Questions = Questions()
    calibrations: Calibrations = Calibrations()
    timers: Timers = Timers()


class Commit(Struct, frozen=True, gc=False):
    """One input and the events it caused. `at` is milliseconds since the epoch, stamped by the
    shell; no rule reads it. `cause` says what brought the input about, where that is known."""

    at: int
    position: int
    input: Input
    events: tuple[Event, ...]
    cause: str = ""


class Step(Struct, frozen=True, gc=False):
    """What one input came to. Without events nothing happened and nothing is written."""

    state: State
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]
    raised: BaseException | None = None
    """What the face raises after the commit. Never encoded."""


def initial(log: str, session_name: str) -> State:
    """The state before the first commit of a log."""
    return State(session=Session(name=session_name, log=log))


# -- evolve ------------------------------------------------------------------------------------

Evolve = Callable[[State, Any, int], Any]
"""From the state, an event and the position it happens at, to the machine that changes."""

MACHINES: tuple[tuple[str, dict[type, Callable[[Any, Any, int], Any]]], ...] = (
    ("session", session.EVOLVE),
    ("parts", parts.EVOLVE),
    ("context", context.EVOLVE),
    ("loop", loop.EVOLVE),
    ("requests", requests.EVOLVE),
    ("calls", calls.EVOLVE),
    ("questions", questions.EVOLVE),
    ("calibrations", calibration.EVOLVE),
    ("timers", timers.EVOLVE),
)


def _add_item(state: State, event: ContextAdded, here: int) -> Context:
    item = event.item
    if type(item.content) is Held:
        event = replace(event, item=replace(item, content=answer_held(state, event)))
    return context.added(state.context, event, here)


def answer_held(state: State, event: ContextAdded) -> Any:
    """The content an earlier `call.answered` of this batch holds for the item."""
    call = calls.find(state.calls, getattr(event.item.kind, "call", ""))
    if call is None or call.output is None:
        raise ValueError(f"item {event.item.id} holds an answer that its batch does not have")
    return call.output.content


def _request_tool(state: State, event: ToolRequested, here: int) -> Calls:
    turn = context.item(state.context, state.calls.item)
    args = EMPTY_OBJECT
    for call in () if turn is None else turn.calls():
        if call.id == event.call:
            args = call.args
            break
    # Those of this process or of an earlier one: `tool.unknown` follows where it is neither.
    spec = parts.named(state.parts.tools, event.tool)
    question = 0 if event.effect is None else state.questions.next_id
    return calls.requested(state.calls, event, here, args, spec, question)


def _request_model(state: State, event: ModelRequested, here: int) -> Requests:
    last = state.requests
    is_same = last.model and last.model_at == event.model
    return requests.requested(last, event, here, last.model if is_same else str(state.parts.model))


def _observe(state: State, event: CounterObserved, here: int) -> Calibrations:
    return calibration.observed(state.calibrations, event, state.requests.model)


JOINT: dict[type, tuple[str, Evolve]] = {
    ContextAdded: ("context", _add_item),
    ToolRequested: ("calls", _request_tool),
    ModelRequested: ("requests", _request_model),
    CounterObserved: ("calibrations", _observe),
}


def _table() -> dict[type, tuple[tuple[str, Callable[[Any, Any, int], Any]], ...]]:
    found: dict[type, list[tuple[str, Callable[[Any, Any, int], Any]]]] = {}
    for field, evolves in MACHINES:
        for event, change in evolves.items():
            found.setdefault(event, []).append((field, change))
    return {event: tuple(changes) for event, changes in found.items()}


TABLE = _table()
_Change = tuple[str, Callable[[Any, Any, int], Any], bool]
PLAN: dict[type, tuple[_Change, ...]] = {
    kind: (
        *((field, change, True) for field, change in ([JOINT[kind]] if kind in JOINT else [])),
        *((field, change, False) for field, change in TABLE.get(kind, ())),
    )
    for kind in Event.__args__
}
"""By event: the machines that change, in order, and whether they are given the whole state."""
UNNUMBERED: tuple[type, ...] = BookkeepingEvent.__args__
NUMBERED = frozenset(RecordedEvent.__args__)


def evolve(state: State, event: Event) -> State:
    """Apply one event. Total over every tag ever written; judges nothing."""
    after = replace(state)
    happen(after, event, state.position + 1)
    _number(after, (event,))
    return after


def fold(state: State, events: Sequence[Event]) -> State:
    """Apply the events of exactly one commit, and count it."""
    after = replace(state)
    here = state.position + 1
    for event in events:
        happen(after, event, here)
    _number(after, events)
    force_setattr(after, "position", here)
    return after


def happen(state: State, event: Event, here: int) -> None:
    """Apply an event in place, but for its number: only for a state that nobody else has yet."""
    for field, change, is_joint in PLAN[type(event)]:
        part = state if is_joint else getattr(state, field)
        force_setattr(state, field, change(part, event, here))


def _number(state: State, events: Sequence[Event]) -> None:
    for event in reversed(events):
        if type(event) in NUMBERED and event.seq:  # type: ignore[union-attr]
            force_setattr(state, "last_seq", event.seq)  # type: ignore[union-attr]
            return
