"""A whole state as bytes, for the cache that makes opening quick. It can always be deleted."""

from typing import Any

import msgspec
from msgspec import Struct

from reducers.machines.calibration import Calibrations
from reducers.machines.calls import Call, Calls
from reducers.machines.context import Context, UndoPoint
from reducers.machines.loop import Loop
from reducers.machines.parts import Parts
from reducers.machines.questions import Question, Questions
from reducers.machines.requests import Requests
from reducers.machines.session import Session
from reducers.machines.timers import Timers
from reducers.state import State
from reducers.vocabulary.events import Skipped
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.models import Usage
from reducers.vocabulary.persistent import TextSet, Vector

FINGERPRINT = "state-3"
"""Of the vocabulary below. Changed by hand with it; a test holds it against the schema."""


class StoredPoint(Struct, frozen=True, gc=False):
    number: int
    at: int
    edits: tuple[tuple[int, ContextItem | None], ...]


class StoredContext(Struct, frozen=True, gc=False, omit_defaults=True):
    items: tuple[ContextItem | None, ...]
    count: int
    tokens: int
    withheld: int
    undo: tuple[StoredPoint, ...]
    redo: tuple[StoredPoint, ...]
    depth: int
    points: int
    loop_point: int


class StoredRequests(Struct, frozen=True, gc=False, omit_defaults=True):
    in_flight: str
    at: int
    model: str
    model_at: int
    estimated: int
    uncounted: int
    digest: str
    usage: Usage | None
    included: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    repairs: tuple[str, ...]


class StoredCalls(Struct, frozen=True, gc=False, omit_defaults=True):
    batch: tuple[Call, ...]
    item: int
    proposed: tuple[str, ...]
    has_results: bool
    adrift: tuple[tuple[str, str], ...]
    seen: tuple[str, ...]


class StoredQuestions(Struct, frozen=True, gc=False, omit_defaults=True):
    next_id: int
    open: tuple[Question, ...]
    answered: tuple[str, ...]


class StoredState(Struct, frozen=True, gc=False, omit_defaults=True):
    position: int
    last_seq: int
    session: Session
    parts: Parts
    context: StoredContext
    loop: Loop
    requests: StoredRequests
    calls: StoredCalls
    questions: StoredQuestions
    calibrations: Calibrations
    timers: Timers


_decoder = msgspec.json.Decoder(StoredState)


def encode_state(state: State) -> bytes:
    context = _fields(state.context)
    context["items"] = tuple(state.context.items)
    context["undo"] = tuple(_stored(point) for point in state.context.undo)
    context["redo"] = tuple(_stored(point) for point in state.context.redo)
    requests = _fields(state.requests)
    for name in ("included", "skipped", "repairs"):
        requests[name] = tuple(requests[name])
    calls = _fields(state.calls)
    calls["seen"] = tuple(sorted(state.calls.seen))
    questions = _fields(state.questions)
    questions["answered"] = tuple(state.questions.answered)
    fields = _fields(state)
    fields["context"] = StoredContext(**context)
    fields["requests"] = StoredRequests(**requests)
    fields["calls"] = StoredCalls(**calls)
    fields["questions"] = StoredQuestions(**questions)
    return msgspec.json.encode(StoredState(**fields))


def decode_state(raw: bytes) -> State:
    stored = _decoder.decode(raw)
    context = _fields(stored.context)
    context["items"] = Vector.of(stored.context.items)
    context["undo"] = tuple(_point(point) for point in stored.context.undo)
    context["redo"] = tuple(_point(point) for point in stored.context.redo)
    requests = _fields(stored.requests)
    for name in ("included", "skipped", "repairs"):
        requests[name] = Vector.of(requests[name])
    calls = _fields(stored.calls)
    calls["seen"] = TextSet.of(stored.calls.seen)
    questions = _fields(stored.questions)
    questions["answered"] = Vector.of(stored.questions.answered)
    fields = _fields(stored)
    fields["context"] = Context(**context)
    fields["requests"] = Requests(**requests)
    fields["calls"] = Calls(**calls)
    fields["questions"] = Questions(**questions)
    return State(**fields)


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def _stored(point: UndoPoint) -> StoredPoint:
    return StoredPoint(point.number, point.at, tuple(point.edits))


def _point(point: StoredPoint) -> UndoPoint:
    return UndoPoint(point.number, point.at, Vector.of(point.edits))
