"""One commit in the making: events are said one after another, each folded as it is said.

A draft lives inside one `step` and never leaves it. What is said gets its number, its turn and its
step here, so no rule has to know them.
"""

from msgspec.structs import force_setattr, replace

from reducers.machines.calls import unfinished
from reducers.reducer import Reducer
from reducers.state import NUMBERED, State, happen
from reducers.vocabulary.content import Held
from reducers.vocabulary.events import (
    ContextAdded,
    ContextChanged,
    Event,
    StateChanged,
    UndoMode,
)
from reducers.vocabulary.items import ContextItem, ContextState
from reducers.vocabulary.phases import Finished, Idle, Phase, is_busy


class Draft:
    __slots__ = (
        "announced",
        "by_loop",
        "events",
        "fault",
        "is_opening",
        "raised",
        "reducer",
        "state",
    )

    def __init__(self, reducer: Reducer, state: State, by_loop: bool) -> None:
        self.reducer = reducer
        self.state = replace(state)
        """This draft's own: it changes in place with each event that is said."""
        self.events: list[Event] = []
        self.by_loop = by_loop
        """Whether what is said belongs to a turn."""
        self.announced = 0
        self.is_opening = False
        """An opening starts nothing: no effect but a reconciliation may be announced."""
        self.fault: Exception | None = None
        """A pure seam failed while an answer was absorbed; the advance ends with it."""
        self.raised: BaseException | None = None

    def say(self, event: Event) -> None:
        """Fold a new event and put it down."""
        state = self.state
        if type(event) in NUMBERED:
            # The event was made to be said: nobody else has it yet, so it is filled in, not copied.
            seq = state.last_seq + 1
            force_setattr(event, "seq", seq)
            force_setattr(state, "last_seq", seq)
            loop = state.loop
            if self.by_loop and (loop.is_open or _has_work(state)):
                claims = type(event) is StateChanged and is_busy(event.to)
                force_setattr(event, "turn", loop.turn)
                force_setattr(event, "step", loop.step + claims)
        happen(state, event, state.position + 1)
        self.events.append(event)

    def announce(self) -> int:
        """The place of the next announcement among those of this commit."""
        place = self.announced
        self.announced += 1
        return place

    def enter(self, phase: Phase, drive: str = "") -> None:
        """Move the loop, where that is a change."""
        if phase != self.state.loop.phase:
            self.say(StateChanged(to=phase, drive=drive))  # type: ignore[arg-type]

    def add(self, item: ContextItem, undo: UndoMode, held: bool = False) -> int:
        """Add an item under the next id, with its figures; returns the id.

        It arrives active; another state is a change of its own (kernel.md 1.3, `push`). A content
        that the batch holds under the item's call is said as held.
        """
        id = self.state.context.next_id
        tokens, uncounted = self._figures(item)
        arrived: ContextState = "active"
        placed = replace(
            item,
            id=id,
            tokens=tokens,
            uncounted=uncounted,
            state=arrived,
            note=item.note if item.state == arrived else None,
            content=Held("call") if held else item.content,
        )
        self.say(ContextAdded(item=placed, undo=undo))
        if item.state != arrived:
            self.say(ContextChanged(id=id, to=item.state, note=item.note, undo="join"))
        return id

    def _figures(self, item: ContextItem) -> tuple[int, int]:
        try:
            return self.reducer.figures(self.state, item)
        except Exception as error:
            if not self.by_loop:
                raise
            # An answer of the world is never lost to a counter: it is recorded without a price.
            self.fault = error
            return 0, 1


def _has_work(state: State) -> bool:
    """A turn that was closed over its request or its calls still owns what comes of them."""
    return not isinstance(state.loop.phase, Idle | Finished) or bool(unfinished(state.calls))
