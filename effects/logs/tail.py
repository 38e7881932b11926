"""What a crash left behind the last whole commit: set aside, never thrown away."""

import os

from effects.logs.syscalls import (
    COPY_BYTES,
    OWN_FILE,
    Syscalls,
    naming,
    open_side,
    sync_fd,
    sync_folder,
    write_whole,
)


def torn_file(path: str) -> str:
    return f"{path}.torn"


def set_aside(
    calls: Syscalls, path: str, fd: int, start: int, end: int, *, is_synced: bool
) -> None:
    """Append the bytes from `start` to `end` of a log to `<log>.torn`, then cut them off the log.

    In this order a crash between the two leaves them twice, never lost. Raises OSError.
    """
    name = torn_file(path)
    torn = open_side(calls, name, OWN_FILE | os.O_APPEND)
    try:
        offset = start
        while block := calls.pread(fd, min(COPY_BYTES, end - offset), offset):
            with naming(name):
                write_whole(calls.write, torn, block)
            offset += len(block)
        if is_synced:
            with naming(name):
                sync_fd(calls, torn)
    finally:
        calls.close(torn)
    if is_synced:
        sync_folder(calls, os.path.dirname(path))
    calls.ftruncate(fd, start)
