"""The state cache `<log>.state`: an encoded state, and the place in the log it belongs to.

One JSON line, then the state's bytes. It makes opening quick and can always be deleted: one that is
wrong in any way is ignored, and the reason is told.
"""

import os
import zlib
from typing import Final

import msgspec
from msgspec import Struct

from effects.logs.lines import Place
from effects.logs.syscalls import (
    Syscalls,
    let_go,
    open_side,
    read_range,
    reason_of,
    replace_file,
)
from reducers import chain as chains

CACHE_FORMAT: Final = 1
HEAD_BYTES_MAX: Final = 1 << 12
"""Longest first line read: twelve times what a fingerprint of 64 characters makes it."""


class Cache(Struct, frozen=True, gc=False):
    """A state to go on from: that of the commit at `position`."""

    position: int
    fingerprint: str
    state: bytes


class CacheHead(Struct, frozen=True, gc=False):
    """The first line. `offset` is where the last line of the log began, `size` where it ended."""

    state_cache: int
    position: int
    offset: int
    size: int
    chain: str
    fingerprint: str
    state_bytes: int
    checksum: str

    @property
    def place(self) -> Place:
        return Place(self.size, bytes.fromhex(self.chain), self.position)


class CacheRefused(Exception):
    """Why a cache is not used."""


_decoder = msgspec.json.Decoder(CacheHead)


def write_cache(calls: Syscalls, path: str, last_offset: int, place: Place, cache: Cache) -> None:
    """Put a whole new cache in place of the old one, or leave that. Raises OSError.

    Not synced: a cache newer than what the log kept is found out when it is read.
    """
    head = CacheHead(
        CACHE_FORMAT,
        cache.position,
        last_offset,
        place.offset,
        place.chain.hex(),
        cache.fingerprint,
        len(cache.state),
        _checksum(cache.state),
    )
    data = msgspec.json.encode(head) + b"\n" + cache.state
    replace_file(calls, cache_file(path), data, is_synced=False)


def read_cache(
    calls: Syscalls, path: str, log_fd: int, log_size: int, fingerprint: str
) -> tuple[CacheHead, Cache] | None:
    """The cache beside a log, if there is one. Raises `CacheRefused`.

    Reads the cache and one line of the log: the one whose chain the cache claims to stand behind.
    """
    try:
        fd = open_side(calls, cache_file(path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheRefused(f"it cannot be read: {reason_of(error)}") from None
    try:
        size = calls.fstat(fd).st_size
        first, _, rest = read_range(calls, fd, 0, min(size, HEAD_BYTES_MAX)).partition(b"\n")
        head = _head_of(first, fingerprint)
        if size != len(first) + 1 + head.state_bytes:
            raise CacheRefused("its size is not what it says")
        _compare(calls, head, log_fd, log_size)
        state = rest + read_range(calls, fd, len(first) + 1 + len(rest), size)
    except OSError as error:
        raise CacheRefused(f"it cannot be read: {reason_of(error)}") from None
    finally:
        let_go(calls, fd)
    if _checksum(state) != head.checksum:
        raise CacheRefused("its state is damaged: the checksum does not match")
    return head, Cache(head.position, head.fingerprint, state)


def _checksum(state: bytes) -> str:
    """CRC-32: against bytes that rotted, not against a forger, and a fifth of a digest's time."""
    return f"{zlib.crc32(state):08x}"


def cache_file(path: str) -> str:
    return f"{path}.state"


def _head_of(line: bytes, fingerprint: str) -> CacheHead:
    if not line:
        raise CacheRefused("it is empty")
    try:
        head = _decoder.decode(line)
        head.place  # noqa: B018 - a chain that is no hexadecimal is refused here
    except (ValueError, RecursionError):
        raise CacheRefused("its first line cannot be read") from None
    if head.state_cache != CACHE_FORMAT:
        raise CacheRefused(f"it has format {head.state_cache}; this version reads {CACHE_FORMAT}")
    if head.fingerprint != fingerprint:
        raise CacheRefused("it was made by another version: its fingerprint differs")
    if head.position < 1 or not 0 <= head.offset < head.size or head.state_bytes < 1:
        raise CacheRefused("its first line has a number that cannot be true")
    return head


def _compare(calls: Syscalls, head: CacheHead, log_fd: int, log_size: int) -> None:
    """Refuse a cache that does not stand behind a line of this very log."""
    if head.size > log_size:
        raise CacheRefused(f"it is newer than the log, which ends before position {head.position}")
    line = read_range(calls, log_fd, head.offset, head.size)
    if not chains.is_line_of(line, head.place.chain, head.position):
        raise CacheRefused(f"the log holds something else at position {head.position}")
