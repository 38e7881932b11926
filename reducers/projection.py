"""The request side of the context: cut into segments, kept where nothing changed.

The cuts are part of the log format, since the digest of a request chains them: a segment holds at
least 32 items, and is closed before an item when no call of it is open, or when that item is a turn
with calls (an unanswered batch is given up). A cut looks only backward and at the next item. Where
a call or result that one segment gave up occurs in another, the whole context is one segment.

All of this is a function of the items alone. What is kept from an earlier projection saves work and
can never show: `project(items, any earlier) == project(items)`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import msgspec

from reducers.linear import LinearProjector, Piece, Projection
from reducers.machines.calibration import Calibration
from reducers.machines.context import Context
from reducers.tokens import TokenCounter, uncounted_message
from reducers.vocabulary.digests import DIGEST_BYTES, raw_digest
from reducers.vocabulary.items import ContextItem, ToolResult
from reducers.vocabulary.messages import Message
from reducers.vocabulary.persistent import Vector

__all__ = ["SEGMENT_MIN", "Chained", "LinearProjector", "Projected", "Projection", "project"]

SEGMENT_MIN = 32

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
        "ids",
        "items",
        "priced",
        "projection",
        "raws",
        "surplus",
        "uncounted",
    )

    def __init__(
        self,
        items: tuple[ContextItem, ...],
        projector: LinearProjector,
        counter: TokenCounter,
        known: dict[int, Priced],
    ) -> None:
        self.items = items
        self.priced: list[Priced] = []
        for item, verdict in zip(items, projector.verdicts(items), strict=True):
            priced = known.get(item.id)
            if priced is None or priced.piece.item is not item or priced.piece.verdict != verdict:
                priced = Priced(projector.piece(item, verdict), counter)
            self.priced.append(priced)
        pieces = [priced.piece for priced in self.priced]
        self.projection = projector.join(pieces)
        self.ids = frozenset(_ids(items))
        self.surplus = frozenset(_surplus(pieces))
        self.raws: dict[int, int] = {}
        self.uncounted = 0
        digests = []
        by_id = {priced.piece.item.id: priced for priced in self.priced}
        for id in self.projection.included:
            priced = by_id[id]
            digests.append(priced.digest)
            self.raws[priced.raw] = self.raws.get(priced.raw, 0) + 1
            self.uncounted += priced.uncounted
        self.digest = raw_digest(b"".join(digests))


def _ids(items: Sequence[ContextItem]) -> Iterator[str]:
    for item in items:
        if isinstance(item.kind, ToolResult):
            yield item.kind.call
        else:
            for call in item.calls():
                yield call.id


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
            yield from getattr(segment.projection, self._field)
        yield from getattr(self._tail.projection, self._field)

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
        for segment in (self._tail, *reversed(self._segments)):
            values = getattr(segment.projection, self._field)
            begin = end - len(values)
            if begin < stop and end > start:
                parts.append(tuple(values[max(0, start - begin) : stop - begin]))
            end = begin
            if end <= start:
                break
        return tuple([value for part in reversed(parts) for value in part])

    def shared(self, other: "Chained[T]") -> int:
        """How many leading values stand in segments both have, by identity."""
        if self._segments is other._segments:
            return self._length - len(getattr(self._tail.projection, self._field))
        count = 0
        for mine, theirs in zip(self._segments, other._segments, strict=False):
            if mine is not theirs:
                break
            count += len(getattr(mine.projection, self._field))
        return count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


FIELDS = ("messages", "included", "skipped", "repairs", "reordered")


class Projected:
    """A projection with its parts. The closed segments carry running sums and a running digest."""

    __slots__ = (
        "_closed",
        "_hasher",
        "_lengths",
        "_priced",
        "_raws",
        "_surplus",
        "items",
        "segments",
        "start",
        "tail",
        "uncounted",
    )

    def __init__(self, items: Vector[ContextItem | None]) -> None:
        self.items = items
        self.segments: tuple[Segment, ...] = ()
        self.start = 0
        """Index in `items` at which the tail begins."""
        self._lengths = dict.fromkeys(FIELDS, 0)
        self._hasher = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._raws: dict[int, int] = {}
        self._surplus: frozenset[str] = frozenset()
        self._closed: tuple[Calibration, int] | None = None
        self.uncounted = 0

    # -- making ------------------------------------------------------------------------------

    def grown(self, items: Vector[ContextItem | None]) -> "Projected":
        """The same closed part, over items that extend these."""
        after = Projected.__new__(Projected)
        for name in ("segments", "start", "_lengths", "_hasher", "_raws", "_surplus", "_closed"):
            setattr(after, name, getattr(self, name))
        after.uncounted = self.uncounted - self.tail.uncounted
        after.items = items
        return after

    def close(self, segments: Sequence[Segment], start: int) -> None:
        if segments:
            self.segments = (*self.segments, *segments)
            self._lengths = dict(self._lengths)
            self._raws = dict(self._raws)
            self._hasher = self._hasher.copy()
            for segment in segments:
                self._add(segment)
            self._closed = None
        self.start = start

    def _add(self, segment: Segment) -> None:
        for field in FIELDS:
            self._lengths[field] += len(getattr(segment.projection, field))
        for raw, count in segment.raws.items():
            self._raws[raw] = self._raws.get(raw, 0) + count
        self._hasher.update(segment.digest)
        self._surplus |= segment.surplus
        self.uncounted += segment.uncounted

    def end(self, tail: Segment) -> None:
        self.tail = tail
        self.uncounted += tail.uncounted

    def splits_a_pair(self) -> bool:
        """Whether something one segment gave up occurs in another."""
        surplus = self._surplus | self.tail.surplus
        if not surplus or not self.segments:
            return False
        for id in surplus:
            holders = sum(id in segment.ids for segment in self.segments) + (id in self.tail.ids)
            if holders > 1:
                return True
        return False

    # -- reading -----------------------------------------------------------------------------

    def values(self, field: str) -> "Chained[Any]":
        length = self._lengths[field] + len(getattr(self.tail.projection, field))
        return Chained(self.segments, self.tail, field, length)

    def projection(self) -> Projection:
        return Projection(*(self.values(field) for field in FIELDS))

    def messages(self) -> "Chained[Message]":
        return self.values("messages")

    def digest(self, *rest: bytes) -> str:
        """Over the closed segments' digests, the tail's, and whatever else is sent."""
        hasher = self._hasher.copy()
        hasher.update(self.tail.digest)
        for part in rest:
            hasher.update(raw_digest(part))
        return hasher.hexdigest()

    def tokens(self, counter: TokenCounter, calibration: Calibration) -> int:
        """The sum of the counter's figures over the messages, at this calibration."""
        if self._closed is None or self._closed[0] != calibration:
            total = sum(
                counter.price(raw, calibration) * count for raw, count in self._raws.items()
            )
            self._closed = calibration, total
        return self._closed[1] + sum(
            counter.price(raw, calibration) * count for raw, count in self.tail.raws.items()
        )


def project(
    context: Context,
    projector: LinearProjector,
    counter: TokenCounter,
    earlier: Projected | None = None,
) -> Projected:
    """The projection of the context, using what is left of an earlier one."""
    items = context.items
    if earlier is not None and earlier.items is items:
        return earlier
    after, known = _kept(items, projector, counter, earlier)

    def make(stretch: tuple[ContextItem, ...]) -> Segment:
        return Segment(stretch, projector, counter, known)

    stretches, rest, start = _cut(items, after.start)
    after.close([make(stretch) for stretch in stretches], start)
    after.end(make(rest))
    if after.splits_a_pair():
        after = Projected(items)
        after.end(make(context_items(items)))
    return after


def context_items(items: Vector[ContextItem | None]) -> tuple[ContextItem, ...]:
    return tuple([item for item in items if item is not None])


def _kept(
    items: Vector[ContextItem | None],
    projector: LinearProjector,
    counter: TokenCounter,
    earlier: Projected | None,
) -> tuple[Projected, dict[int, Priced]]:
    """The closed part that is still right, and the pieces that may be."""
    if earlier is None:
        return Projected(items), {}
    known = {priced.piece.item.id: priced for priced in earlier.tail.priced}
    if items.extends(earlier.items):
        return earlier.grown(items), known
    after = Projected(items)
    kept: list[Segment] = []
    start = 0
    starts = [0]
    for segment in earlier.segments:
        stop = segment.items[-1].id
        mine = tuple([one for one in items.slice(start, stop) if one is not None])
        if mine == segment.items:
            kept.append(segment)
        elif _shape(mine) == _shape(segment.items):
            kept.append(_again(segment, mine, projector, counter))
        else:
            break
        start = stop
        starts.append(start)
    if kept:  # its end was judged by what came after
        known.update({priced.piece.item.id: priced for priced in kept[-1].priced})
        kept.pop()
        starts.pop()
    after.close(kept, starts[-1])
    return after, known


def _shape(items: Sequence[ContextItem]) -> list[tuple[int, tuple[str, ...]]]:
    """All that a cut looks at."""
    return [(item.id, tuple(_ids((item,)))) for item in items]


def _again(
    segment: Segment,
    items: tuple[ContextItem, ...],
    projector: LinearProjector,
    counter: TokenCounter,
) -> Segment:
    known = {priced.piece.item.id: priced for priced in segment.priced}
    return Segment(items, projector, counter, known)


def _cut(
    items: Vector[ContextItem | None], start: int
) -> tuple[list[tuple[ContextItem, ...]], tuple[ContextItem, ...], int]:
    """Stretches from `start` on, the rest that is still open, and where that rest begins."""
    stretches: list[tuple[ContextItem, ...]] = []
    current: list[ContextItem] = []
    unanswered: dict[str, int] = {}
    for index, item in enumerate(items.slice(start), start=start):
        if item is None:
            continue
        calls = item.calls()
        if len(current) >= SEGMENT_MIN and (calls or not unanswered):
            stretches.append(tuple(current))
            current, unanswered, start = [], {}, index
        for call in calls:
            unanswered[call.id] = unanswered.get(call.id, 0) + 1
        if isinstance(item.kind, ToolResult) and item.kind.call in unanswered:
            left = unanswered.pop(item.kind.call) - 1
            if left:
                unanswered[item.kind.call] = left
        current.append(item)
    return stretches, tuple(current), start
