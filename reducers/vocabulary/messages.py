"""Messages and requests: what the context becomes for one question to a model."""

from collections.abc import Sequence
from typing import Literal

import attrs
from msgspec import Struct

from reducers.vocabulary.content import Content, ToolCall, calls_in
from reducers.vocabulary.json import EMPTY_OBJECT, NULL, Json
from reducers.vocabulary.tools import ToolSpec

Role = Literal["system", "user", "assistant", "tool"]


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    role: Role
    content: Content | None = None
    reasoning: Content | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    """A tool message that reports a failure or a refusal."""
    extra: Json = NULL

    def calls(self) -> tuple[ToolCall, ...]:
        return calls_in(self.content, self.tool_calls)


@attrs.frozen
class ModelRequest:
    """Everything a provider gets: messages in wire order, tools sorted by id, parameters.

    `params` is one JSON object carried verbatim. `messages` may be a view; it never changes.
    """

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    params: Json = EMPTY_OBJECT
