"""Reading a log without owning it: never locks, never writes, never cuts anything off.

The log may grow meanwhile: a reader sees it as it stood when it was opened, and `follow` goes on.
"""

import os
from collections.abc import Iterator
from types import TracebackType

from msgspec import Struct

from effects.logs.contents import ContentFolder
from effects.logs.lines import Head, Place, Scan, need_head, open_file
from effects.logs.port import LogDamaged, LogUnreadable
from effects.logs.syscalls import COPY_BYTES, SYSCALLS, Syscalls, let_go, reason_of


class LogView:
    """A log being read. `commits` gives (line number, raw value), verified, once."""

    def __init__(self, path: str, head: Head, scan: Scan) -> None:
        self.path = path
        self.header = head.header
        self.commits = _numbered(scan)
        self._scan = scan

    @property
    def torn(self) -> int:
        """Bytes at the end that belong to no whole commit; known when `commits` is used up."""
        return self._scan.torn

    @property
    def place(self) -> Place:
        """Behind the commit read last: where `follow` goes on."""
        place = self._scan.place
        # A missing newline is counted as if it were there: opening the log will write it.
        return (
            place if self._scan.is_ended else Place(place.offset + 1, place.chain, place.position)
        )

    def close(self) -> None:
        """Let the file go before `commits` is used up."""
        self._scan.close()

    def __enter__(self) -> "LogView":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def _numbered(scan: Scan) -> Iterator[tuple[int, bytes]]:
    # Not a method: a view that is dropped must close its file at once, so no cycle may hold it.
    try:
        yield from enumerate(scan.values(), scan.position + 2)
    finally:
        scan.close()


def read_log(path: str | os.PathLike[str], calls: Syscalls = SYSCALLS) -> LogView:
    """Open a log for reading.

    Raises `LogMissing` (also for a log whose creation a crash cut short), `NotALog`, `NewerLog`,
    `LogUnreadable`, and `LogDamaged` for the header; for a commit, `commits` raises it after
    having given every commit before.
    """
    path = os.path.realpath(path)
    fd = open_file(calls, path)
    try:
        size = calls.fstat(fd).st_size
        head = need_head(calls, path, fd, size)
        return LogView(
            path,
            head,
            Scan(calls, path, fd, head.place, size, is_ended=head.is_ended, owns_fd=True),
        )
    except OSError as error:
        let_go(calls, fd)
        raise LogUnreadable(path, reason_of(error)) from error
    except BaseException:
        let_go(calls, fd)
        raise


def follow(
    path: str | os.PathLike[str], place: Place, calls: Syscalls = SYSCALLS
) -> tuple[list[bytes], Place]:
    """The commits that were completed behind `place`, and the place behind them. Does not wait.

    Good commits before a bad line are given first; the next call raises `LogDamaged`.
    """
    path = os.path.realpath(path)
    fd = open_file(calls, path)
    try:
        size = calls.fstat(fd).st_size
    except OSError as error:
        let_go(calls, fd)
        raise LogUnreadable(path, reason_of(error)) from error
    scan = Scan(calls, path, fd, place, size, owns_fd=True)
    values: list[bytes] = []
    try:
        if size + 1 < place.offset:
            raise LogDamaged(path, place.position + 1, "the file is shorter than what was read")
        for value in scan.values(keeps_unended=False):
            values.append(value)  # noqa: PERF402 - what came before a bad line must stay
    except LogDamaged:
        if not values:
            raise
    finally:
        scan.close()
    return values, scan.place


class Finding(Struct, frozen=True, gc=False):
    """What `check_log` has to say. `line` counts from 1; None: it is about another file."""

    line: int | None
    text: str


def check_log(path: str | os.PathLike[str], calls: Syscalls = SYSCALLS) -> Iterator[Finding]:
    """Verify every byte of a log, and of the large contents that stand beside it.

    Behind a broken chain nothing can be verified, so the first bad line is the last one judged. A
    content that is gone is not found: which there must be is known to whoever decodes the commits,
    and `nachalnik.checking` finds all that is wrong with a log. Raises what `read_log` raises,
    except `LogDamaged`.
    """
    path = os.path.realpath(path)
    try:
        with read_log(path, calls) as view:
            for _ in view.commits:
                pass
            if view.torn:
                text = f"{view.torn} bytes at the end belong to no whole commit"
                yield Finding(view.place.position + 2, f"{text}; opening sets them aside")
    except LogDamaged as damage:
        line = damage.line or 1
        behind = _count_lines(path, calls) - line
        text = f"{damage.reason}; {behind} lines behind it cannot be verified"
        yield Finding(line, text)
    for name, reason in ContentFolder(calls, path).problems():
        yield Finding(None, f"{name}: {reason}")


def _count_lines(path: str, calls: Syscalls) -> int:
    """Lines of the file, a last one without newline included."""
    fd = open_file(calls, path)
    try:
        offset, count, last = 0, 0, b"\n"
        while block := calls.pread(fd, COPY_BYTES, offset):
            offset += len(block)
            count += block.count(b"\n")
            last = block[-1:]
        return count + (last != b"\n")
    except OSError as error:
        raise LogUnreadable(path, reason_of(error)) from error
    finally:
        let_go(calls, fd)
