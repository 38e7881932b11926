"""Large contents, each in a file `<log>.d/<digest>`, written and synced before its commit.

A digest becomes a file name only when it is 32 lower-case hexadecimal digits, so no path from a log
or from outside ever reaches the system.
"""

import os
import re
from collections.abc import Iterator, Sequence

from effects.logs.port import LogDamaged, LogUnreadable
from effects.logs.syscalls import (
    NotAFile,
    Syscalls,
    let_go,
    make_folder,
    open_side,
    read_file,
    read_range,
    reason_of,
    replace_file,
    sync_fd,
    sync_folder,
)
from reducers.vocabulary.digests import digest_of

_DIGEST = re.compile(r"[0-9a-f]{32}")


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


class ContentFolder:
    """The contents beside one log."""

    def __init__(self, calls: Syscalls, path: str, *, is_synced: bool = True) -> None:
        self._calls = calls
        self._folder = f"{path}.d"
        self._is_synced = is_synced
        self._is_folder_durable = False

    def store(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Keep contents, durable when this returns; those already kept are not written again.

        What has a content's name and other bytes is replaced.

        Raises ValueError for a wrong digest before anything is written; OSError, `SyncFailed`.
        """
        for digest, content in contents:
            if not is_digest(digest) or digest_of(content) != digest:
                raise ValueError(f"a content does not have the digest {digest[:40]!r}")
        self._make_folder()
        for digest, content in contents:
            if not self._is_kept(digest, content):
                replace_file(self._calls, self._path(digest), content, is_synced=self._is_synced)
        # Also when nothing was written: a process that died may have left a name not yet durable.
        if self._is_synced:
            sync_folder(self._calls, self._folder)

    def read(self, digest: str) -> bytes:
        """One content. Raises `LogDamaged` when it is missing or wrong; `LogUnreadable`."""
        if not is_digest(digest):
            raise LogDamaged(self._folder, None, f"{digest[:40]!r} is not a digest")
        path = self._path(digest)
        try:
            content = read_file(self._calls, path)
        except (FileNotFoundError, NotADirectoryError):
            raise LogDamaged(path, None, "the content is missing") from None
        except NotAFile as error:
            raise LogDamaged(path, None, f"no content: {reason_of(error)}") from None
        except OSError as error:
            raise LogUnreadable(path, reason_of(error)) from error
        if (found := digest_of(content)) != digest:
            raise LogDamaged(path, None, f"the content's bytes have another digest, {found}")
        return content

    def problems(self) -> Iterator[tuple[str, str]]:
        """File and reason for each file that is not what its name says; or for the folder, when it
        cannot be looked into. One that is missing is not told: only commits name it."""
        try:
            names = self._calls.names(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            yield self._folder, reason_of(error)
            return
        for name in filter(is_digest, names):
            try:
                self.read(name)
            except (LogDamaged, LogUnreadable) as problem:
                yield problem.path, problem.reason

    def _make_folder(self) -> None:
        make_folder(self._calls, self._folder, is_synced=False)
        if self._is_synced and not self._is_folder_durable:
            sync_folder(self._calls, os.path.dirname(self._folder))
            self._is_folder_durable = True

    def _path(self, digest: str) -> str:
        return os.path.join(self._folder, digest)

    def _is_kept(self, digest: str, content: bytes) -> bool:
        """Whether these very bytes are kept, durable when this returns. Raises `SyncFailed`."""
        path = self._path(digest)
        try:
            if self._calls.stat(path).st_size != len(content):
                return False
            fd = open_side(self._calls, path, os.O_RDONLY)
        except OSError:  # what cannot be looked at is replaced
            return False
        try:
            if self._bytes_of(fd, len(content)) != content:
                return False
            if self._is_synced:  # an owner that never waits for the disk may have left them
                sync_fd(self._calls, fd)
            return True
        finally:
            let_go(self._calls, fd)

    def _bytes_of(self, fd: int, size: int) -> bytes | None:
        try:
            return read_range(self._calls, fd, 0, size)
        except OSError:
            return None
