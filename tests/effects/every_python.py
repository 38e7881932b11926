"""A session in which much happens, with its clock and its log id fixed: prints its log.

    python -m tests.effects.every_python

Needs no test library, so that it runs wherever the package does.
"""

import contextlib
import itertools
import sys

import anyio

import nachalnik.kernel
from nachalnik import (
    Blob,
    Config,
    ContextItem,
    Kernel,
    ModelInfo,
    ModelResponse,
    Rules,
    ToolCall,
    ToolOutput,
    Usage,
    tool,
)
from reducers.tokens import BytesPerToken
from reducers.vocabulary.errors import ProviderError
from reducers.vocabulary.phases import Finished

INFO = ModelInfo("scripted", "m1", 1_000_000, tool_calling=True, parameters=("top_p", "stop"))


class Model:
    def __init__(self, *replies):
        self.replies = list(replies)

    def info(self):
        return INFO

    async def respond(self, request, deltas):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


@tool(thread=False, capabilities=["fs:read", "fs:write"])
def look(path: str, deep: bool = False, words: dict[str, float] | None = None) -> dict:
    """Look at something."""
    return {"path": path, "deep": deep, "größe": 1.5, "words": words}


@tool(thread=False, output_limit=100)
def big(size: int) -> str:
    """Give much."""
    return "ä" * size


@tool(thread=False)
def fail() -> ToolOutput:
    """Fail."""
    raise LookupError("it is lost")


def ask(*calls):
    return ModelResponse.of_calls(*(ToolCall(id, name, args) for id, name, args in calls))


REPLIES = (
    RuntimeError("no net"),
    ModelResponse(
        calls=(
            ToolCall("c1", "look", '{"path": "a", "words": {"z": 1, "a": 2.50}}'),
            ToolCall("c1", "big", '{"size":400000}'),
            ToolCall("", "zip", "{}"),
            ToolCall("c4", "fail", "{}", extra='{"b":1,"a":[]}'),
        ),
        stop="tool_use",
        usage=Usage(1200, 40, 10, 300),
    ),
    ask(("c5", "look", "not json"), ("c6", "big", '{"size":3}')),
    ModelResponse.of_text("fertig \ud800 \U0001f642", usage=Usage(1500, 5)),
)


async def lived(parallel):
    clock = itertools.count(1_764_540_000_000, 7)
    k = Kernel(
        Config(session_name="every", parallel_tool_calls=parallel, max_requests_per_turn=None),
        provider=Model(*REPLIES),
        tools=[look, big, fail],
        policy=Rules(allow=["*"], ask=["fs:write"], deny=["fail"]),
        clock=lambda: next(clock),
    )
    k.set_params({"top_p": 0.1, "stop": ["\n"], "größe": 1e21})
    k.push_all([ContextItem.system("be kind"), ContextItem.file("a.py", "x = 1").pinned()])
    k.push(ContextItem.user(Blob("image/png", "aGk=")))
    k.annotate(2, {"b": 1, "a": [None, True, 1.0]})
    k.reserve_calls({"zeta", "alpha", "c9"})
    with contextlib.suppress(ProviderError):
        await k.turn()
    while not isinstance(await k.turn(), Finished):
        for question in k.pending_permissions():
            k.decide(question.id, "allow", reason="why not")
    k.set_counter(BytesPerToken(3))
    k.set_state(1, "elided", "kept short")
    for edit in (k.undo, k.undo, k.redo, k.finish):
        edit()
    return b"".join(k._log.lines())


def main():
    nachalnik.kernel.secrets.token_hex = lambda count: "7c0e9d2b41f84a6f"
    for parallel in (False, True):
        sys.stdout.buffer.write(anyio.run(lived, parallel))


if __name__ == "__main__":
    main()
