"""Token figures: estimates that say so. A counter is a pure function of content; what a model's
reports taught is a calibration, kept in the state and applied as the last step.
"""

from typing import Protocol

from reducers.machines.calibration import Calibration
from reducers.vocabulary.content import Content, Text, ToolCall, blobs_of, content_len
from reducers.vocabulary.items import AssistantMessage, ContextItem
from reducers.vocabulary.json import NULL, Json
from reducers.vocabulary.messages import Message
from reducers.vocabulary.text import byte_len
from reducers.vocabulary.tools import ToolSpec

TEACHES_MIN = 256
"""Tokens below which a request teaches nothing: fixed costs would dominate (kernel.md 5.3)."""
RATIO_MAX = 10.0
"""How far a report may be from the estimate, either way, and still be believed."""


class TokenCounter(Protocol):
    """The seam. Raw figures are functions of content alone; `price` applies the calibration."""

    def count(self, content: Content) -> int: ...

    def uncounted(self, content: Content) -> int: ...

    def count_schema(self, schema: Json) -> int: ...

    def count_item(self, item: ContextItem) -> int: ...

    def count_message(self, message: Message) -> int: ...

    def price(self, raw: int, calibration: Calibration) -> int: ...

    def teaches(self, calibration: Calibration, estimated: int, reported: int) -> int: ...


class BytesPerToken:
    """Bytes divided by `bytes_per_token`, rounded up. Comes out low; blobs are not priced."""

    def __init__(self, bytes_per_token: int = 4) -> None:
        self.bytes_per_token = max(1, bytes_per_token)

    def count(self, content: Content) -> int:
        if type(content) is Text:
            size = byte_len(content.text)
        else:
            size = content_len(content) - sum(blob.wire_len() for blob in blobs_of(content))
        return -(-max(0, size) // self.bytes_per_token)

    def uncounted(self, content: Content) -> int:
        return 0 if type(content) is Text else len(blobs_of(content))

    def count_schema(self, schema: Json) -> int:
        return self._bytes(schema)

    def _bytes(self, text: str) -> int:
        size = len(text) if text.isascii() else byte_len(text)
        return -(-size // self.bytes_per_token)

    def _call(self, call: ToolCall) -> int:
        extra = 0 if call.extra == NULL else self._bytes(call.extra)
        return self._bytes(call.tool) + self._bytes(call.args) + extra

    def _turn(
        self,
        content: Content | None,
        calls: tuple[ToolCall, ...],
        reasoning: Content | None,
    ) -> int:
        figure = 0 if content is None else self.count(content)
        for call in calls:
            figure += self._call(call)
        return figure if reasoning is None else figure + self.count(reasoning)

    def count_item(self, item: ContextItem) -> int:
        kind = item.kind
        if isinstance(kind, AssistantMessage):
            return self._turn(item.content, kind.tool_calls, kind.reasoning)  # type: ignore[arg-type]
        return self.count(item.content)  # type: ignore[arg-type]

    def count_message(self, message: Message) -> int:
        return self._turn(message.content, message.tool_calls, message.reasoning)

    def price(self, raw: int, calibration: Calibration) -> int:
        return raw

    def teaches(self, calibration: Calibration, estimated: int, reported: int) -> int:
        return 0


class Calibrating(BytesPerToken):
    """`BytesPerToken`, corrected by what the model's provider really counted (kernel.md 5.3)."""

    def price(self, raw: int, calibration: Calibration) -> int:
        if not calibration.estimated:
            return raw
        return int(raw * calibration.scale + 0.5)

    def teaches(self, calibration: Calibration, estimated: int, reported: int) -> int:
        """The estimate in this counter's own units, or 0 where the pair teaches nothing."""
        own = int(estimated / calibration.scale + 0.5)
        if own < TEACHES_MIN or reported < TEACHES_MIN:
            return 0
        return own if own <= reported * RATIO_MAX and reported <= own * RATIO_MAX else 0


def uncounted_item(counter: TokenCounter, item: ContextItem) -> int:
    """Unpriced pieces of an item, those of its reasoning included."""
    pieces = counter.uncounted(item.content)  # type: ignore[arg-type]
    kind = item.kind
    if isinstance(kind, AssistantMessage) and kind.reasoning is not None:
        pieces += counter.uncounted(kind.reasoning)  # type: ignore[arg-type]
    return pieces


def uncounted_message(counter: TokenCounter, message: Message) -> int:
    pieces = 0 if message.content is None else counter.uncounted(message.content)
    return pieces if message.reasoning is None else pieces + counter.uncounted(message.reasoning)


def tool_figures(counter: TokenCounter, tools: tuple[ToolSpec, ...]) -> tuple[int, ...]:
    """Raw figures of what defines the tools: of each the schema, then name and description."""
    return tuple(
        figure
        for tool in tools
        for figure in (
            counter.count_schema(tool.schema),
            counter.count(Text(f"{tool.id} {tool.description}")),
        )
    )
