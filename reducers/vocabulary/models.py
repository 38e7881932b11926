"""What is known of a model, what it answers, and what that cost."""

from typing import Literal

from msgspec import Struct

from reducers.vocabulary.canonical import canonical
from reducers.vocabulary.content import EMPTY, Blocks, Content, Text, ToolCall, calls_in
from reducers.vocabulary.json import NULL, Json

StopReason = str
"""`end_turn`, `tool_use`, `length`, `refusal`, or the provider's own word."""

END_TURN: StopReason = "end_turn"


class ModelInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """A model as its provider describes it. Limits in tokens; None is unknown."""

    provider: str
    model: str
    context_limit: int | None = None
    max_output_tokens: int | None = None
    tool_calling: bool = False
    reasoning: bool = False
    parameters: tuple[str, ...] = ()
    endpoint: str | None = None

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Figures as the provider reports them, in tokens; None is unknown, which is not 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    """A part of `output_tokens`."""
    cached_input_tokens: int | None = None
    """A part of `input_tokens`."""

    def settled(self) -> "Usage":
        """With the cached part inside the input, for providers that report it beside."""
        cached, read = self.cached_input_tokens, self.input_tokens
        if cached is None or read is None or cached <= read:
            return self
        return Usage(read + cached, self.output_tokens, self.reasoning_tokens, cached)


class Overrun(Struct, frozen=True, gc=False, omit_defaults=True):
    """How far a request is over: tokens, and the limit where it is known."""

    tokens: int
    limit: int | None = None


class ModelResponse(Struct, frozen=True, gc=False, omit_defaults=True):
    """One whole answer. Recorded in three slots, or as blocks in `content`; blocks win.

    What the provider really sent stays with the provider: it is not part of the record.
    """

    content: Content | None = None
    reasoning: Content | None = None
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason = END_TURN
    usage: Usage | None = None
    extra: Json = NULL
    """Opaque provider state of the whole turn, to be sent back with it."""

    def __post_init__(self) -> None:
        if self.stop == END_TURN:
            canonical(self, stop=END_TURN)

    def all_calls(self) -> tuple[ToolCall, ...]:
        return calls_in(self.content, self.calls)

    @staticmethod
    def of_text(text: str, usage: Usage | None = None) -> "ModelResponse":
        return ModelResponse(content=Text(text), usage=usage)

    @staticmethod
    def of_calls(*calls: ToolCall, content: Content = EMPTY) -> "ModelResponse":
        return ModelResponse(content=content, calls=calls, stop="tool_use")

    @staticmethod
    def of_blocks(blocks: Blocks) -> "ModelResponse":
        stop = "tool_use" if calls_in(blocks, ()) else END_TURN
        return ModelResponse(content=blocks, stop=stop)


class Delta(Struct, frozen=True, gc=False, omit_defaults=True):
    """A streamed fragment: of the text, of the reasoning, or of a call's arguments.

    `index` is the place of the call in this answer; `call` is the provider's own word for it and
    provisional until the answer is recorded.
    """

    kind: Literal["text", "reasoning", "tool_args"]
    text: str
    index: int = 0
    call: str = ""
    tool: str = ""
