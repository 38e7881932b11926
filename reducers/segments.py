"""Stretches of the context, kept as what they become, and the lists read across them.

What a segment says is a function of its items alone, however it came about.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

import msgspec

from reducers.linear import LinearProjector, Piece, exchanged
from reducers.tokens import TokenCounter, uncounted_message
from reducers.vocabulary.digests import raw_digest
from reducers.vocabulary.events import Skipped
from reducers.vocabulary.items import AssistantMessage, ContextItem, ToolResult
from reducers.vocabulary.messages import Message

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


class Priced:
    """A piece with what it costs: encoded digest, raw figure, unpriced pieces."""

    __slots__ = ("digest", "piece", "raw", "uncounted")

    def __init__(self, piece: Piece, counter: TokenCounter) -> None:
        self.piece = piece
        message = piece.message
        if message is None:
            self.digest, self.raw, self.uncounted = b"", 0, 0
        else:
            self.digest = raw_digest(_encode(message))
            self.raw = counter.count_message(message)
            self.uncounted = uncounted_message(counter, message)


class Segment:
    """A stretch of items and what it becomes. Immutable once made."""

    __slots__ = (
        "digest",
        "digests",
        "ids",
        "included",
        "items",
        "messages",
        "priced",
        "raws",
        "reordered",
        "repairs",
        "skipped",
        "surplus",
        "uncounted",
    )

    items: tuple[ContextItem, ...]
    priced: tuple[Priced, ...]
    messages: tuple[Message, ...]
    included: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    repairs: tuple[str, ...]
    reordered: tuple[str, ...]
    ids: frozenset[str]
    """Of every call and result in it."""
    surplus: frozenset[str]
    """Of those that found no partner here."""
    raws: dict[int, int]
    """How many of its messages have which raw figure."""
    uncounted: int
    digests: bytes
    """Those of its messages, in wire order."""
    digest: bytes

    @classmethod
    def of(
        cls,
        items: tuple[ContextItem, ...],
        projector: LinearProjector,
        counter: TokenCounter,
        known: dict[int, Priced],
    ) -> "Segment":
        made = cls()
        made.items = items
        by_id: dict[int, Priced] = {}
        for item, verdict in zip(items, projector.verdicts(items), strict=True):
            priced = known.get(item.id)
            if priced is None or priced.piece.item is not item or priced.piece.verdict != verdict:
                priced = Priced(projector.piece(item, verdict), counter)
            by_id[item.id] = priced
        made.priced = tuple(by_id.values())
        pieces = [priced.piece for priced in made.priced]
        joined = projector.join(pieces)
        made.messages = tuple(joined.messages)
        made.included = tuple(joined.included)
        made.skipped = tuple(joined.skipped)
        made.repairs = tuple(joined.repairs)
        made.reordered = tuple(joined.reordered)
        made.ids = frozenset(ids_of(items))
        # What found no partner is always told as a repair.
        made.surplus = frozenset(_surplus(pieces) if made.repairs else ())
        sent = [by_id[id] for id in made.included]
        made.raws = {}
        made.uncounted = 0
        made.digests = b""
        made._count(sent)
        return made

    def _count(self, sent: Sequence[Priced]) -> None:
        """Add the figures and digests of messages that stand at the end."""
        for priced in sent:
            self.raws[priced.raw] = self.raws.get(priced.raw, 0) + 1
            self.uncounted += priced.uncounted
        self.digests += b"".join([priced.digest for priced in sent])
        self.digest = raw_digest(self.digests)

    def followed(
        self, items: tuple[ContextItem, ...], projector: LinearProjector, counter: TokenCounter
    ) -> "Segment":
        """The segment of these items and the next ones."""
        grown = self.with_exchanges(items, projector, counter)
        if grown is None:
            return Segment.of(self.items + items, projector, counter, self.by_id())
        return grown

    def with_exchanges(
        self, items: tuple[ContextItem, ...], projector: LinearProjector, counter: TokenCounter
    ) -> "Segment | None":
        """The same, where the next items are whole exchanges of their own: all that is known of
        these stays as it is then. None where they are not."""
        found = exchanged(items)
        if found is None or not self.ids.isdisjoint(found[1]):
            return None
        verdicts, ids = found
        sent = [
            Priced(projector.piece(item, verdict), counter)
            for item, verdict in zip(items, verdicts, strict=True)
        ]
        messages = [priced.piece.message for priced in sent]
        if None in messages:
            return None
        made = Segment()
        made.items = self.items + items
        made.priced = self.priced + tuple(sent)
        made.messages = self.messages + tuple(messages)  # type: ignore[arg-type]
        made.included = self.included + tuple([item.id for item in items])
        made.skipped, made.repairs, made.reordered = self.skipped, self.repairs, self.reordered
        for priced in sent:
            if priced.piece.repairs:
                made.repairs += priced.piece.repairs
        made.ids = self.ids.union(ids)
        made.surplus = self.surplus
        made.raws, made.uncounted, made.digests = dict(self.raws), self.uncounted, self.digests
        made._count(sent)
        return made

    def by_id(self) -> dict[int, Priced]:
        """Its pieces by the ids of their items."""
        return {priced.piece.item.id: priced for priced in self.priced}


def ids_of(items: Sequence[ContextItem]) -> list[str]:
    found: list[str] = []
    for item in items:
        kind = item.kind
        if type(kind) is ToolResult:
            found.append(kind.call)
        elif type(kind) is AssistantMessage:
            found += [call.id for call in item.calls()]
    return found


def _surplus(pieces: Sequence[Piece]) -> Iterator[str]:
    """Ids of calls and results that found no partner here."""
    for item, verdict, *_ in pieces:
        if isinstance(item.kind, ToolResult):
            if verdict:
                yield item.kind.call
        elif isinstance(verdict, tuple):
            for call, kept in zip(item.calls(), verdict, strict=True):
                if not kept:
                    yield call.id


class Chained(Sequence[T], Generic[T]):
    """One list of the projection, read across the segments without copying it."""

    __slots__ = ("_field", "_length", "_segments", "_tail")

    def __init__(
        self, segments: tuple[Segment, ...], tail: Segment, field: str, length: int
    ) -> None:
        self._segments, self._tail, self._field = segments, tail, field
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for segment in self._segments:
            yield from getattr(segment, self._field)
        yield from getattr(self._tail, self._field)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, stride = index.indices(self._length)
            return self.slice(start, stop)[::stride] if stride > 0 else tuple(self)[index]
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(index)
        return self.slice(place, place + 1)[0]

    def slice(self, start: int, stop: int) -> tuple[T, ...]:
        """Read from whichever end is nearer to what is asked for."""
        end = self._length
        parts: list[tuple[T, ...]] = []
        for segment in itertools.chain((self._tail,), reversed(self._segments)):
            values = getattr(segment, self._field)
            begin = end - len(values)
            if begin < stop and end > start:
                parts.append(tuple(values[max(0, start - begin) : stop - begin]))
            end = begin
            if end <= start:
                break
        return tuple([value for part in reversed(parts) for value in part])

    def shared(self, other: "Chained[T]") -> int:
        """How many leading values stand in segments both have, by identity."""
        theirs = other._segments
        if self._segments[: len(theirs)] == theirs:
            return other._length - len(getattr(other._tail, self._field))
        count = 0
        for mine, one in zip(self._segments, theirs, strict=False):
            if mine is not one:
                break
            count += len(getattr(mine, self._field))
        return count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))
