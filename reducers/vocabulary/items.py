"""Items of the context. Taking one out never deletes it: it changes its state."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.canonical import canonical
from reducers.vocabulary.content import (
    AnyContent,
    ToolCall,
    calls_in,
    content_of,
)
from reducers.vocabulary.json import NULL, Json

ContextState = Literal["active", "pinned", "elided", "excluded", "archived", "superseded"]

ACTIVE: ContextState = "active"
STATES: tuple[ContextState, ...] = (
    "active",
    "pinned",
    "elided",
    "excluded",
    "archived",
    "superseded",
)


PROJECTED = frozenset({"active", "pinned", "elided"})


def is_projected(state: ContextState) -> bool:
    """Active, pinned and (as a marker) elided items are part of the request."""
    return state in PROJECTED


def sends_content(state: ContextState) -> bool:
    return state in ("active", "pinned")


class System(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="system"):
    pass


class UserMessage(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="user_message"
):
    pass


class AssistantMessage(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="assistant_message"
):
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: AnyContent | None = None
    extra: Json = NULL
    """Opaque provider state of the whole turn."""


class ToolResult(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="tool_result"
):
    call: str
    tool: str
    is_error: bool = False


class Reference(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="reference"
):
    pass


Kind = System | UserMessage | AssistantMessage | ToolResult | Reference


class _Numbered(Struct, frozen=True, gc=False, omit_defaults=True):
    id: int = 0
    """0 for one that was not added yet."""


class ContextItem(_Numbered, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One entry of the context. Figures are in tokens."""

    kind: Kind
    source: str
    """Where it came from; the kernel never looks."""
    label: str
    content: AnyContent
    state: ContextState = ACTIVE
    tokens: int = 0
    uncounted: int = 0
    """Pieces (pictures, sounds) the counter would not price."""
    meta: Json = NULL
    included_because: str | None = None
    """Why it is here at all; survives changes of state."""
    note: str | None = None
    """Why it is in its present state; replaced by every change of state."""

    def __post_init__(self) -> None:
        if self.state == ACTIVE and self.state is not ACTIVE:
            canonical(self, state=ACTIVE)

    @staticmethod
    def system(content: object) -> "ContextItem":
        return item(System(), "system", "system", content)

    @staticmethod
    def instruction(label: str, content: object) -> "ContextItem":
        return item(System(), "instruction", label, content)

    @staticmethod
    def user(content: object) -> "ContextItem":
        return item(UserMessage(), "user", "user", content)

    @staticmethod
    def assistant(content: object, calls: tuple[ToolCall, ...] = ()) -> "ContextItem":
        return item(AssistantMessage(tuple(calls)), "model", "assistant", content)

    @staticmethod
    def tool_result(call: str, tool: str, content: object, is_error: bool = False) -> "ContextItem":
        return item(ToolResult(call, tool, is_error), "tool_result", tool, content)

    @staticmethod
    def file(path: str, content: object) -> "ContextItem":
        return item(Reference(), "file", path, content)

    @staticmethod
    def selection(label: str, content: object) -> "ContextItem":
        return item(Reference(), "selection", label, content)

    @staticmethod
    def diagnostic(label: str, content: object) -> "ContextItem":
        return item(Reference(), "diagnostic", label, content)

    @staticmethod
    def memory(label: str, content: object) -> "ContextItem":
        return item(Reference(), "memory", label, content)

    @staticmethod
    def summary(content: object) -> "ContextItem":
        return item(Reference(), "compaction", "summary", content)

    def pinned(self) -> "ContextItem":
        return replace(self, state="pinned")

    def because(self, text: str) -> "ContextItem":
        return replace(self, included_because=text)

    def with_state(self, state: ContextState, note: str | None = None) -> "ContextItem":
        return replace(self, state=state, note=note)

    def with_meta(self, meta: Json) -> "ContextItem":
        return replace(self, meta=meta)

    def with_reasoning(self, reasoning: object | None) -> "ContextItem":
        """The same turn with its thinking; no change for other kinds."""
        if not isinstance(self.kind, AssistantMessage):
            return self
        thought = None if reasoning is None else content_of(reasoning)
        return replace(self, kind=replace(self.kind, reasoning=thought))

    def calls(self) -> tuple[ToolCall, ...]:
        kind = self.kind
        return calls_in(self.content, kind.tool_calls) if type(kind) is AssistantMessage else ()

    def is_projected(self) -> bool:
        return self.state in PROJECTED


def item(kind: Kind, source: str, label: str, content: object) -> ContextItem:
    """An item of any kind, source and label."""
    return ContextItem(
        kind=kind, source=source, label=label, content=content_of(content), state="active"
    )


def kind_name(kind: Kind) -> str:
    return str(kind.__struct_config__.tag)
