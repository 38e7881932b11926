"""Server-sent events of a response: httpx2's reader, and what it leaves to its caller.

Its reader (2.16) keeps a byte-order mark, so that the first field is unknown and its event lost;
decodes by the charset of the header, although an event stream is UTF-8 whatever a proxy says; and
drops a last event without a blank line behind it. The first two end with the right encoding, the
third with a blank line that is added at the end.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from httpx2 import Response, ServerSentEvent

EVENT_MAX = 64 * 2**20
"""Bytes of one event. No answer comes near; a server that sends no line end does."""


class EventReader:
    """The events of one response, in order; `at_end` once its last byte was read."""

    def __init__(self, response: "Response") -> None:
        from httpx2 import EventSource

        response.encoding = "utf-8-sig"
        self.headers = response.headers
        self.request = response.request
        self.at_end = False
        self._response = response
        # What the reader asks of a response is what this class has.
        source = EventSource(cast("Response", self), max_event_size=EVENT_MAX)
        self._events = aiter(source)

    async def next(self) -> "ServerSentEvent | None":
        """The next event that has data, or None at the end. Raises httpx2's errors."""
        async for event in self._events:
            if event.data:
                return event
        return None

    async def aiter_text(self) -> AsyncIterator[str]:
        async for text in self._response.aiter_text():
            yield text
        self.at_end = True
        yield "\n\n"
