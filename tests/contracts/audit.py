"""An alarm for the pure core: while armed, touching the world raises.

    with purity_alarm():
        step(state, input)

It sees what Python reports as an audit event: files, sockets, processes; threads from Python 3.12
on, sleeping from 3.13 on. A clock read or a random number raises no such event: what stops those is
`test_purity.py`, which admits no module that could do either. What is imported for the first time
inside the block opens a file too: import it before.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

WORLD = frozenset(
    {
        "_thread.start_joinable_thread",
        "_thread.start_new_thread",
        "builtins.input",
        "mmap.__new__",
        "open",
        "pty.spawn",
        "signal.pthread_kill",
        "time.sleep",
        "webbrowser.open",
    }
)
WORLD_FAMILIES = (
    "fcntl.",
    "ftplib.",
    "glob.",
    "http.",
    "imaplib.",
    "os.",
    "pathlib.",
    "poplib.",
    "resource.",
    "shutil.",
    "smtplib.",
    "socket.",
    "sqlite3.",
    "subprocess.",
    "syslog.",
    "tempfile.",
    "urllib.",
)


class TouchedTheWorld(AssertionError):
    """Code under the alarm caused an audit event that only the shell may cause."""


class _Watch(threading.local):
    """One a thread: an alarm armed here does not watch what other threads do."""

    depth = 0
    first: TouchedTheWorld | None = None


_watch = _Watch()
_install_lock = threading.Lock()
_installed = False


def _hook(event: str, args: tuple[object, ...]) -> None:
    if not _watch.depth:
        return
    if event in WORLD or event.startswith(WORLD_FAMILIES):
        alarm = TouchedTheWorld(f"{event}{args!r}")
        _watch.first = _watch.first or alarm
        raise alarm


def _install() -> None:
    """Once in a process: an audit hook cannot be taken away again, only told to look elsewhere."""
    global _installed
    with _install_lock:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True


@contextmanager
def purity_alarm() -> Iterator[None]:
    """Raise `TouchedTheWorld` where this thread touches the world inside the block.

    A block that swallows the exception has it raised again at its end. Blocks may be nested.
    """
    _install()
    outer, _watch.first = _watch.first, None
    _watch.depth += 1
    try:
        yield
    finally:
        _watch.depth -= 1
        first, _watch.first = _watch.first, outer
        if first is not None:
            raise first
