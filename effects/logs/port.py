"""What a log is to the kernel, and the errors every log raises.

A log keeps raw commit values (bytes, made by the codec) in their order and chains them. *Written*
means: survives the death of this process. *Synced* means: survives the loss of power.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from reducers.vocabulary.errors import KernelError


class EventLog(Protocol):
    """One session's commits. Calls that write come from one thread at a time; `sync` from any."""

    header: bytes
    """The raw value of the header."""
    position: int
    """Number of the last commit; 0 when there is none."""
    chain: bytes
    """The 16 raw bytes of the last line's chain."""

    def append(self, value: bytes, contents: Sequence[tuple[str, bytes]] = ()) -> None:
        """Write one commit; it is written when this returns.

        `contents` are the large contents it names, as (digest, bytes): synced before the commit is
        written. A value that is not the commit of the next position, or a content that does not
        have its digest, is a fault: ValueError, nothing written.

        Raises `LogWriteFailed` (not accepted, the log goes on) and `LogUnusable` (no more writing).
        """
        ...

    def sync(self) -> None:
        """Make everything written durable, as far as the log promises; free when nothing is new.

        Raises `LogUnusable`: what was written since the last sync may be lost with the power.
        """
        ...

    def values(self, since: int = 0) -> Iterator[bytes]:
        """The verified raw values of the commits after position `since`, as the log stands now."""
        ...

    def content(self, digest: str) -> bytes:
        """One large content. Raises `LogDamaged` when it is missing or has another digest."""
        ...

    def close(self) -> None:
        """Sync and let go; the log can be opened again. A second call does nothing."""
        ...


# -- errors ----------------------------------------------------------------------------


class LogError(KernelError):
    """Base of what a log raises. Each message says what, where, and what to do."""


class LogMissing(LogError):
    def __init__(self, path: str, reason: str = "there is no such file") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: no log: {reason}. Check the name, or create the log")


class LogExists(LogError):
    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path}: there is a log already. Open it, or choose another name")


class NotALog(LogError):
    """The file is something else; it was not touched."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: not a log: {reason}. It was not touched; choose another file")


class NewerLog(LogError):
    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        super().__init__(
            f"{path}, line 1: written in log format {number}, which this version does not know. "
            "It was not touched; use a newer version"
        )


class LogDamaged(LogError):
    """Bytes that are not what was written. `line` counts from 1; None for a content's file."""

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        where = path if line is None else f"{path}, line {line}"
        super().__init__(
            f"{where}: damaged: {reason}. Nothing is written to a damaged log; "
            "`nachalnik check` tells what is whole, or bring back a copy"
        )


class LogUnsound(LogDamaged):
    """A whole line, in its chain, whose value this version cannot read or fold."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(path, line, reason)
        text = (
            f"{path}, line {line}: {reason}. The line is as it was written, so another version or "
            "another hand wrote it. Nothing was changed; `nachalnik check` tells what is sound"
        )
        self.args = (text,)


class LogUnreadable(LogError):
    """The operating system refused; the `__cause__` is its error."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: the system refuses: {reason}. Mend that, then open it again")


class SideFileRefused(LogUnreadable):
    """A file beside a log that cannot be used, so that the log cannot be opened or made."""

    def __init__(self, log: str, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.log = log
        text = (
            f"{path}: cannot be used: {reason}. The log {log} is not written without this file: "
            "mend it or move it away, then open the log again"
        )
        self.args = (text,)


class LogWriteFailed(LogError):
    """A write that was NOT accepted and left nothing in the log; the session may go on."""

    def __init__(self, path: str, reason: str, kept: str = "") -> None:
        self.path = path
        self.reason = reason
        kept = kept or "This commit is not in the log; what was acknowledged before stands"
        super().__init__(
            f"{path}: not written: {reason}. {kept}. Mend that (free some space, say) and go on"
        )


class LogNotMade(LogWriteFailed):
    """A log that could not be begun."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason, "There is no log, or one without a commit")


class LogUnusable(LogError):
    """This process may write no more to the log: what the file holds is not known for certain."""

    def __init__(self, reason: str, path: str = "the log") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: takes no more commits: {reason}. Close it and open it again")


class Owner(Struct, frozen=True, gc=False):
    """Who writes a log: advisory, for people."""

    pid: int
    host: str
    since: str
    """ISO 8601, UTC."""


class SessionOwned(LogError):
    def __init__(self, path: str, owner: Owner | None) -> None:
        self.path = path
        self.owner = owner
        name = "another process, which has not left its name"
        if owner is not None:
            name = f"process {owner.pid} on {owner.host}, since {owner.since}"
        super().__init__(f"{path}: owned by {name}. Close it there, or only read it here")
