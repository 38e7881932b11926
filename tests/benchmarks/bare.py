"""What the kernel is measured against: the same records, the same bytes, and nothing else.

Each loop does what any program must that keeps such a log, in the quickest way these libraries
offer: no state, no rules, no projection, no lock, no errors.
"""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from time import perf_counter, process_time

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from reducers.chain import CHAIN_BYTES
from reducers.vocabulary.events import Event
from reducers.vocabulary.models import StopReason

# -- the records, typed as they stand on their lines -------------------------------------------


class Place(Struct, frozen=True, gc=False):
    """Where in the events a value stands that an input would repeat."""

    held: int


class Response(Struct, frozen=True, gc=False, omit_defaults=True):
    calls: Place | None = None
    stop: StopReason = "end_turn"
    usage: Place | None = None
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
    response: Response


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


def records(values: Iterable[bytes]) -> list[Record]:
    """The records behind the raw values of commits."""
    decode = Decoder(Record).decode
    return [decode(value) for value in values]


# -- the loops ---------------------------------------------------------------------------------


def decode_lines(lines: Sequence[bytes]) -> float:
    """Seconds to decode whole lines with msgspec alone, keeping what comes out in a list."""
    decode = Decoder(Line).decode
    start = process_time()
    kept = [decode(line) for line in lines]
    seconds = process_time() - start
    assert len(kept) == len(lines)
    return seconds


def in_memory(made: Sequence[Record], chain: bytes) -> tuple[float, list[bytes]]:
    """Seconds to encode each record, chain it and append its line to a list; and the lines."""
    encode = Encoder().encode
    lines: list[bytes] = []
    start = process_time()
    for record in made:
        value = encode(record)
        chain = blake2b(chain + value, digest_size=CHAIN_BYTES).digest()
        lines.append(b'{"chain":"%b","commit":%b}\n' % (chain.hex().encode(), value))
    return process_time() - start, lines


def durable(lines: Sequence[bytes], path: str) -> float:
    """Seconds to append each line to a file and sync it: a sync stands behind every commit of a
    round, since each announces an effect."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        start = perf_counter()
        for line in lines:
            os.write(fd, line)
            os.fsync(fd)
        return perf_counter() - start
    finally:
        os.close(fd)
