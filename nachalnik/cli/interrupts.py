"""Ctrl-C. Once: the turn rests before its next step. Twice: whatever is awaited is left. Three
times: the process ends as if it were killed, which a log survives.

Nothing is ever raised where the signal happens to arrive: a commit is not cut in two.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import anyio

from nachalnik.cli.statuses import INTERRUPTED

KILLING = 3


class Interrupts:
    """Counts Ctrl-C while it is entered, and tells whoever is on guard.

    Entered before the event loop starts, so that this stands in place of asyncio's own handler.
    """

    def __init__(self) -> None:
        self.count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scope: anyio.CancelScope | None = None
        self._rest: Callable[[], None] | None = None

    def __enter__(self) -> "Interrupts":
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *raised: object) -> None:
        # Who has pressed it once and presses it again wants no other end than this.
        signal.signal(signal.SIGINT, signal.SIG_IGN if self.count else self._before)

    def attach(self) -> None:
        """From inside the event loop that is to be told."""
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def guard(self, rest: Callable[[], None] | None = None) -> Iterator[None]:
        """Await something inside: the first Ctrl-C calls `rest`, where there is one; the next one
        cancels what is awaited. One that came before counts."""
        with anyio.CancelScope() as scope:
            self._scope, self._rest = scope, rest
            try:
                if self.count:
                    self._tell()
                yield
            finally:
                self._scope = self._rest = None

    def _on_signal(self, *_: int | FrameType | None) -> None:
        self.count += 1
        if self.count >= KILLING:
            os._exit(INTERRUPTED)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self._scope is None:
            return
        if self._rest is not None and self.count == 1:
            self._rest()
        else:
            self._scope.cancel()


def has_abandoned_threads() -> bool:
    """Whether something that cannot be stopped still runs; the process would wait for it."""
    here = threading.current_thread()
    return any(one is not here and not one.daemon for one in threading.enumerate())
