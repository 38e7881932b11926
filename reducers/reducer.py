"""The reducer: the pure seams that judge, and what they make of a state.

The seams are frozen. What is kept between calls (the last projection) saves work and never shows:
every answer is a function of the state alone.
"""

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from reducers.linear import LinearProjector, Projection, pairing_problem
from reducers.machines import parts
from reducers.machines.calibration import UNTAUGHT, Calibration, of_model
from reducers.machines.context import present
from reducers.projection import Projected, project
from reducers.segments import Chained
from reducers.state import State
from reducers.tokens import (
    Calibrating,
    TokenCounter,
    tool_figures,
    uncounted_item,
    uncounted_message,
)
from reducers.vocabulary.digests import digest_of, raw_digest
from reducers.vocabulary.errors import SeamFailed
from reducers.vocabulary.events import UNCHANGED, Skipped, Splice
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.persistent import Vector

_encode = msgspec.json.Encoder().encode


@runtime_checkable
class Projector(Protocol):
    """The seam: all items in insertion order, any state, to what is sent."""

    def project(self, items: Iterable[ContextItem]) -> Projection: ...


class Draw:
    """A request as drawn from a state: the lists, the figures and the digest it would have."""

    __slots__ = ("digest", "lists", "request", "tokens", "tool_tokens", "uncounted")

    def __init__(
        self,
        lists: Projection | Projected,
        request: ModelRequest,
        tokens: int,
        tool_tokens: int,
        uncounted: int,
        digest: str,
    ) -> None:
        self.lists = lists
        self.request = request
        self.tokens = tokens
        """Of the messages alone."""
        self.tool_tokens = tool_tokens
        self.uncounted = uncounted
        self.digest = digest

    @property
    def projection(self) -> Projection:
        lists = self.lists
        return lists.projection() if isinstance(lists, Projected) else lists


class Reducer:
    """`step` under these seams (see `reducers.step` for the default ones)."""

    def __init__(
        self, projector: Projector | None = None, counter: TokenCounter | None = None
    ) -> None:
        self.projector: Projector = LinearProjector() if projector is None else projector
        self.counter: TokenCounter = Calibrating() if counter is None else counter
        self._last: Projected | None = None
        self._drawn: tuple[Any, Any, Any, Draw] | None = None
        self._rest: tuple[Any, tuple[bytes, ...], tuple[int, ...]] | None = None
        self._lists: tuple[Vector[Any], Vector[Any], Vector[Any], Projected] | None = None

    # -- figures -----------------------------------------------------------------------------

    def calibration(self, state: State) -> Calibration:
        if not state.calibrations.models:
            return UNTAUGHT
        model = parts.model(state.parts)
        return of_model(state.calibrations, "" if model is None else str(model))

    def figures(self, state: State, item: ContextItem) -> tuple[int, int]:
        """Tokens of an item, and its pieces that have no price."""
        raw = self.counter.count_item(item)
        tokens = self.counter.price(raw, self.calibration(state))
        uncounted = uncounted_item(self.counter, item)
        return _figure(tokens), _figure(uncounted)

    def teaches(self, calibration: Calibration, estimated: int, reported: int) -> int:
        return _figure(self.counter.teaches(calibration, estimated, reported))

    # -- requests ----------------------------------------------------------------------------

    def projected(self, state: State) -> Projected | None:
        """The segmented projection, where the projector is one that can be cut."""
        projector = self.projector
        if type(projector) is not LinearProjector or not projector.repair_orphans:
            return None
        self._last = project(state.context, projector, self.counter, self._last)
        return self._last

    def projection(self, state: State) -> Projection:
        projected = self.projected(state)
        if projected is not None:
            return projected.projection()
        return self.projector.project(present(state.context))

    def draw(self, state: State) -> Draw:
        """The request the next step would send. Raises `SeamFailed` for one that must not go."""
        items, parts_of, known = state.context.items, state.parts, state.calibrations
        last = self._drawn
        if last and last[0] is items and last[1] is parts_of and last[2] is known:
            return last[3]
        drawn = self._draw(state)
        self._drawn = items, parts_of, known, drawn
        return drawn

    def _draw(self, state: State) -> Draw:
        calibration = self.calibration(state)
        rest, tool_figures = self._beside(state)
        projected = self.projected(state)
        if projected is not None:
            lists: Projection | Projected = projected
            messages: Sequence[Message] = projected.messages()
            tokens = projected.tokens(self.counter, calibration)
            uncounted = projected.uncounted
            digest = projected.digest(*rest)
        else:
            lists = _checked(self.projector.project(present(state.context)))
            messages = lists.messages
            problem = pairing_problem(messages)
            if problem is not None:
                raise SeamFailed(f"the projector made a request no provider accepts: {problem}")
            tokens = sum(
                self.counter.price(self.counter.count_message(one), calibration) for one in messages
            )
            uncounted = sum(uncounted_message(self.counter, one) for one in messages)
            digest = _whole_digest(messages, rest)
        return Draw(
            lists,
            ModelRequest(messages, parts.tools(state.parts), state.parts.params),
            _figure(tokens),
            _figure(sum([self.counter.price(raw, calibration) for raw in tool_figures])),
            _figure(uncounted),
            digest,
        )

    def _beside(self, state: State) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
        """Of what is sent beside the messages: the digests, and the raw figures of the tools."""
        last = self._rest
        if last is None or last[0] is not state.parts:
            tools = parts.tools(state.parts)
            digests = raw_digest(_encode(tools)), raw_digest(state.parts.params.encode())
            last = self._rest = state.parts, digests, tool_figures(self.counter, tools)
        return last[1], last[2]

    def splices(self, state: State, draw: Draw) -> tuple[Splice[int], Splice[Any], Splice[str]]:
        """The request's lists as changes of those of the request before."""
        old = state.requests
        known = None
        lists = old.included, old.skipped, old.repairs
        if self._lists is not None and all(map(operator.is_, self._lists, lists)):
            known = self._lists[3]
        now = draw.lists if isinstance(draw.lists, Projected) else None
        if known is not None and now is not None and now.segments is known.segments:
            # The closed segments are common to both: only the tails are to be compared.
            mine, theirs = now.tail, known.tail
            return (
                _difference(theirs.included, mine.included, now.closed_length("included")),
                _difference(theirs.skipped, mine.skipped, now.closed_length("skipped")),
                _difference(theirs.repairs, mine.repairs, now.closed_length("repairs")),
            )
        projection = draw.projection
        return (
            _splice(old.included, projection.included, known, "included"),
            _splice(old.skipped, projection.skipped, known, "skipped"),
            _splice(old.repairs, projection.repairs, known, "repairs"),
        )

    def remember(self, state: State, draw: Draw) -> None:
        """After a `model.requested`: which projection the lists of the state came from."""
        old = state.requests
        if isinstance(draw.lists, Projected):
            self._lists = (old.included, old.skipped, old.repairs, draw.lists)


def _figure(value: Any) -> int:
    """A counter's figure, if it is one that can be recorded."""
    if type(value) is not int or not 0 <= value < FIGURE_MAX:
        raise SeamFailed("the counter gave a figure that is no integer from 0 to 2**63")
    return value


FIGURE_MAX = 2**63

_Lists = tuple[tuple[Message, ...], tuple[int, ...], tuple[Skipped, ...], tuple[str, ...]]
_lists = msgspec.json.Decoder(_Lists)


def _checked(projection: Projection) -> Projection:
    """What a projector of the user's made, if its lists can be sent and recorded."""
    given = (projection.messages, projection.included, projection.skipped, projection.repairs)
    try:
        lists = _lists.decode(_encode([list(one) for one in given]))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise SeamFailed(f"the projector made lists that cannot be recorded: {error}") from error
    return Projection(*lists, tuple(projection.reordered))


def _whole_digest(messages: Iterable[Message], rest: tuple[bytes, ...]) -> str:
    parts_of = [raw_digest(_encode(message)) for message in messages]
    return digest_of(b"".join([*parts_of, *rest]))


def _splice(
    old: Vector[Any], new: Sequence[Any], known: Projected | None, field: str
) -> Splice[Any]:
    """Longest common prefix first, then longest common suffix: a function of the two lists.

    Leading segments that both lists share by identity are equal and need no look.
    """
    keep = 0
    if known is not None and isinstance(new, Chained):
        keep = min(new.shared(known.values(field)), len(old), len(new))
    now = new.slice(keep, len(new)) if isinstance(new, Chained) else new[keep:]
    return _difference(old.slice(keep), tuple(now), keep)


def _difference(before: Sequence[Any], now: Sequence[Any], keep: int) -> Splice[Any]:
    """Of two lists that have `keep` values before these in common."""
    if not before and not now and not keep:
        return UNCHANGED
    if before == now[: len(before)]:  # it only grew, as it mostly does
        return Splice(keep + len(before), 0, tuple(now[len(before) :]))
    short = min(len(before), len(now))
    if before[:short] == now[:short]:
        same = short
    else:
        same = next(place for place in range(short) if before[place] != now[place])
    end = 0
    while end < short - same and before[len(before) - 1 - end] == now[len(now) - 1 - end]:
        end += 1
    found = Splice(keep + same, len(before) - same - end, tuple(now[same : len(now) - end]))
    return UNCHANGED if found == UNCHANGED else found
