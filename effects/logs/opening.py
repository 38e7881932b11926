"""Creating and opening a log's file: the lock, the header, the state cache, the tail.

Until the lock is held nothing is written but the lock's own file, and that only beside a log.
"""

import contextlib
import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from effects.logs.cache import Cache, CacheRefused, read_cache
from effects.logs.lines import Place, Scan, need_head, open_file, read_head
from effects.logs.lock import Lock
from effects.logs.port import (
    LogExists,
    LogMissing,
    LogNotMade,
    LogUnreadable,
    SideFileRefused,
)
from effects.logs.syscalls import (
    Syscalls,
    culprit,
    let_go,
    make_folder,
    reason_of,
    sync_fd,
    sync_folder,
    write_whole,
)
from effects.logs.tail import set_aside
from reducers.chain import frame_header

MARK_EVERY: Final = 256
"""Commits between two remembered places: reading from anywhere verifies at most so many more."""
KEPT_BYTES_MAX: Final = 64 << 20
"""Values kept from the pass that opens a log, so that folding them does not read them again."""


class Opened(Struct):
    """A log's file, locked, verified and ready to be appended to."""

    path: str
    fd: int
    lock: Lock
    header: bytes
    place: Place
    """Behind the last line."""
    last_offset: int
    """Where the last commit began."""
    marks: list[Place]
    kept: list[bytes]
    """The last values read, without a gap; fewer than there are when they were too many."""
    torn: int = 0
    cache: Cache | None = None
    cache_problem: str | None = None


def create_log(calls: Syscalls, path: str, header: bytes, *, is_synced: bool) -> Opened:
    """Make a new log; over what a crash left of an earlier creation, too.

    Raises `LogExists`, `NotALog`, `NewerLog`, `LogDamaged`, `SessionOwned`, `LogUnreadable`,
    `SideFileRefused`, `LogNotMade`. After each of them, and after a crash at any point, there is
    no log, or one that is whole.
    """
    line, chain = frame_header(header)
    with contextlib.suppress(LogMissing):
        _peek(calls, path)
        raise LogExists(path)
    with _failing_as(calls, LogNotMade, path), contextlib.ExitStack() as held:
        make_folder(calls, os.path.dirname(path), is_synced=is_synced)
        lock = Lock(calls, path)
        held.callback(lock.release)
        fd = calls.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        lock.add(fd)
        size = calls.fstat(fd).st_size
        if read_head(calls, path, fd, size) is not None:
            raise LogExists(path)
        lock.leave_name()
        if size:
            set_aside(calls, path, fd, 0, size, is_synced=is_synced)
        _write_header(calls, path, fd, line, is_synced=is_synced)
        held.pop_all()
    place = Place(len(line), chain, 0)
    return Opened(path, fd, lock, header, place, 0, [place], [], torn=size)


def _write_header(calls: Syscalls, path: str, fd: int, line: bytes, *, is_synced: bool) -> None:
    try:
        write_whole(calls.write, fd, line)
        if is_synced:
            sync_fd(calls, fd)
            sync_folder(calls, os.path.dirname(path))
    except OSError:
        # Whoever tries again shall find no log. If this fails as well, it finds a torn creation,
        # or a whole log without a commit.
        with contextlib.suppress(OSError):
            calls.ftruncate(fd, 0)
        raise


def open_log(calls: Syscalls, path: str, fingerprint: str | None, *, is_synced: bool) -> Opened:
    """Own a log and verify it: all of it, or what follows the commit of a good state cache.

    Raises `LogMissing`, `NotALog`, `NewerLog`, `LogDamaged`, `SessionOwned`, `LogUnreadable`,
    `SideFileRefused`. After each of them the log holds what it held; torn bytes may have been set
    aside.
    """
    _peek(calls, path)
    with _failing_as(calls, LogUnreadable, path), contextlib.ExitStack() as held:
        lock = Lock(calls, path)
        held.callback(lock.release)
        fd = calls.open(path, os.O_RDWR | os.O_APPEND)
        lock.add(fd)
        lock.leave_name()
        opened = _read(calls, path, fd, lock, fingerprint, is_synced=is_synced)
        held.pop_all()
    return opened


@contextlib.contextmanager
def _failing_as(
    calls: Syscalls, kind: type[LogUnreadable | LogNotMade], path: str
) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        name = culprit(calls, error, path)
        if name is not None:
            raise SideFileRefused(path, name, reason_of(error)) from error
        raise kind(path, reason_of(error)) from error


def _peek(calls: Syscalls, path: str) -> None:
    """Look before anything is locked or made: no side file is left beside what is not a log."""
    fd = open_file(calls, path)
    try:
        need_head(calls, path, fd, calls.fstat(fd).st_size)
    except OSError as error:
        raise LogUnreadable(path, reason_of(error)) from error
    finally:
        let_go(calls, fd)


def _read(
    calls: Syscalls, path: str, fd: int, lock: Lock, fingerprint: str | None, *, is_synced: bool
) -> Opened:
    size = calls.fstat(fd).st_size
    head = need_head(calls, path, fd, size)
    opened = Opened(path, fd, lock, head.header, head.place, 0, [head.place], [])
    if fingerprint is not None:
        _use_cache(calls, opened, size, fingerprint)
    start = opened.place
    scan = Scan(calls, path, fd, start, size, is_ended=head.is_ended)
    room = KEPT_BYTES_MAX
    values = scan.values()
    while batch := list(islice(values, MARK_EVERY - scan.position % MARK_EVERY)):
        if scan.position % MARK_EVERY == 0:
            opened.marks.append(scan.place)
        room -= sum(map(len, batch))
        if room >= 0:
            opened.kept += batch
    if room < 0:
        opened.kept = []
    if scan.position > start.position:
        opened.last_offset = scan.last_offset
    opened.place = scan.place
    opened.torn = scan.torn
    _mend(calls, opened, size, is_ended=scan.is_ended, is_synced=is_synced)
    return opened


def _use_cache(calls: Syscalls, opened: Opened, size: int, fingerprint: str) -> None:
    try:
        found = read_cache(calls, opened.path, opened.fd, size, fingerprint)
    except CacheRefused as refusal:
        opened.cache_problem = str(refusal)
        return
    if found is not None:
        head, opened.cache = found
        opened.place = head.place
        opened.last_offset = head.offset
        opened.marks.append(head.place)


def _mend(calls: Syscalls, opened: Opened, size: int, *, is_ended: bool, is_synced: bool) -> None:
    """Leave whole lines and nothing else, so that the next append begins a line of its own."""
    place = opened.place
    if opened.torn:
        set_aside(calls, opened.path, opened.fd, place.offset, size, is_synced=is_synced)
    if not is_ended:
        write_whole(calls.write, opened.fd, b"\n")
        opened.place = Place(place.offset + 1, place.chain, place.position)
        # The last mark may be the place before this newline.
        if opened.marks[-1].position == place.position:
            opened.marks[-1] = opened.place
