"""Live receivers of what happens: bounded, and honest about what they missed."""

import itertools
import threading
from collections import deque
from collections.abc import Callable
from operator import itemgetter
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
_Numbered = tuple[int, Live]
_Wake = tuple[anyio.Event, int, object]
"""What a waiting reader waits for, its thread, and the token of its loop."""


class Subscription:
    """Everything emitted from now on, oldest first. One that falls behind loses the oldest: of the
    fragments as long as any waits or comes, then of the records. A fragment is told again by the
    record that ends its stream, a record by nothing.

    Read it with `drain()`, `next_or_none()`, or `async for`, from any thread; `close()` ends the
    iteration behind what is waiting.
    """

    def __init__(self, depth: float, with_bookkeeping: bool, leave: Callable[[Any], None]) -> None:
        self.missed = 0
        """Events lost so far because this subscriber was slow."""
        self._all = with_bookkeeping
        self._numbers = itertools.count()
        self._records: deque[_Numbered] = deque()
        self._fragments: deque[_Numbered] = deque()
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
            queue = self._records if isinstance(event, Record) else self._fragments
            queue.append((next(self._numbers), event))
            if len(self._records) + len(self._fragments) > self._depth:
                (self._fragments or self._records).popleft()
                self.missed += 1
        self._rouse()

    def next_or_none(self) -> Live | None:
        with self._lock:
            return self._next()

    def drain(self) -> list[Live]:
        """All that is waiting."""
        with self._lock:
            waiting = sorted([*self._records, *self._fragments], key=itemgetter(0))
            self._records.clear()
            self._fragments.clear()
        return [event for _, event in waiting]

    def _next(self) -> Live | None:
        """The oldest of both queues; the lock is held."""
        queues = [queue for queue in (self._records, self._fragments) if queue]
        return min(queues, key=itemgetter(0)).popleft()[1] if queues else None

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
                waiting = self._next()
                if waiting is not None:
                    return waiting
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
