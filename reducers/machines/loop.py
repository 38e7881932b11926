"""The loop: which of the six states it is in, which turn, and who drives it how far.

I-LOOP-1  A turn opens at the first claim after the last closed one; its number never repeats.
I-LOOP-2  `requests` counts what the drive at hand has sent; it starts again from idle or finished.
I-LOOP-3  The stop flag is lowered by whoever spends it, by `finished`, and by a drive that ends
          otherwise than by resting; never by a refusal.
I-LOOP-4  No drive outlives a crash.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import (
    InterruptSpent,
    ModelRequested,
    SessionOpened,
    StateChanged,
    StepFailed,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
    TurnPaused,
)
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Phase,
    Requesting,
)

Drive = Literal["none", "step", "turn"]


class Loop(Struct, frozen=True, gc=False):
    phase: Phase = Idle()
    turn: int = 0
    is_open: bool = False
    step: int = 0
    requests: int = 0
    drive: Drive = "none"
    is_interrupted: bool = False
    is_due: bool = False
    """A claim has become neither a request nor a failure yet."""


def state_changed(loop: Loop, event: StateChanged, here: int) -> Loop:
    phase = event.to
    kind = type(phase)
    drive, requests, step, flag = loop.drive, loop.requests, loop.step, loop.is_interrupted
    if kind is Requesting or kind is Executing:
        step += 1
        if kind is Requesting:
            requests = requests + 1 if drive == "turn" else 1
        drive = "none" if event.drive == "none" else event.drive or "turn"
    elif event.drive == "none" or kind is Finished:
        drive, flag = "none", False
    elif drive == "step" or kind is Deciding:
        drive = "none"
    return Loop(phase, loop.turn, loop.is_open, step, requests, drive, flag, kind is Requesting)


def claim_spent(loop: Loop, event: ModelRequested | StepFailed, here: int) -> Loop:
    return replace(loop, is_due=False)


def turn_opened(loop: Loop, event: TurnOpened, here: int) -> Loop:
    return replace(loop, turn=event.turn, is_open=True, step=0)


def turn_closed(loop: Loop, event: TurnClosed, here: int) -> Loop:
    return replace(loop, is_open=False, drive="none")


def turn_paused(loop: Loop, event: TurnPaused, here: int) -> Loop:
    return replace(loop, drive="none")


def interrupted(loop: Loop, event: TurnInterrupted, here: int) -> Loop:
    return replace(loop, is_interrupted=True)


def interrupt_spent(loop: Loop, event: InterruptSpent, here: int) -> Loop:
    return replace(loop, is_interrupted=False, drive="none")


def opened(loop: Loop, event: SessionOpened, here: int) -> Loop:
    return replace(loop, is_interrupted=False, drive="none")


EVOLVE: dict[type, Callable[[Loop, Any, int], Loop]] = {
    StateChanged: state_changed,
    ModelRequested: claim_spent,
    StepFailed: claim_spent,
    TurnOpened: turn_opened,
    TurnClosed: turn_closed,
    TurnPaused: turn_paused,
    TurnInterrupted: interrupted,
    InterruptSpent: interrupt_spent,
    SessionOpened: opened,
}


# -- queries -----------------------------------------------------------------------------------


def may_undo(loop: Loop) -> bool:
    """Only where no batch is in hand."""
    return isinstance(loop.phase, (Idle, Finished))
