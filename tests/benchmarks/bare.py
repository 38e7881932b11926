"""What the kernel is measured against: the same records, the same bytes, and nothing else.

Each loop does what any program must that keeps such a log, in the quickest way these libraries
offer: no state, no rules, no projection, no lock, no errors.
"""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from time import process_time as perf_counter
from typing import Any

import msgspec

from reducers.chain import CHAIN_BYTES
from reducers.vocabulary.events import Event


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A commit as it stands on its line, whole: its encoding is the line's value again."""

    at: int
    position: int
    input: dict[str, Any]
    events: tuple[Event, ...]


class Line(msgspec.Struct, frozen=True, gc=False):
    """A whole line, typed as far as a fold needs it: nobody folds the inputs."""

    chain: str
    commit: "Unread"


class Unread(msgspec.Struct, frozen=True, gc=False):
    at: int
    position: int
    input: msgspec.Raw
    events: tuple[Event, ...]


def recorded(values: Iterable[bytes]) -> list[Recorded]:
    """The records behind the raw values of commits."""
    decode = msgspec.json.Decoder(Recorded).decode
    return [decode(value) for value in values]


def decode_lines(lines: Sequence[bytes]) -> float:
    """Seconds to decode lines with msgspec alone, keeping what comes out in a list."""
    decode = msgspec.json.Decoder(Line).decode
    start = perf_counter()
    kept = [decode(line) for line in lines]
    seconds = perf_counter() - start
    assert len(kept) == len(lines)
    return seconds


def in_memory(records: Sequence[Recorded], chain: bytes) -> tuple[float, list[bytes]]:
    """Seconds to encode each record, chain it and append its line to a list; and the lines."""
    encode = msgspec.json.Encoder().encode
    lines: list[bytes] = []
    start = perf_counter()
    for record in records:
        value = encode(record)
        chain = blake2b(chain + value, digest_size=CHAIN_BYTES).digest()
        lines.append(b'{"chain":"%b","commit":%b}\n' % (chain.hex().encode(), value))
    return perf_counter() - start, lines


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
