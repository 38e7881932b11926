"""The seams that wait: what the shell asks of providers, tools and policies, and what they get.

All are called outside the writer's lock, so they may read and edit the kernel they serve. What they
return becomes an input; what they raise becomes data where it is expected (`ToolError`), a recorded
crash where it is not.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import attrs

from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.json import Json
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import Delta, ModelInfo, ModelResponse
from reducers.vocabulary.policies import Verdict
from reducers.vocabulary.tools import Capability, ToolOutput, ToolSpec


class ToolError(Exception):
    """A failure a tool declares: its text becomes the result, and the turn goes on."""


class ProviderFailure(Exception):
    """A request that was not answered. `code` is dotted and stable (`model.rate_limited`)."""

    code = "model.failed"

    def __init__(self, text: str, code: str | None = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code


class StreamTruncated(ProviderFailure):
    """The stream ended without its proper end: no answer, whatever had arrived."""

    code = "model.stream_truncated"


# -- sinks -------------------------------------------------------------------------------------


def _yes() -> bool:
    return True


@attrs.define
class DeltaSink:
    """Where a provider streams to, bound to one request. Sends nothing once that is settled."""

    effect: str = ""
    _send: Callable[[str, Delta], None] | None = None
    _is_interrupted: Callable[[], bool] | None = None
    mended: int = 0
    """Characters of the answer that were no valid text and that the provider replaced."""

    @staticmethod
    def disconnected() -> "DeltaSink":
        """One that drops everything and is never interrupted."""
        return DeltaSink()

    def is_connected(self) -> bool:
        return self._send is not None

    def send(self, delta: Delta) -> None:
        if self._send is not None:
            self._send(self.effect, delta)

    def text(self, text: str) -> None:
        self.send(Delta("text", text))

    def reasoning(self, text: str) -> None:
        self.send(Delta("reasoning", text))

    def tool_args(self, index: int, fragment: str, call: str = "", tool: str = "") -> None:
        self.send(Delta("tool_args", fragment, index, call, tool))

    def is_interrupted(self) -> bool:
        """Whether the user asked the turn to stop: a provider may then return what it has."""
        return self._is_interrupted is not None and self._is_interrupted()

    def close(self) -> None:
        """After its request is settled a sink is deaf, whoever still holds it."""
        self._send = None
        if self._is_interrupted is not _yes:
            self._is_interrupted = None

    def abandon(self) -> None:
        """Its request was given up: nothing is shown any more; whoever looks is told to stop."""
        self._send, self._is_interrupted = None, _yes


@attrs.define
class OutputSink:
    """What a running tool gets beside its call: where to show progress, and its durable key."""

    call: str = ""
    tool: str = ""
    key: str = ""
    """The same for every start of this call, and for no other call ever: the idempotency key."""
    attempt: int = 1
    mended: int = 0
    """Characters of the result that were no valid text and were replaced."""
    _push: Callable[[str, str, str], None] | None = None
    _is_interrupted: Callable[[], bool] | None = None
    _late: Callable[[ToolOutput, int], None] | None = None

    @staticmethod
    def disconnected() -> "OutputSink":
        """One that drops everything and is never interrupted."""
        return OutputSink()

    def is_connected(self) -> bool:
        return self._push is not None

    def push(self, chunk: str) -> None:
        if self._push is not None:
            self._push(self.call, self.tool, chunk)

    def is_interrupted(self) -> bool:
        return self._is_interrupted is not None and self._is_interrupted()

    def settle_late(self, output: ToolOutput) -> None:
        """For a run that goes on after its await was cancelled: tell how it ended after all."""
        if self._late is not None:
            self._late(output, self.mended)

    def close(self) -> None:
        """After its run is settled a sink shows nothing, whoever still holds it."""
        self._push = None
        if self._is_interrupted is not _yes:
            self._is_interrupted = None

    def abandon(self) -> None:
        """Nobody waits for its run any more: nothing is shown; whoever looks is told to stop."""
        self._push, self._is_interrupted = None, _yes


# -- parts -------------------------------------------------------------------------------------


@runtime_checkable
class Provider(Protocol):
    """A model behind some wire. `info` and `respond` are enough.

    A provider may also have `render(request) -> Json | None`: the body it would send, pure, with no
    header or credential in it.
    """

    def info(self) -> ModelInfo:
        """Cheap; must not call the kernel."""
        ...

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        """One whole answer, even if it was streamed; raises for anything that is not an answer."""
        ...


@runtime_checkable
class Tool(Protocol):
    """Something the model can call. Optional methods, found by name when the tool is described:

    * `needs(call) -> Sequence[Capability]`: what this call needs, of all the tool declares;
    * `limit(call) -> int | None`: bytes of this call's result the model is shown;
    * `async reconcile(call, key) -> ToolOutput | None`: after a crash, the result of an earlier
      run under this key, or None when it cannot tell. Must not take effect itself.
    """

    def spec(self) -> ToolSpec: ...

    async def invoke(self, call: ToolCall, output: OutputSink) -> ToolOutput: ...


@attrs.frozen
class PermissionRequest:
    """One call to be judged. `args` is its exact text."""

    id: int
    call: str
    tool: str
    capabilities: tuple[Capability, ...]
    args: Json


@runtime_checkable
class PermissionPolicy(Protocol):
    """A policy that is code. One that is data says so in `info` and is judged by the core.

    `why(request) -> str | None` is asked of refusals, if the policy has it.
    """

    async def evaluate(self, request: PermissionRequest) -> Verdict: ...
