"""Timers that run. Their rules come with attempts and deadlines; the words are in the format."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from reducers.vocabulary.events import TimerFired, TimerStarted


class Timers(Struct, frozen=True, gc=False):
    running: tuple[tuple[str, float], ...] = ()
    """(effect, seconds it was started for)."""


def started(timers: Timers, event: TimerStarted, here: int) -> Timers:
    return Timers((*timers.running, (f"{here}.{event.effect}", event.after_s)))


def fired(timers: Timers, event: TimerFired, here: int) -> Timers:
    return Timers(tuple(one for one in timers.running if one[0] != event.effect))


EVOLVE: dict[type, Callable[[Timers, Any, int], Timers]] = {
    TimerStarted: started,
    TimerFired: fired,
}
