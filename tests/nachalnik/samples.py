"""Logs to look at, made by a kernel in this process."""

from pathlib import Path

import anyio

from nachalnik import Config, ContextItem, Kernel, ModelResponse, Rules, ScriptedProvider, ToolCall
from nachalnik import tool as as_tool
from reducers import chain
from reducers.vocabulary.json import Json


@as_tool
def add(x: int, y: int) -> int:
    "Add two integers."
    return x + y


@as_tool(output_limit=200)
def big(size: int) -> str:
    "As much text as is asked for."
    return "x" * size


def clock(start: int = 1_764_540_000_000):
    """A clock that counts: seven milliseconds a commit, so that a log is the same each time."""
    state = [start]

    def tick() -> int:
        state[0] += 7
        return state[0]

    return tick


def call(id: str, tool: str, args: str = "{}") -> ToolCall:
    return ToolCall(id, tool, Json(args))


def rounds(count: int) -> list[ModelResponse]:
    """So many replies that call `add` twice, and one that ends the turn."""
    made = []
    for n in range(count):
        calls = (call(f"a{n}", "add", '{"x":1,"y":2}'), call(f"b{n}", "add", '{"x":3,"y":4}'))
        made.append(ModelResponse.of_calls(*calls))
    return [*made, ModelResponse.of_text("It is done.")]


def make_log(path: Path, *replies: ModelResponse, close: bool = True, **config) -> Kernel:
    """One turn over the replies, tools allowed; two without any."""
    kernel = Kernel.open(
        path,
        config=Config(max_requests_per_turn=None, **config),
        provider=ScriptedProvider(replies or rounds(2)),
        tools=[add, big],
        policy=Rules(allow=["*"]),
        clock=clock(),
    )
    kernel.push(ContextItem.system("Be brief.").pinned())
    kernel.push(ContextItem.user("Add them."))
    anyio.run(kernel.turn)
    if close:
        kernel.close()
    return kernel


def rewritten(path: Path, *changes: tuple[bytes, bytes]) -> None:
    """The log with some bytes of its commits changed, and chained anew: its bytes are faultless."""
    lines = path.read_bytes().splitlines(keepends=True)
    _, link = chain.open_header(lines[0])
    verifier = chain.Verifier(link, 0)
    made = [lines[0]]
    for line in lines[1:]:
        value = verifier.open(line)
        for old, new in changes:
            value = value.replace(old, new)
        framed, link = chain.frame_commit(link, value)
        made.append(framed)
    assert b"".join(made) != b"".join(lines)
    path.write_bytes(b"".join(made))
