"""The request side of the context: cut into segments, kept where nothing changed.

The cuts are part of the log format, since the digest of a request chains them: a segment holds at
least 32 items, and is closed before an item when no call of it is open, or when that item is a turn
with calls, or when the segment holds 512 (an unanswered batch is given up). A cut looks only
backward and at the next item. Where a call or result that one segment gave up occurs in another,
the whole context is one segment.

All of this is a function of the items alone. What is kept from an earlier projection saves work and
can never show: `project(items, any earlier) == project(items)`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from reducers.linear import LinearProjector, Projection
from reducers.machines.calibration import Calibration
from reducers.machines.context import Context
from reducers.segments import Chained, Priced, Segment, ids_of
from reducers.tokens import TokenCounter
from reducers.vocabulary.digests import DIGEST_BYTES
from reducers.vocabulary.items import ContextItem, ToolResult
from reducers.vocabulary.messages import Message
from reducers.vocabulary.persistent import Vector

__all__ = ["SEGMENT_MIN", "Chained", "LinearProjector", "Projected", "Projection", "project"]

SEGMENT_MIN = 32
SEGMENT_MAX = 512
"""Items after which an unanswered batch is given up, so that one orphan does not keep the last
segment open for ever. More than any reply's calls and results: a batch this size is one segment."""
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
        "is_whole",
        "items",
        "segments",
        "start",
        "tail",
        "unanswered",
        "uncounted",
    )

    def __init__(self, items: Vector[ContextItem | None]) -> None:
        self.items = items
        self.segments: tuple[Segment, ...] = ()
        self.start = 0
        """Index in `items` at which the tail begins."""
        self.unanswered: dict[str, int] = {}
        """How often each call stands in the tail that has no result there yet."""
        self.is_whole = False
        """A pair would have been split, so the whole context is the tail, however long."""
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
        after.items = items
        after.segments = self.segments
        after.start = self.start
        after.is_whole = False
        after._lengths = self._lengths
        after._hasher = self._hasher
        after._raws = self._raws
        after._surplus = self._surplus
        after._closed = self._closed
        after.uncounted = self.uncounted - self.tail.uncounted
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
            self._lengths[field] += len(getattr(segment, field))
        for raw, count in segment.raws.items():
            self._raws[raw] = self._raws.get(raw, 0) + count
        self._hasher.update(segment.digest)
        self._surplus |= segment.surplus
        self.uncounted += segment.uncounted

    def end(self, tail: Segment, unanswered: dict[str, int]) -> None:
        self.tail = tail
        self.unanswered = unanswered
        self.uncounted += tail.uncounted

    def splits_a_pair(self) -> bool:
        """Whether something one segment gave up occurs in another."""
        surplus = self._surplus | self.tail.surplus
        if not surplus or not self.segments:
            return False
        for id in sorted(surplus):
            holders = sum(id in segment.ids for segment in self.segments) + (id in self.tail.ids)
            if holders > 1:
                return True
        return False

    # -- reading -----------------------------------------------------------------------------

    def values(self, field: str) -> "Chained[Any]":
        length = self._lengths[field] + len(getattr(self.tail, field))
        return Chained(self.segments, self.tail, field, length)

    def closed_length(self, field: str) -> int:
        """How much of a list lies in closed segments."""
        return self._lengths[field]

    def projection(self) -> Projection:
        return Projection(*(self.values(field) for field in FIELDS))

    def messages(self) -> "Chained[Message]":
        return self.values("messages")

    def digest(self, *rest: bytes) -> str:
        """Over the closed segments' digests, the tail's, and those of whatever else is sent."""
        hasher = self._hasher.copy()
        hasher.update(self.tail.digest)
        for part in rest:
            hasher.update(part)
        return hasher.hexdigest()

    def tokens(self, counter: TokenCounter, calibration: Calibration) -> int:
        """The sum of the counter's figures over the messages, at this calibration."""
        if self._closed is None or self._closed[0] != calibration:
            total = sum(
                counter.price(raw, calibration) * count for raw, count in self._raws.items()
            )
            self._closed = calibration, total
        price = counter.price
        tail = [price(raw, calibration) * count for raw, count in self.tail.raws.items()]
        return self._closed[1] + sum(tail)


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
    if earlier is not None and not earlier.is_whole and items.extends(earlier.items):
        after = _grown(earlier, items, projector, counter)
        if after is not None:
            return after
        after = earlier.grown(items)
        known: dict[int, Priced] = {}
        stretches, start, unanswered = _cut(
            items,
            len(earlier.items),
            earlier.start,
            len(earlier.tail.items),
            dict(earlier.unanswered),
        )
        first = earlier.tail
        if stretches[0]:
            first = first.followed(tuple(stretches[0]), projector, counter)
    else:
        after, known = _kept(items, projector, counter, earlier)
        stretches, start, unanswered = _cut(items, after.start, after.start, 0, {})
        first = Segment.of(tuple(stretches[0]), projector, counter, known)
    rest = [Segment.of(tuple(one), projector, counter, known) for one in stretches[1:]]
    *closed, tail = [first, *rest]
    after.close(closed, start)
    after.end(tail, unanswered)
    if after.splits_a_pair():
        after = Projected(items)
        after.is_whole = True
        after.end(Segment.of(context_items(items), projector, counter, known), {})
    return after


def _grown(
    earlier: Projected,
    items: Vector[ContextItem | None],
    projector: LinearProjector,
    counter: TokenCounter,
) -> Projected | None:
    """The quick way, for whole exchanges that end before the next possible cut."""
    new = items.slice(len(earlier.items))
    if len(earlier.tail.items) + len(new) > SEGMENT_MIN or None in new:
        return None
    tail = earlier.tail.with_exchanges(new, projector, counter)  # type: ignore[arg-type]
    if tail is None:
        return None
    after = earlier.grown(items)
    after.end(tail, earlier.unanswered)
    return None if after.splits_a_pair() else after


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
    known = earlier.tail.by_id()
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
            kept.append(Segment.of(mine, projector, counter, segment.by_id()))
        else:
            break
        start = stop
        starts.append(start)
    if kept:  # its end was judged by what came after
        known.update(kept.pop().by_id())
        starts.pop()
    after.close(kept, starts[-1])
    return after, known


def _shape(items: Sequence[ContextItem]) -> list[tuple[int, tuple[str, ...]]]:
    """All that a cut looks at."""
    return [(item.id, tuple(ids_of((item,)))) for item in items]


def _cut(
    items: Vector[ContextItem | None],
    begin: int,
    start: int,
    held: int,
    unanswered: dict[str, int],
) -> tuple[list[list[ContextItem]], int, dict[str, int]]:
    """Stretches of the items from `begin` on. The first goes on with one that began at `start` and
    holds so many items and unanswered calls; the last is open. Also where that one begins, and its
    unanswered calls."""
    stretches: list[list[ContextItem]] = [[]]
    for index, item in enumerate(items.slice(begin), start=begin):
        if item is None:
            continue
        calls = item.calls()
        if (held >= SEGMENT_MIN and (calls or not unanswered)) or held >= SEGMENT_MAX:
            stretches.append([])
            held, unanswered, start = 0, {}, index
        for call in calls:
            unanswered[call.id] = unanswered.get(call.id, 0) + 1
        kind = item.kind
        if type(kind) is ToolResult and kind.call in unanswered:
            left = unanswered.pop(kind.call) - 1
            if left:
                unanswered[kind.call] = left
        stretches[-1].append(item)
        held += 1
    return stretches, start, unanswered
