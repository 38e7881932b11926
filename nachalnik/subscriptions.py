"""Live receivers of what happens: bounded, and honest about what they missed."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from effects.interpreter import soon
from reducers.views import Record
from reducers.vocabulary.models import Delta


@attrs.frozen
class ModelDelta:
    """A streamed fragment, bound to its request. Not in the log; the whole answer is."""

    effect: str
    delta: Delta
    name: str = "model.delta"


@attrs.frozen
class ToolProgress:
    """Progress of a running tool. Not in the log; its result is."""

    call: str
    tool: str
    chunk: str
    name: str = "tool.output"


Live = Record | ModelDelta | ToolProgress
_Wake = tuple[anyio.Event, int, object]
"""What a waiting reader waits for, its thread, and the token of its loop."""


class Subscription:
    """Everything emitted from now on, oldest first. One that falls behind loses the oldest.

    Read it with `drain()`, `next_or_none()`, or `async for`, from any thread; `close()` ends the
    iteration behind what is waiting.
    """

    def __init__(self, depth: int, with_bookkeeping: bool, leave: Callable[[Any], None]) -> None:
        self.missed = 0
        """Events lost so far because this subscriber was slow."""
        self._all = with_bookkeeping
        self._queue: deque[Live] = deque()
        self._depth = max(1, depth)
        self._lock = threading.Lock()
        self._leave = leave
        self._is_closed = False
        self._wakes: list[_Wake] = []

    def put(self, event: Live) -> None:
        if not self._all and isinstance(event, Record) and event.seq is None:
            return
        with self._lock:
            if self._is_closed:
                return
            if len(self._queue) >= self._depth:
                self._queue.popleft()
                self.missed += 1
            self._queue.append(event)
        self._rouse()

    def next_or_none(self) -> Live | None:
        with self._lock:
            return self._queue.popleft() if self._queue else None

    def drain(self) -> list[Live]:
        """All that is waiting."""
        with self._lock:
            waiting = list(self._queue)
            self._queue.clear()
        return waiting

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._leave(self)
        self._rouse()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Live:
        while True:
            with self._lock:
                if self._queue:
                    return self._queue.popleft()
                if self._is_closed:
                    raise StopAsyncIteration
                event = anyio.Event()
                wake = event, threading.get_ident(), anyio.lowlevel.current_token()
                self._wakes.append(wake)
            try:
                await event.wait()
            finally:
                with self._lock:
                    if wake in self._wakes:
                        self._wakes.remove(wake)

    def _rouse(self) -> None:
        """Wake every reader. Never waits for one: a commit may be what brought us here."""
        with self._lock:
            wakes, self._wakes = self._wakes, []
        for event, thread, token in wakes:
            if thread == threading.get_ident():
                event.set()
            else:
                soon(token, event.set)
