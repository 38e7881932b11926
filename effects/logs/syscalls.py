"""The one door from the file log to the operating system, and what is built from single calls.

Tests put another `Syscalls` in its place, which fails, or kills the process, at the k-th call.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
OWN_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
"""How a file beside a log is opened: a link left in its place leads nowhere."""
COPY_BYTES: Final = 1 << 20
"""Bytes moved by one read: enough that the calls do not count, little enough for any machine."""


class Syscalls:
    """Each method is one call of the operating system."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def dup(self, fd: int) -> int:
        return os.dup(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def stat(self, path: str) -> os.stat_result:
        return os.stat(path)

    def lstat(self, path: str) -> os.stat_result:
        return os.lstat(path)

    def flock(self, fd: int) -> None:
        """Lock for this open file alone, or raise BlockingIOError at once."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path, FOLDER_MODE)

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))


SYSCALLS: Final = Syscalls()


class NotAFile(OSError):
    """Something else stands where a file beside a log belongs: a folder, a pipe, a device."""


class SyncFailed(OSError):
    """An fsync failed: whether earlier writes are durable can no longer be found out."""


def reason_of(error: OSError) -> str:
    """The system's words for an error, without the path (the caller names it)."""
    return error.strerror or str(error) or type(error).__name__


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """An OSError from inside that names no file names this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def culprit(calls: Syscalls, error: OSError, path: str) -> str | None:
    """The file an error names, where one stands beside the log at `path` under that name.

    Where none does, the folder is at fault, or the log's own name.
    """
    name = error.filename
    if not (isinstance(name, str) and name.startswith(f"{path}.")):
        return None
    if not isinstance(error, NotAFile):
        try:
            calls.lstat(name)
        except OSError:
            return None
    return name


def open_side(calls: Syscalls, path: str, flags: int) -> int:
    """A file beside a log, open. Raises OSError that names it, also for what is no ordinary file.

    Whatever somebody left in its place is not waited for: a pipe has no other end here.
    """
    with naming(path):
        try:
            fd = calls.open(path, flags | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(errno.ELOOP, "it is a symbolic link") from error
            if error.errno == errno.ENXIO:
                raise NotAFile(errno.ENXIO, "it is no ordinary file") from error
            raise
        try:
            mode = calls.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                raise NotAFile(errno.EISDIR, "it is a folder")
            if not stat.S_ISREG(mode):
                raise NotAFile(errno.ENXIO, "it is no ordinary file")
        except BaseException:
            let_go(calls, fd)
            raise
    return fd


def let_go(calls: Syscalls, fd: int) -> None:
    """Close a file that was only read, or is synced: an error then says nothing about its bytes."""
    with contextlib.suppress(OSError):
        calls.close(fd)


def write_whole(write: Callable[[int, bytes], int], fd: int, data: bytes) -> None:
    """Write all of `data`; a short write is continued. Raises OSError, possibly after a part."""
    written = write(fd, data)
    while written < len(data):
        count = write(fd, data[written:])
        if count == 0:
            raise OSError(0, "the system takes no more bytes")
        written += count


def sync_fd(calls: Syscalls, fd: int) -> None:
    """fsync. Raises `SyncFailed`."""
    try:
        calls.fsync(fd)
    except OSError as error:
        raise SyncFailed(error.errno, f"fsync: {reason_of(error)}") from error


def sync_folder(calls: Syscalls, folder: str) -> None:
    """Make the names in a folder durable. Raises OSError, `SyncFailed`."""
    fd = calls.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_fd(calls, fd)
    finally:
        let_go(calls, fd)


def make_folder(calls: Syscalls, folder: str, *, is_synced: bool) -> None:
    """Make a folder and those above it that are missing, each for its owner alone."""
    try:
        calls.mkdir(folder)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folder(calls, os.path.dirname(folder), is_synced=is_synced)
        make_folder(calls, folder, is_synced=is_synced)
        return
    if is_synced:
        sync_folder(calls, os.path.dirname(folder))


def replace_file(calls: Syscalls, path: str, data: bytes, *, is_synced: bool) -> None:
    """Put a whole new file in the place of `path`, or leave that untouched and raise OSError.

    With `is_synced` the bytes are durable before the name changes; the name is so only after
    `sync_folder`.
    """
    temporary = f"{path}.new"
    try:
        fd = open_side(calls, temporary, OWN_FILE | os.O_TRUNC)
        try:
            write_whole(calls.write, fd, data)
            if is_synced:
                sync_fd(calls, fd)
        finally:
            calls.close(fd)
        try:
            calls.rename(temporary, path)
        except OSError as error:
            error.filename = path  # not the new file: what stands in its way
            raise
    except OSError:
        with contextlib.suppress(OSError):
            calls.unlink(temporary)
        raise


def read_file(calls: Syscalls, path: str) -> bytes:
    """The whole of a file beside a log. Raises OSError."""
    fd = open_side(calls, path, os.O_RDONLY)
    try:
        return read_range(calls, fd, 0, calls.fstat(fd).st_size)
    finally:
        let_go(calls, fd)


def read_range(calls: Syscalls, fd: int, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`; fewer where the file ends before."""
    blocks: list[bytes] = []
    while start < end and (block := calls.pread(fd, min(COPY_BYTES, end - start), start)):
        blocks.append(block)
        start += len(block)
    return b"".join(blocks)
