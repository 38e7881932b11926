"""Live receivers of what happens: bounded, and honest about what they missed."""

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import attrs

from reducers.vocabulary.models import Delta
from reducers.views import Record


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


class Subscription:
    """Everything emitted from now on, oldest first. One that falls behind loses the oldest.

    Read it with `drain()`, `next_or_none()`, or `async for`; `close()` ends the iteration.
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
        self._wake: tuple[anyio.Event, int, object] | None = None

    def put(self, event: Live) -> None:
        if not self._all and isinstance(event, Record) and event.seq is None:
            return
        with self._lock:
            if len(self._queue) >= self._depth:
                self._queue.popleft()
                self.missed += 1
            self._queue.append(event)
            wake, self._wake = self._wake, None
        self._rouse(wake)

    def _rouse(self, wake: tuple[anyio.Event, int, object] | None) -> None:
        if wake is None:
            return
        event, thread, token = wake
        if thread == threading.get_ident():
            event.set()
        else:
            # Not waited for: the commit that brought us here holds a lock the loop may want.
            threading.Thread(
                target=anyio.from_thread.run_sync,
                args=(event.set,),
                kwargs={"token": token},
                daemon=True,
            ).start()

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
            wake, self._wake = self._wake, None
        self._leave(self)
        self._rouse(wake)

    async def __aiter__(self) -> AsyncIterator[Live]:
        while True:
            with self._lock:
                waiting = self._queue.popleft() if self._queue else None
                if waiting is None:
                    if self._is_closed:
                        return
                    event = anyio.Event()
                    self._wake = event, threading.get_ident(), anyio.lowlevel.current_token()
            if waiting is None:
                await event.wait()
            else:
                yield waiting
