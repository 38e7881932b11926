"""What the kernel is measured against: the same records, the same bytes, and nothing else.

Each loop does what any program must that keeps such a log, in the quickest way these libraries
offer: no state, no rules, no projection, no lock, no errors.
"""

import gc
import os
from collections.abc import Sequence
from hashlib import blake2b
from time import perf_counter, process_time
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from effects.ports import DeltaSink, OutputSink
from reducers.chain import CHAIN_BYTES
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.digests import text_digest
from reducers.vocabulary.events import (
    ContextAdded,
    Event,
    ModelFinished,
    ModelRequested,
    PermissionDecided,
    Splice,
    StateChanged,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from reducers.vocabulary.items import AssistantMessage, ContextItem, ToolResult
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.models import StopReason
from reducers.vocabulary.phases import Executing, Idle, Ready, Requesting
from tests.benchmarks.workload import COMMITS_BEFORE, STAMP_START_MS, STAMP_STEP_MS, Caller, Look

# -- the records, typed as they stand on their lines -------------------------------------------


class Place(Struct, frozen=True, gc=False):
    """Where in the events a value stands that an input would repeat."""

    held: int


class Reply(Struct, frozen=True, gc=False, omit_defaults=True):
    calls: Place | None = None
    stop: StopReason = "end_turn"
    content: Place | None = None


class Output(Struct, frozen=True, gc=False):
    content: Place


class _Input(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag"):
    pass


class Opened(_Input, frozen=True, tag="session.opened"):
    pass


class Described(_Input, frozen=True, tag="parts.described"):
    pass


class Pushed(_Input, frozen=True, tag="context.push"):
    pass


class Run(_Input, frozen=True, tag="turn.run"):
    pass


class Answered(_Input, frozen=True, tag="model.settled"):
    effect: str
    response: Reply


class Settled(_Input, frozen=True, tag="tool.settled"):
    effect: str
    output: Output


class Record(Struct, frozen=True, gc=False):
    """A commit of the workload, whole: its encoding is the line's value again."""

    at: int
    position: int
    input: Opened | Described | Pushed | Run | Answered | Settled
    events: tuple[Event, ...]


class Line(Struct, frozen=True, gc=False):
    chain: str
    commit: Record


# -- reading -----------------------------------------------------------------------------------


def decode_lines(lines: Sequence[bytes]) -> float:
    """CPU seconds to decode whole lines with msgspec alone, keeping what comes out in a list."""
    decode = Decoder(Line).decode
    gc.collect()
    start = process_time()
    kept = [decode(line) for line in lines]
    seconds = process_time() - start
    assert len(kept) == len(lines)
    return seconds


def chain_of(line: bytes) -> bytes:
    return bytes.fromhex(Decoder(Line).decode(line).chain)


# -- the loop in memory ------------------------------------------------------------------------


async def in_memory(lines: Sequence[bytes], rounds: int) -> tuple[float, list[bytes]]:
    """A loop that asks the same provider with the messages so far, runs the same tool, and of what
    they say makes, encodes, chains and appends the same records to a list: CPU seconds, and the
    lines, which are the kernel's to the byte.

    What the kernel works out (tokens, digests) is taken from its lines beforehand.
    """
    decode = Decoder(Line).decode
    given = [decode(line).commit.events for line in lines[1:]]
    requests = [events[-1] for events in given[COMMITS_BEFORE + 1 :: 2]]
    results = [events[1].tokens for events in given[COMMITS_BEFORE + 1 :: 2]]
    replies = [events[0].item.tokens for events in given[COMMITS_BEFORE::2]]
    caller, tool = Caller(rounds), Look()
    encode = Encoder().encode
    chain = chain_of(lines[COMMITS_BEFORE])
    made: list[bytes] = []

    def append(record: Record) -> None:
        nonlocal chain
        value = encode(record)
        chain = blake2b(chain + value, digest_size=CHAIN_BYTES).digest()
        made.append(b'{"chain":"%b","commit":%b}\n' % (chain.hex().encode(), value))

    messages = [Message("user", Text("Look around."))]
    tools = (tool.spec(),)
    start = process_time()
    for number in range(rounds):
        reply = await caller.respond(ModelRequest(messages, tools), DeltaSink())
        call = reply.calls[0]
        messages.append(Message("assistant", tool_calls=reply.calls))
        append(reply_record(number, call, replies[number]))
        output = await tool.invoke(call, OutputSink())
        messages.append(Message("tool", output.content, tool_call_id=call.id, name=call.tool))
        append(result_record(number, call, output.content, results[number], requests[number]))
    return process_time() - start, made


def reply_record(number: int, call: ToolCall, tokens: int) -> Record:
    position = COMMITS_BEFORE + 1 + 2 * number
    seq, step, item = 8 + 12 * number, 1 + 2 * number, 2 + 2 * number
    names = (call.id,)
    turn = ContextItem(
        id=item,
        kind=AssistantMessage((call,)),
        source="model",
        label="assistant",
        content=Text(""),
        state="active",
        tokens=tokens,
    )
    effect = f"{position - 1}.0"
    return Record(
        STAMP_START_MS + STAMP_STEP_MS * (position - 1),
        position,
        Answered(effect, Reply(Place(0), "tool_use")),
        (
            ContextAdded(seq=seq, turn=1, step=step, item=turn, undo="open"),
            ModelFinished(
                seq=seq + 1,
                turn=1,
                step=step,
                effect=effect,
                stop="tool_use",
                tool_calls=names,
                item=item,
            ),
            ToolRequested(seq=seq + 2, turn=1, step=step, call=call.id, tool=call.tool),
            PermissionDecided(
                seq=seq + 3,
                turn=1,
                step=step,
                id=number + 1,
                call=call.id,
                grant="allow",
                source="policy",
                args=text_digest(call.args),
            ),
            StateChanged(seq=seq + 4, turn=1, step=step, to=Ready(names)),
            StateChanged(seq=seq + 5, turn=1, step=step + 1, to=Executing(names)),
            ToolStarted(seq=seq + 6, turn=1, step=step + 1, effect=0, call=call.id, tool=call.tool),
        ),
    )


def result_record(
    number: int, call: ToolCall, content: Any, tokens: int, requested: ModelRequested
) -> Record:
    position = COMMITS_BEFORE + 2 + 2 * number
    seq, step, item = 15 + 12 * number, 2 + 2 * number, 3 + 2 * number
    result = ContextItem(
        id=item,
        kind=ToolResult(call.id, call.tool),
        source="tool_result",
        label=call.tool,
        content=content,
        state="active",
        tokens=tokens,
    )
    effect = f"{position - 1}.0"
    return Record(
        STAMP_START_MS + STAMP_STEP_MS * (position - 1),
        position,
        Settled(effect, Output(Place(0))),
        (
            ContextAdded(seq=seq, turn=1, step=step, item=result, undo="open"),
            ToolFinished(
                seq=seq + 1,
                turn=1,
                step=step,
                effect=effect,
                call=call.id,
                tool=call.tool,
                tokens=tokens,
                item=item,
            ),
            StateChanged(seq=seq + 2, turn=1, step=step, to=Idle()),
            StateChanged(seq=seq + 3, turn=1, step=step + 1, to=Requesting()),
            ModelRequested(
                seq=seq + 4,
                turn=1,
                step=step + 1,
                effect=0,
                model=requested.model,
                messages=item,
                tools=1,
                tokens=requested.tokens,
                items=Splice(keep=item - 2, put=(item - 1, item)),
                digest=requested.digest,
            ),
        ),
    )


def encode_only(lines: Sequence[bytes]) -> float:
    """CPU seconds to encode, chain and append records that are ready made."""
    decode = Decoder(Line).decode
    records = [decode(line).commit for line in lines]
    encode = Encoder().encode
    chain = bytes(CHAIN_BYTES)
    made: list[bytes] = []
    start = process_time()
    for record in records:
        value = encode(record)
        chain = blake2b(chain + value, digest_size=CHAIN_BYTES).digest()
        made.append(b'{"chain":"%b","commit":%b}\n' % (chain.hex().encode(), value))
    return process_time() - start


# -- the loop on a disk ------------------------------------------------------------------------


def durable(lines: Sequence[bytes], path: str) -> float:
    """Seconds to append each line to a file and sync it: each commit of a round announces an
    effect, so a sync stands behind each."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        start = perf_counter()
        for line in lines:
            os.write(fd, line)
            os.fsync(fd)
        return perf_counter() - start
    finally:
        os.close(fd)
