"""A kernel with parts that do what a test tells them, and what must be true of it afterwards."""

import anyio

from effects.ports import ToolError
from effects.replay import redrive, restore
from nachalnik import Config, ContextItem, Kernel, ModelInfo, ModelResponse, Rules, ToolCall
from reducers.codec import decode_commit, decode_header
from reducers.linear import pairing_problem
from reducers.statecodec import encode_state
from reducers.vocabulary.content import as_text
from reducers.vocabulary.items import ToolResult
from reducers.vocabulary.tools import ToolOutput, ToolSpec

INFO = ModelInfo("scripted", "m1", 8000, tool_calling=True)


def call(id, tool, args="{}"):
    return ToolCall(id, tool, args)


def calls(*tools):
    """A reply that calls tools; those of `a b` are named c1 and c2."""
    return ModelResponse.of_calls(*(call(f"c{n}", tool) for n, tool in enumerate(tools, 1)))


def said(text):
    return ModelResponse.of_text(text)


class Model:
    """A provider whose replies are responses, exceptions, or functions of (request, sink)."""

    def __init__(self, *replies, info=INFO):
        self.replies = list(replies)
        self.described = info
        self.requests = []
        self.sinks = []

    def info(self):
        return self.described

    async def respond(self, request, deltas):
        self.requests.append(list(request.messages))
        self.sinks.append(deltas)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            return await reply(request, deltas)
        return reply


class Tool:
    """A tool that runs `act(call, sink)`, or gives back what it was made with."""

    def __init__(self, id, act="done", **spec):
        self.described = ToolSpec(id, f"The tool {id}.", **spec)
        self.act = act
        self.runs = []
        self.sinks = []

    def spec(self):
        return self.described

    async def invoke(self, call, output):
        self.runs.append(call.id)
        self.sinks.append(output)
        if isinstance(self.act, BaseException):
            raise self.act
        if callable(self.act):
            return await self.act(call, output)
        return self.act


class Gate:
    """A tool or a reply that waits: `began` when it is there, and goes on when `opened`."""

    def __init__(self, value="done"):
        self.value = value
        self.began = anyio.Event()
        self.opened = anyio.Event()
        self.was_cancelled = False

    async def __call__(self, *_):
        self.began.set()
        try:
            await self.opened.wait()
        except anyio.get_cancelled_exc_class():
            self.was_cancelled = True
            raise
        return self.value


class Deaf(Gate):
    """One that goes on although it is cancelled."""

    async def __call__(self, *_):
        self.began.set()
        with anyio.CancelScope(shield=True):
            await self.opened.wait()
        return self.value


class Policy:
    """A policy that is code: `verdicts` by tool, each a verdict, an exception or a function."""

    def __init__(self, **verdicts):
        self.verdicts = verdicts
        self.requests = []

    async def evaluate(self, request):
        self.requests.append(request)
        verdict = self.verdicts.get(request.tool, "allow")
        if isinstance(verdict, BaseException):
            raise verdict
        return await verdict(request) if callable(verdict) else verdict


ALL = Rules(allow=["*"])


def kernel(*replies, tools=(), policy=ALL, config=None, **options):
    """A kernel in memory with one message in its context."""
    made = Kernel(
        config or Config(session_name="demo", **options),
        provider=Model(*replies),
        tools=tools,
        policy=policy,
    )
    made.push(ContextItem.user("go"))
    return made


def model(kernel):
    return kernel.provider()


def names(kernel, since=0, all=True):
    """The names of the records behind a position, in order."""
    return [one.name for one in kernel.history(all=all) if one.position > since]


def named(kernel, name):
    """The records of one name, as plain objects."""
    return [one.event for one in kernel.history(all=True) if one.name == name]


def results(kernel):
    """(call, text, is_error) of every tool result in the context."""
    return [
        (item.kind.call, as_text(item.content), item.kind.is_error)
        for item in kernel.items()
        if isinstance(item.kind, ToolResult)
    ]


def sound(kernel, redriven=True):
    """The state is the fold of its log, the log judges again as it did, and requests are paired."""
    log = kernel._log
    assert encode_state(restore(log)) == encode_state(kernel._writer.state)
    recorded = [
        event for value in log.values() for event in decode_commit(value, log.content).events
    ]
    assert [one.raw for one in kernel.history(all=True)] == recorded
    if redriven:
        found = redrive(decode_header(log.header), log.values(), log.content)
        assert found.divergence is None, found.divergence
    for messages in getattr(kernel.provider(), "requests", []):
        assert pairing_problem(messages) is None
    return kernel


async def until(condition, seconds=5):
    """Wait for something another thread does."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - it is no task that does it
            await anyio.sleep(0.001)


__all__ = [
    "ALL",
    "Deaf",
    "Gate",
    "Model",
    "Policy",
    "Tool",
    "ToolError",
    "ToolOutput",
    "call",
    "calls",
    "kernel",
    "model",
    "named",
    "names",
    "results",
    "said",
    "sound",
    "until",
]
