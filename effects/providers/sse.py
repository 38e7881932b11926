"""Server-sent events of a response: httpx2's reader, and what it leaves to its caller.

Its reader (2.16) keeps a byte-order mark, so that the first field is unknown and its event lost;
decodes by the charset of the header, although an event stream is UTF-8 whatever a proxy says; and
drops a last event without a blank line behind it. So it gets text that was decoded here, and a
blank line at its end.
"""

from codecs import getincrementaldecoder
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio

from effects.providers.http import let_go
from reducers.vocabulary.text import REPLACEMENT

if TYPE_CHECKING:
    from httpx2 import Response, ServerSentEvent

EVENT_MAX = 64 * 2**20
"""Bytes of one event. No answer comes near; a server that sends no line end does."""
_SENT = REPLACEMENT.encode()
DRAIN_S = 0.05
"""How long the end of a body is waited for, so that no server sees a hang-up behind each answer."""


class EventReader:
    """The events of one response, in order; `at_end` once its last byte was read."""

    def __init__(self, response: "Response") -> None:
        from httpx2 import EventSource

        self.headers = response.headers
        self.request = response.request
        self.at_end = False
        self.mended = 0
        """Stretches of bytes that were no UTF-8 and became U+FFFD."""
        self._rest = b""
        self._response = response
        self._text = self._decoded()
        # What the reader asks of a response is what this class has.
        source = EventSource(cast("Response", self), max_event_size=EVENT_MAX)
        self._events = aiter(source)

    async def next(self) -> "ServerSentEvent | None":
        """The next event that has data, or None at the end. Raises httpx2's errors."""
        async for event in self._events:
            if event.data:
                return event
        return None

    def aiter_text(self) -> AsyncIterator[str]:
        return self._text

    async def aclose(self, *, is_done: bool) -> None:
        """Let go of the response; after its last event it is at its end, or as good as there."""
        if is_done:
            with anyio.move_on_after(DRAIN_S, shield=True), suppress(Exception):
                async for _ in self._events:
                    pass
        await let_go(self._response, self._events, self._text)

    async def _decoded(self) -> AsyncIterator[str]:
        """An event that is whole is read before the error that came behind it."""
        decoder, error = getincrementaldecoder("utf-8-sig")("replace"), None
        try:
            async for piece in self._response.aiter_bytes():
                yield self._told(decoder.decode(piece), piece)
        except Exception as found:
            error = found
        self.at_end = True
        yield self._told(decoder.decode(b"", final=True), b"") + "\n\n"
        if error is not None:
            raise error

    def _told(self, text: str, piece: bytes) -> str:
        """The text, after what of it stands for bytes that were none is counted."""
        raw = self._rest + piece
        self._rest = raw[-2:]  # of the three that a U+FFFD which was sent as such has
        self.mended += text.count(REPLACEMENT) - raw.count(_SENT)
        return text
