"""One writer a log: an advisory lock on a file beside it, and the owner's name beside that.

The lock is the kernel's, on `<log>.lock`, and falls with the process that holds it: a killed owner
leaves nothing to clean up. That file is never removed: whoever unlinks a lock file lets two
processes lock two files of one name. The owner's name stands in `<log>.owner`, for people only.
"""

import contextlib
import os
from datetime import UTC, datetime

import msgspec

from effects.logs.port import Owner, SessionOwned
from effects.logs.syscalls import (
    OWN_FILE,
    Syscalls,
    let_go,
    naming,
    open_side,
    read_file,
    replace_file,
)


class Lock:
    """Holds a log from its making until `release`."""

    def __init__(self, calls: Syscalls, path: str) -> None:
        """Lock at once, or raise `SessionOwned`; OSError, which names the lock file, when that
        cannot be had."""
        self.pid = os.getpid()
        self._calls = calls
        self._path = path
        self._is_named = False
        self._fds: list[int] = []
        name = f"{path}.lock"
        with naming(name):
            self.add(open_side(calls, name, OWN_FILE))

    def add(self, fd: int) -> None:
        """Lock one more open file, to be closed with the others; `release` when that fails.

        The log's own file is added too: it tells two hard links of one log apart from two logs,
        and holds when somebody removed the lock file.
        """
        self._fds.append(fd)
        try:
            self._calls.flock(fd)
        except BlockingIOError:
            self.release()
            raise SessionOwned(self._path, read_owner(self._calls, self._path)) from None
        except BaseException:
            self.release()
            raise

    def leave_name(self) -> None:
        """Say who owns the log, once every lock is held. Never fails: the locks are as good."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        owner = msgspec.json.encode(Owner(self.pid, os.uname().nodename, since))
        self._is_named = True
        with contextlib.suppress(OSError):  # a full disk must not keep a session closed
            replace_file(self._calls, _owner_file(self._path), owner, is_synced=False)

    def release(self) -> None:
        """Let go. In a forked child only its copies are closed: the parent still owns the log."""
        fds, self._fds = self._fds, []
        with contextlib.ExitStack() as held:  # whatever interrupts this, every lock is let go
            for fd in fds:
                held.callback(let_go, self._calls, fd)
            if fds and self._is_named and self.pid == os.getpid():
                with contextlib.suppress(OSError):
                    self._calls.unlink(_owner_file(self._path))


def read_owner(calls: Syscalls, path: str) -> Owner | None:
    """The name the owner of a log left; None when there is none, or none that can be read.

    Advisory: an owner that was killed leaves its name behind, a new one needs a moment to write.
    """
    try:
        return msgspec.json.decode(read_file(calls, _owner_file(path)), type=Owner)
    except (OSError, ValueError, RecursionError):
        return None


def _owner_file(path: str) -> str:
    return f"{path}.owner"
