"""One pass over the lines of an open log: the header, then verified commits, then what is torn.

Shared by the writer, which opens a log with it, and by readers. Nothing in here writes.
"""

import io
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from effects.logs.port import LogDamaged, LogMissing, LogUnreadable, NewerLog, NotALog
from effects.logs.syscalls import Syscalls, let_go, reason_of
from reducers import chain as chains
from reducers.chain import Damage, NewerFormat, Verifier

HEAD_BLOCK_BYTES: Final = 1 << 12
"""Read at once for the header alone, so that opening with a state cache reads little else."""
BLOCK_BYTES: Final = 1 << 18
"""Read at once on a pass over commits."""


class Place(Struct, frozen=True, gc=False):
    """A border between two lines: where the next begins, and what the last one left."""

    offset: int
    chain: bytes
    position: int


class Head(Struct, frozen=True, gc=False):
    """A whole header."""

    header: bytes
    place: Place
    """Behind the header, or behind its last byte when the newline is missing."""
    is_ended: bool
    """False when the newline is missing: no commit can follow, only torn bytes."""


class Window(io.RawIOBase):
    """Some bytes of an open file as a stream, read through the one door."""

    def __init__(self, calls: Syscalls, fd: int, start: int, end: int, *, owns_fd: bool) -> None:
        super().__init__()
        self._calls = calls
        self._fd = fd
        self._at = start
        self._end = end
        self._owns_fd = owns_fd

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # A reader may stand behind the end, where a newline is still due.
        size = max(0, min(len(buffer), self._end - self._at))
        data = self._calls.pread(self._fd, size, self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        # Also reached when the last reference goes, so a reader dropped half-way leaks no file.
        if not self.closed and self._owns_fd:
            let_go(self._calls, self._fd)
        super().close()


def open_file(calls: Syscalls, path: str) -> int:
    """A log's file, open for reading. Raises `LogMissing`, `NotALog`, `LogUnreadable`."""
    try:
        mode = calls.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise NotALog(path, "it is a folder")
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its other end
            raise NotALog(path, "it is no ordinary file")
        return calls.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        raise LogMissing(path) from None
    except OSError as error:
        raise LogUnreadable(path, reason_of(error)) from error


def read_head(calls: Syscalls, path: str, fd: int, size: int) -> Head | None:
    """The header; None when a crash cut the log's creation short, so that it holds nothing.

    Raises `NotALog`, `NewerLog`, `LogDamaged` at line 1, OSError.
    """
    head = calls.pread(fd, chains.HEAD_BYTES, 0)
    is_ours = chains.is_ours(head)
    if len(head) == chains.HEAD_BYTES and not is_ours:
        raise NotALog(path, "it does not begin as a log does")
    window = Window(calls, fd, 0, size, owns_fd=False)
    with io.BufferedReader(window, HEAD_BLOCK_BYTES) as lines:
        line = lines.readline()
    try:
        return _head_of(line)
    except NewerFormat as newer:
        raise NewerLog(path, newer.number) from None
    except Damage as damage:
        if is_ours:
            raise LogDamaged(path, 1, damage.reason) from None
        raise NotALog(path, "it does not begin as a log does") from None


def need_head(calls: Syscalls, path: str, fd: int, size: int) -> Head:
    """The header of a log there is. Raises `LogMissing`, and what `read_head` raises."""
    head = read_head(calls, path, fd, size)
    if head is None:
        raise LogMissing(path, "a crash cut its creation short, so it holds nothing yet")
    return head


def _head_of(line: bytes) -> Head | None:
    if not line.endswith(b"\n"):
        if chains.is_torn_header(line):
            return None
        if begun := chains.begin_header(line):
            header, chain, length = begun
            return Head(header, Place(length, chain, 0), is_ended=False)
    header, chain = chains.open_header(line)
    return Head(header, Place(len(line), chain, 0), is_ended=True)


class Scan:
    """A pass over the commits of an open file from `place` to `end`.

    As it goes, `offset`, `chain` and `position` are those behind the commit given last, and
    `last_offset` is where that one began. Behind the last commit, `torn` counts the bytes that
    belong to none, and `is_ended` says whether that commit has its newline.
    """

    def __init__(
        self,
        calls: Syscalls,
        path: str,
        fd: int,
        place: Place,
        end: int,
        *,
        is_ended: bool = True,
        owns_fd: bool = False,
    ) -> None:
        self._path = path
        self._end = end
        self._window = Window(calls, fd, place.offset, end, owns_fd=owns_fd)
        self._verifier = Verifier(place.chain, place.position)
        self.offset = place.offset
        self.last_offset = 0
        self.torn = 0
        self.is_ended = is_ended

    @property
    def position(self) -> int:
        return self._verifier.position

    @property
    def chain(self) -> bytes:
        return self._verifier.chain

    @property
    def place(self) -> Place:
        return Place(self.offset, self.chain, self.position)

    def values(self, *, keeps_unended: bool = True) -> Iterator[bytes]:
        """The raw value of each commit, verified. Raises `LogDamaged` at the first bad line.

        A last commit that is whole but for its newline is given too, unless told otherwise.
        """
        if not self.is_ended:
            self.torn = self._end - self.offset
            return
        verify = self._verifier.open
        line = b""
        try:
            with io.BufferedReader(self._window, BLOCK_BYTES) as lines:
                for line in lines:
                    value = verify(line)
                    self.last_offset = self.offset
                    self.offset += len(line)
                    yield value
        except Damage as damage:
            if line.endswith(b"\n"):
                raise LogDamaged(self._path, self.position + 2, damage.reason) from None
        except OSError as error:
            raise LogUnreadable(self._path, reason_of(error)) from error
        else:
            return
        yield from self._tail(line, keeps_unended=keeps_unended)

    def _tail(self, line: bytes, *, keeps_unended: bool) -> Iterator[bytes]:
        begun = None
        if keeps_unended:
            begun = chains.begin_commit(self.chain, self.position + 1, line)
        if begun is None:
            self.torn = len(line)
            return
        value, self._verifier.chain, length = begun
        self._verifier.position += 1
        self.last_offset = self.offset
        self.offset += length
        self.torn = len(line) - length
        self.is_ended = False
        yield value

    def close(self) -> None:
        self._window.close()
