"""A log in memory: the same lines and the same chain as the file's, gone with the process."""

from collections.abc import Iterator, Sequence

from effects.logs.port import LogDamaged, LogUnusable
from reducers import chain as chains
from reducers.vocabulary.digests import digest_of


class MemoryLog:
    """An `EventLog` that promises nothing beyond the life of this object."""

    def __init__(self, header: bytes) -> None:
        line, self.chain = chains.frame_header(header)
        self.header = header
        self.position = 0
        self._lines = [line]
        self._contents: dict[str, bytes] = {}
        self._is_closed = False

    def append(self, value: bytes, contents: Sequence[tuple[str, bytes]] = ()) -> None:
        if self._is_closed:
            raise LogUnusable("it is closed")
        position = self.position + 1
        if not chains.has_position(value, position):
            raise ValueError(f"not the commit of position {position}: {value[:60]!r}")
        for digest, content in contents:
            if digest_of(content) != digest:
                raise ValueError(f"a content does not have the digest {digest[:40]!r}")
        line, chain = chains.frame_commit(self.chain, value)
        self._contents.update(contents)
        self._lines.append(line)
        self.chain = chain
        self.position = position

    def sync(self) -> None:
        if self._is_closed:
            raise LogUnusable("it is closed")

    def values(self, since: int = 0) -> Iterator[bytes]:
        return map(chains.value_of, self._lines[1 + max(since, 0) :])

    def content(self, digest: str) -> bytes:
        content = self._contents.get(digest)
        if content is None:
            raise LogDamaged("memory", None, f"the content {digest[:40]!r} is missing")
        return content

    def close(self) -> None:
        self._is_closed = True

    def lines(self) -> Iterator[bytes]:
        """Every line, the header's first: joined, they are the file that would have been."""
        return iter(self._lines[:])
