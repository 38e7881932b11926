"""The event log as a JSON Lines file: format 1, one writer, appended to and never rewritten.

What can go wrong, and what is then true:

* a write fails: the file is cut back to its last whole line; the commit was not accepted;
* the cut fails too, or an exception comes between a write and its end: the log takes no more;
* a sync fails: the same, since what the system kept of earlier writes cannot be found out;
* the process dies: opening keeps every whole commit and sets aside what is torn.
"""

import os
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from types import TracebackType
from typing import Final, Literal, get_args

from effects.logs.cache import Cache, write_cache
from effects.logs.contents import ContentFolder
from effects.logs.lines import Place, Scan
from effects.logs.opening import MARK_EVERY, Opened, create_log, open_log
from effects.logs.port import LogDamaged, LogUnreadable, LogUnusable, LogWriteFailed
from effects.logs.syscalls import (
    SYSCALLS,
    SyncFailed,
    Syscalls,
    culprit,
    reason_of,
    sync_fd,
    write_whole,
)
from reducers.chain import frame_commit, has_position

Durability = Literal["fsync", "os", "memory"]
"""`fsync`: `sync` waits for the disk. `os`: `sync` leaves it to the system, while creating, mending
and closing wait for the disk, and so does keeping a large content, which closing does not reach.
`memory`: nothing ever waits for it. Written is written in each."""

StrPath = str | os.PathLike[str]

_BETWEEN: Final = "an append was interrupted, or another one is under way in this process"
_position = attrgetter("position")


def _waits_for_disk(durability: Durability) -> bool:
    """Whether all but `sync` waits for the disk. An unknown word is a ValueError."""
    if durability not in get_args(Durability):
        raise ValueError(f"durability is one of fsync, os, memory; not {durability!r}")
    return durability != "memory"


class FileLog:
    """An `EventLog` in a file, owned by this process until `close`."""

    header: bytes
    position: int
    chain: bytes
    path: str
    """Of the file itself, symbolic links resolved."""
    torn: int
    """Bytes a crash had left behind the last commit, set aside in `<log>.torn` on opening."""
    cached_position: int
    """Of the state cache this log was opened from, 0 without one."""
    cache_problem: str | None
    """Why the state cache was not used, or not written; None when nothing is wrong with it."""

    @classmethod
    def create(
        cls,
        path: StrPath,
        header: bytes,
        durability: Durability = "fsync",
        calls: Syscalls = SYSCALLS,
    ) -> "FileLog":
        """Make a log that holds `header` and no commit. See `create_log` for what it raises."""
        is_synced = _waits_for_disk(durability)
        made = create_log(calls, os.path.realpath(path), header, is_synced=is_synced)
        return cls(made, durability, calls)

    @classmethod
    def open(
        cls,
        path: StrPath,
        durability: Durability = "fsync",
        fingerprint: str | None = None,
        calls: Syscalls = SYSCALLS,
    ) -> "FileLog":
        """Own a log that exists and verify it. See `open_log` for what it raises.

        With a fingerprint, a state cache that bears it is used: what lies before its commit is
        not read. Without one, everything is verified.
        """
        is_synced = _waits_for_disk(durability)
        opened = open_log(calls, os.path.realpath(path), fingerprint, is_synced=is_synced)
        return cls(opened, durability, calls)

    def __init__(self, opened: Opened, durability: Durability, calls: Syscalls) -> None:
        self.header = opened.header
        self.position = opened.place.position
        self.chain = opened.place.chain
        self.path = opened.path
        self.torn = opened.torn
        self.cached_position = 0 if opened.cache is None else opened.cache.position
        self.cache_problem = opened.cache_problem
        self._calls = calls
        self._write = calls.write
        self._fd = opened.fd
        self._pid = opened.lock.pid
        self._durability = durability
        self._size = opened.place.offset
        self._last_offset = opened.last_offset
        # A process that died may have written without syncing, so the first `sync` is a real one.
        self._synced_size = 0
        self._is_writing = False
        self._writes = 0
        """Lines begun, so that a thread that syncs knows of those begun meanwhile."""
        self._refusal: str | None = None
        self._marks = opened.marks
        self._kept = opened.kept
        self._opened_at = self.position
        self._cache = opened.cache
        self._contents = ContentFolder(calls, self.path, is_synced=_waits_for_disk(durability))
        # Also when the log is dropped without `close`, and when the interpreter ends.
        self._release = weakref.finalize(self, opened.lock.release)

    # -- writing -----------------------------------------------------------------------

    def append(self, value: bytes, contents: Sequence[tuple[str, bytes]] = ()) -> None:
        if self._refusal is not None or self._is_writing or os.getpid() != self._pid:
            raise LogUnusable(self._why_unusable(), self.path)
        position = self.position + 1
        if not has_position(value, position):
            raise ValueError(f"not the commit of position {position}: {value[:60]!r}")
        line, chain = frame_commit(self.chain, value)
        if contents:
            self._store(contents)
        # Any exception that finds its way out from here leaves this standing (rulings.md, R25).
        self._is_writing = True
        self._writes += 1
        try:
            write_whole(self._write, self._fd, line)
        except OSError as error:
            self._take_back(error)
            raise LogWriteFailed(self.path, reason_of(error)) from error
        except BaseException as error:
            self._take_back(error)
            raise
        self._last_offset = self._size
        self._size += len(line)
        self.chain = chain
        self.position = position
        if position % MARK_EVERY == 0:
            self._marks.append(Place(self._size, chain, position))
        self._is_writing = False

    def sync(self) -> None:
        if self._refusal is not None:
            raise LogUnusable(self._refusal, self.path)
        writes, is_writing = self._writes, self._is_writing  # in this order, before the size
        size = self._size
        if size == self._synced_size:
            return
        try:
            found = self._size_found(size)
            # What another thread writes meanwhile is ours, and is looked at by the next sync.
            if found > size and not is_writing and writes == self._writes:
                raise OSError(0, f"somebody else wrote to it: it has {found} bytes, not {size}")
            if self._durability == "fsync":
                sync_fd(self._calls, self._fd)
        except OSError as error:
            raise self._poison(f"what it wrote last may be lost: {reason_of(error)}") from error
        self._synced_size = size

    def write_cache(self, state: bytes, fingerprint: str) -> None:
        """Keep the encoded state of the last commit, to open from; there is none before commit 1.

        Never fails: if it could not be written, `cache_problem` says why.
        """
        if self.position == 0 or self._refusal is not None or self._is_writing:
            return
        place = Place(self._size, self.chain, self.position)
        cache = Cache(self.position, fingerprint, state)
        try:
            write_cache(self._calls, self.path, self._last_offset, place, cache)
        except OSError as error:
            self.cache_problem = f"it could not be written: {reason_of(error)}"
        else:
            self.cache_problem = None

    def close(self) -> None:
        """Sync and let go, even when syncing fails: then `LogUnusable` is raised after."""
        if not self._release.alive:
            return
        try:
            if self._refusal is None and os.getpid() == self._pid:
                self.sync()
                if self._durability == "os":
                    sync_fd(self._calls, self._fd)
        except OSError as error:
            raise self._poison(f"what it wrote last may be lost: {reason_of(error)}") from error
        finally:
            self._refusal = "it is closed"
            self._release()

    # -- reading -----------------------------------------------------------------------

    def values(self, since: int = 0) -> Iterator[bytes]:
        kept, self._kept = self._kept, []
        first = self._opened_at - len(kept)
        if self._opened_at == self.position and since >= first:
            return islice(kept, since - first, None)
        return self._read(since, self._size, self.position)

    def content(self, digest: str) -> bytes:
        return self._contents.read(digest)

    def refuse_cache(self, reason: str) -> None:
        """Note why the state cache this log was opened from is of no use after all."""
        self.cached_position = 0
        self.cache_problem = reason

    def read_cache(self) -> Cache | None:
        """The state cache this log was opened from; given once, so that its bytes can go."""
        cache, self._cache = self._cache, None
        return cache

    def _read(self, since: int, end: int, last: int) -> Iterator[bytes]:
        if not self._release.alive:
            raise LogUnusable("it is closed", self.path)
        before = bisect_right(self._marks, since, key=_position)
        start = self._marks[max(before - 1, 0)]
        try:  # a file of its own: the log may be closed while somebody still reads
            fd = self._calls.dup(self._fd)
        except OSError as error:
            raise LogUnreadable(self.path, reason_of(error)) from error
        scan = Scan(self._calls, self.path, fd, start, end, owns_fd=True)
        try:
            for value in scan.values():
                if scan.position > since:
                    yield value
        finally:
            scan.close()
        if scan.position != last:
            raise LogDamaged(self.path, scan.position + 2, f"the file ends before commit {last}")

    # -- when things go wrong ----------------------------------------------------------

    def _store(self, contents: Sequence[tuple[str, bytes]]) -> None:
        try:
            self._contents.store(contents)
        except SyncFailed as error:
            raise self._poison(f"a content may be lost: {reason_of(error)}") from error
        except OSError as error:
            name = culprit(self._calls, error, self.path) or f"{self.path}.d"
            raise LogWriteFailed(name, reason_of(error)) from error

    def _take_back(self, error: BaseException) -> None:
        """Cut a line written in part off again, or take no more lines."""
        try:
            self._calls.ftruncate(self._fd, self._size)
        except OSError as second:
            reason = f"a line was written in part ({error!r}), and not cut off: {reason_of(second)}"
            raise self._poison(reason) from second
        self._is_writing = False

    def _poison(self, reason: str) -> LogUnusable:
        self._refusal = reason
        return LogUnusable(reason, self.path)

    def _why_unusable(self) -> str:
        if self._refusal is not None:
            return self._refusal
        return _BETWEEN if self._is_writing else "this process is a copy (fork) of its owner"

    def _size_found(self, size: int) -> int:
        """Of the file now. Raises OSError when it is gone, or shorter: somebody else did that."""
        found = self._calls.fstat(self._fd)
        if found.st_nlink == 0:
            raise OSError(0, "the file was removed or replaced by somebody else")
        if found.st_size < size:
            raise OSError(0, f"somebody else cut the file to {found.st_size} of {size} bytes")
        return found.st_size

    def __enter__(self) -> "FileLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
