"""Large contents, each in a file `<log>.d/<digest>`, written and synced before its commit.

A digest becomes a file name only when it is 32 lower-case hexadecimal digits, so no path from a log
or from outside ever reaches the system.
"""

import os
import re
from collections.abc import Iterator, Sequence

from effects.logs.port import LogDamaged
from effects.logs.syscalls import (
    Syscalls,
    make_folder,
    read_file,
    reason_of,
    replace_file,
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

    def store(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Keep contents, durable when this returns; those already kept are not written again.

        Raises ValueError for a wrong digest before anything is written; OSError, `SyncFailed`.
        """
        for digest, content in contents:
            if not is_digest(digest) or digest_of(content) != digest:
                raise ValueError(f"a content does not have the digest {digest[:40]!r}")
        make_folder(self._calls, self._folder, is_synced=self._is_synced)
        for digest, content in contents:
            if self._size_of(digest) != len(content):
                replace_file(self._calls, self._path(digest), content, is_synced=self._is_synced)
        # Also when nothing was written: a process that died may have left a name not yet durable.
        if self._is_synced:
            sync_folder(self._calls, self._folder)

    def read(self, digest: str) -> bytes:
        """One content. Raises `LogDamaged` when it is missing or wrong; OSError."""
        if not is_digest(digest):
            raise LogDamaged(self._folder, None, f"{digest[:40]!r} is not a digest")
        path = self._path(digest)
        try:
            content = read_file(self._calls, path)
        except (FileNotFoundError, NotADirectoryError):
            raise LogDamaged(path, None, "the content is missing") from None
        except IsADirectoryError:
            raise LogDamaged(path, None, "a folder stands in the content's place") from None
        if (found := digest_of(content)) != digest:
            raise LogDamaged(path, None, f"the content's bytes have another digest, {found}")
        return content

    def problems(self) -> Iterator[tuple[str, str]]:
        """File and reason for each content that is not what its name says."""
        try:
            names = self._calls.names(self._folder)
        except FileNotFoundError:
            return
        for name in filter(is_digest, names):
            try:
                self.read(name)
            except LogDamaged as damage:
                yield damage.path, damage.reason
            except OSError as error:
                yield self._path(name), reason_of(error)

    def _path(self, digest: str) -> str:
        return os.path.join(self._folder, digest)

    def _size_of(self, digest: str) -> int:
        try:
            return self._calls.stat(self._path(digest)).st_size
        except FileNotFoundError:
            return -1
