"""Orders to the loop: step, turn, interrupt, cancel; and the driver that left."""

from collections.abc import Callable
from typing import Any

from reducers import wording
from reducers.draft import Draft
from reducers.machines import parts
from reducers.machines.calls import Call, unfinished
from reducers.recipes import (
    claim_execution,
    claim_request,
    decide,
    record_answer,
    record_held,
    record_text,
    take_proposed,
)
from reducers.vocabulary.errors import Busy, NoProvider
from reducers.vocabulary.events import (
    InterruptSpent,
    QuestionAnswered,
    RequestAbandoned,
    TurnClosed,
    TurnInterrupted,
    TurnPaused,
    UndoMode,
)
from reducers.vocabulary.inputs import (
    CancelCalls,
    CancelTurn,
    DriverLeft,
    InterruptTurn,
    RunStep,
    RunTurn,
)
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Ready,
    Requesting,
    is_busy,
)


def run_step(draft: Draft, input: RunStep) -> None:
    _begin(draft, "step")


def run_turn(draft: Draft, input: RunTurn) -> None:
    _begin(draft, "")


def _begin(draft: Draft, drive: str) -> None:
    """Busy first, then a turn's limit, then the flag, then the state's own rule (kernel.md 2.1,
    2.12)."""
    loop = draft.state.loop
    if is_busy(loop.phase):
        raise Busy("the loop is busy: a request is out or calls are running")
    rests = isinstance(loop.phase, Idle | Finished)
    if rests and not drive and draft.state.session.config.max_requests_per_turn == 0:
        draft.say(TurnPaused(requests=0))
    elif loop.is_interrupted:
        draft.say(InterruptSpent())
    elif isinstance(loop.phase, Ready):
        claim_execution(draft, drive)
    elif rests:
        if parts.model(draft.state.parts) is None:
            raise NoProvider
        claim_request(draft, drive)


def interrupt(draft: Draft, input: InterruptTurn) -> None:
    if not draft.state.loop.is_interrupted:
        draft.say(TurnInterrupted())


# -- cancelling --------------------------------------------------------------------------------


def cancel_calls(draft: Draft, input: CancelCalls) -> None:
    """Only what waits: from deciding or ready (kernel.md 2.5). The turn stays open."""
    if isinstance(draft.state.loop.phase, Deciding | Ready):
        _drop_waiting(draft, input.reason)


def _drop_waiting(draft: Draft, reason: str, drive: str = "") -> None:
    calls = unfinished(draft.state.calls)
    for call in calls:
        if call.status == "prepared":
            decide(draft, call, "deny", "cancellation", call.question)
    for question in draft.state.questions.open:
        draft.say(QuestionAnswered(id=question.id, how="cancelled"))
    draft.enter(Executing(tuple(call.id for call in calls)), "none")
    _end_all(draft, calls, reason)
    draft.enter(Idle(), drive)


def _end_all(draft: Draft, calls: tuple[Call, ...], reason: str) -> None:
    """One cancellation is one undo, also where some of its calls were never judged."""
    mode: UndoMode | None = None
    for call in calls:
        _end(draft, call, reason, mode)
        mode = "join"


def _end(draft: Draft, call: Call, reason: str, undo: UndoMode | None = None) -> None:
    """Give a call that is cancelled the result that is true of it."""
    if call.status == "answered":
        record_answer(draft, call)
    elif call.status == "running" and not call.effect:
        # Its process is gone: there is nothing to stop, and nobody who could say more.
        record_text(draft, call, wording.cancelled_unknown(reason), has_limit=False, undo=undo)
    elif call.status == "running":
        stop = draft.announce()
        text = wording.cancelled_running(reason)
        record_text(draft, call, text, has_limit=False, stop=stop, undo=undo)
    else:
        record_text(draft, call, wording.cancelled(reason), has_limit=False, undo=undo)


def cancel_turn(draft: Draft, input: CancelTurn) -> None:
    """Close the open turn as cancelled, whatever it is doing; nothing if it is not the open one."""
    loop = draft.state.loop
    if not loop.is_open or input.turn not in (0, loop.turn):
        return
    if isinstance(loop.phase, Deciding | Ready):
        _drop_waiting(draft, input.reason, "none")
    elif isinstance(loop.phase, Requesting | Executing):
        _give_up_request(draft, input.reason or "cancelled")
        take_proposed(draft)
        _end_all(draft, unfinished(draft.state.calls), input.reason)
        draft.enter(Idle(), "none")
    draft.say(TurnClosed(turn=loop.turn, reason="cancelled"))


def _give_up_request(draft: Draft, reason: str) -> None:
    in_flight = draft.state.requests.in_flight
    if in_flight:
        draft.say(RequestAbandoned(effect=in_flight, reason=reason, stop=draft.announce()))


def driver_left(draft: Draft, input: DriverLeft) -> None:
    """Nobody awaits the effects. What came is recorded; what was started may yet answer."""
    phase = draft.state.loop.phase
    if isinstance(phase, Requesting):
        _give_up_request(draft, "its driver left")
        take_proposed(draft)
        draft.enter(Idle(), "none")
    elif isinstance(phase, Executing):
        record_held(draft)
        draft.enter(Idle(), "none")


ABSORB: dict[type, Callable[[Draft, Any], None]] = {
    RunStep: run_step,
    RunTurn: run_turn,
    InterruptTurn: interrupt,
    CancelTurn: cancel_turn,
    CancelCalls: cancel_calls,
    DriverLeft: driver_left,
}
