"""One scripted session that can be lived again after any crash, and what must be true of it then.

Its model is a function of the request, its tools take effect in a file outside the log, and the
person who answers questions looks into that file. So every life goes on where the last one ended.
"""

import os
from pathlib import Path

import anyio

import nachalnik.kernel
from effects.logs.file import FileLog
from effects.logs.scan import check_log, read_log
from effects.logs.syscalls import Syscalls
from effects.ports import OutputSink
from effects.replay import redrive
from effects.tools.function import tool
from nachalnik import Config, ContextItem, Kernel, ModelInfo, ModelResponse, Rules, ToolCall
from reducers.codec import decode_header
from reducers.linear import pairing_problem
from reducers.statecodec import encode_state
from reducers.vocabulary.content import as_text
from reducers.vocabulary.items import ToolResult, UserMessage
from reducers.vocabulary.phases import Finished

USERS = ("first", "second")
CALLS = ("note", "pay", "touch")
"""The tools of one turn: one asks and is plain, one can tell by key, one may be run twice."""
LARGE = 300_000
"""Bytes of a result that is stored beside the log."""


class Outside:
    """The world: one line an effect, appended by the process that makes it."""

    def __init__(self, path):
        self.path = path

    def append(self, line):
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)

    def lines(self):
        return self.path.read_text().split("\n")[:-1] if self.path.exists() else []

    def has(self, line):
        return line in self.lines()


def tools_of(outside, reach):
    """`reach(name)` is called at the moments at which a life may end."""

    @tool(thread=False)
    def note(sink: OutputSink) -> str:
        """Write a note; nothing can tell later whether it was written."""
        reach("before an effect")
        outside.append(f"note {sink.key}")
        reach("after an effect")
        return "noted"

    @tool(thread=False)
    def pay(sink: OutputSink) -> str:
        """Pay; the bank can be asked by key."""
        reach("before an effect")
        outside.append(f"pay {sink.key}")
        reach("after an effect")
        return "paid " + "x" * LARGE

    @pay.reconciler
    def paid(key):
        return "paid before" if outside.has(f"pay {key}") else None

    @tool(thread=False, idempotent=True)
    def touch(sink: OutputSink) -> str:
        """Touch; a second time under one key changes nothing."""
        reach("before an effect")
        if not outside.has(f"touch {sink.key}"):
            outside.append(f"touch {sink.key}")
        reach("after an effect")
        return "touched"

    return [note, pay, touch]


class Answering:
    """A model that calls every tool once a turn, then says how many answered."""

    def __init__(self, reach):
        self.reach = reach
        self.requests = []

    def info(self):
        return ModelInfo("scripted", "m1", 10_000_000, tool_calling=True)

    async def respond(self, request, deltas):
        self.reach("before an effect")
        messages = list(request.messages)
        self.requests.append(messages)
        last = max(n for n, one in enumerate(messages) if one.role == "user")
        answered = sum(one.role == "tool" for one in messages[last:])
        self.reach("after an effect")
        if answered:
            return ModelResponse.of_text(f"{answered} answered")
        turn = sum(one.role == "user" for one in messages)
        return ModelResponse.of_calls(*(ToolCall(f"{name}-{turn}", name, "{}") for name in CALLS))


class Life:
    """One process's part of the session. `acknowledge` is told what the kernel has accepted."""

    def __init__(self, folder, *, calls=None, reach=lambda name: None, parallel=False, told=None):
        self.path = Path(folder, "demo.jsonl")
        self.outside = Outside(Path(folder, "outside"))
        self.calls = calls or Unsynced()
        self.provider = Answering(reach)
        self.tools = tools_of(self.outside, reach)
        self.config = Config(session_name="demo", parallel_tool_calls=parallel)
        self.acknowledge = told or (lambda line: None)
        self.kernel = None

    def open(self):
        nachalnik.kernel.FileLog = _through(self.calls)
        try:
            self.kernel = Kernel.open(
                self.path,
                provider=self.provider,
                tools=self.tools,
                policy=Rules(allow=["pay", "touch"]),
                config=self.config,
            )
        finally:
            nachalnik.kernel.FileLog = FileLog
        return self.kernel

    def live(self):
        """Go on to the end. Can be called again after any error that let the kernel live."""
        k = self.kernel
        for text in USERS:
            if text not in users(k):
                k.push(ContextItem.user(text))
                self.acknowledge(f"push {text}")
            while not self.has_answered(text):
                self.answer_questions()
                anyio.run(k.turn)
                self.acknowledge(f"position {k.position}")

    def has_answered(self, text):
        """A turn is finished behind this message, and no other message stands before it."""
        k = self.kernel
        items = k.items()
        mine = next(one.id for one in items if as_text(one.content) == text)
        behind = [one.id for one in items if isinstance(one.kind, UserMessage) and one.id > mine]
        ended = [one for one in items if as_text(one.content).endswith(" answered")]
        is_over = any(one.id > mine for one in ended if not behind or one.id < behind[0])
        return is_over and (bool(behind) or isinstance(k.state(), Finished))

    def answer_questions(self):
        k = self.kernel
        for question in k.pending_questions():
            if hasattr(question, "capabilities"):
                k.decide(question.id, "allow")
                self.acknowledge(f"grant {question.call}")
        for call in k.unanswered_calls():
            if not call.was_started:
                continue
            if self.outside.has(f"{call.tool} {call.key}"):
                k.settle(call.call, "somebody looked: it took effect")
            else:
                k.retry(call.call)
            self.acknowledge(f"settled {call.call}")

    def close(self):
        self.kernel.close()


def users(k):
    return [as_text(one.content) for one in k.items() if isinstance(one.kind, UserMessage)]


class Unsynced(Syscalls):
    """A SIGKILL takes nothing the system has, so these tests need no disk to wait for."""

    def fsync(self, fd):
        pass


def _through(calls):
    class Log(FileLog):
        @classmethod
        def create(cls, path, header, durability):
            return FileLog.create(path, header, durability, calls)

        @classmethod
        def open(cls, path, durability, fingerprint):
            return FileLog.open(path, durability, fingerprint, calls)

    return Log


# -- what must be true -------------------------------------------------------------------------


def check_session(folder, acknowledged=()):
    """The oracles, on a session that was brought to its end: nothing lost, nothing twice."""
    path, outside = Path(folder, "demo.jsonl"), Outside(Path(folder, "outside"))
    assert list(check_log(path)) == []
    with read_log(path) as view:
        values = [value for _, value in view.commits]
        header = decode_header(view.header)
    with Kernel.open(path, durability="memory") as k:
        found = redrive(header, iter(values), k._log.content)
        assert found.divergence is None, found.divergence
        assert found.commits == len(values)
        records = k.history(all=True)
        items = k.items()
        assert users(k) == list(USERS)
        for line in acknowledged:
            _check_acknowledged(line, records, len(values))
        _check_calls(records, items, outside)
        assert pairing_problem(list(k.project().messages)) is None
        assert encode_state(k.state_at(k.position)) == encode_state(k._writer.state)
    assert [as_text(one.content) for one in items][-1] == "3 answered"
    return records


def _check_acknowledged(line, records, positions):
    kind, _, what = line.partition(" ")
    match kind:
        case "push":
            contents = [one["content"] for one in records if one.name == "context.added"]
            assert {"text": what} in contents
        case "position":
            assert int(what) <= positions
        case "grant":
            granted = [one["call"] for one in records if one.name == "permission.decided"]
            assert what in granted
        case "settled":
            done = ("tool.finished", "tool.retried")
            assert what in [one["call"] for one in records if one.name in done]


def _check_calls(records, items, outside):
    """Oracles O and T; and each effect in the world is one start of the log."""
    results = [one.kind.call for one in items if isinstance(one.kind, ToolResult)]
    assert sorted(results) == sorted(f"{name}-{turn}" for name in CALLS for turn in (1, 2))
    assert sorted(one["call"] for one in records if one.name == "tool.finished") == sorted(results)
    keys, may_start = {}, set(results)
    for one in records:
        if one.name == "tool.started":
            assert one["call"] in may_start, f"{one['call']} was started twice"
            may_start.discard(one["call"])
            keys.setdefault(one["call"], one["effect"])
        elif one.name == "tool.retried":
            may_start.add(one["call"])
    done = [
        line.replace(line.partition(":")[0].split(" ")[1] + ":", "") for line in outside.lines()
    ]
    assert sorted(done) == sorted(f"{call.partition('-')[0]} {key}" for call, key in keys.items())
