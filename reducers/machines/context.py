"""The context: identified items that nothing ever silently leaves, and the way back.

I-CONTEXT-1  Ids rise from 1 and are never given twice; an undone item keeps its number reserved.
I-CONTEXT-2  `tokens` and `withheld` are the sums over the items, whatever happened before.
I-CONTEXT-3  Undo then redo is the identity on the items.
I-CONTEXT-4  What one operation (or one batch of results) did is taken back by one undo.

An undo point holds inverse edits, oldest first: an item's id and what stood there before. It is
applied from its end, so an id that was changed twice ends as it began.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import (
    ContextAdded,
    ContextAnnotated,
    ContextChanged,
    ContextRecounted,
    ContextRedone,
    ContextReplaced,
    ContextUndone,
    SessionOpened,
    SessionStarted,
    UndoMode,
)
from reducers.vocabulary.items import ContextItem, sends_content
from reducers.vocabulary.persistent import GAP_MAX, Vector

Edit = tuple[int, ContextItem | None]


class UndoPoint(Struct, frozen=True, gc=False):
    number: int
    at: int
    """Position of the commit that opened it."""
    edits: Vector[Edit]


NO_ITEMS: Vector[ContextItem | None] = Vector.of(())
NO_EDITS: Vector[Edit] = Vector.of(())


class Context(Struct, frozen=True, gc=False, omit_defaults=True):
    items: Vector[ContextItem | None] = NO_ITEMS
    """Indexed by id - 1; an undone id leaves None."""
    count: int = 0
    tokens: int = 0
    """Sum over the items that send their content."""
    withheld: int = 0
    """Sum over the rest."""
    undo: tuple[UndoPoint, ...] = ()
    redo: tuple[UndoPoint, ...] = ()
    depth: int = 16
    points: int = 0
    """Number of the last undo point opened."""
    loop_point: int = 0
    """The last one the loop opened: of a turn, or of a batch of results; 0 where it was undone."""

    @property
    def next_id(self) -> int:
        return len(self.items) + 1


# -- evolve ------------------------------------------------------------------------------------


def started(context: Context, event: SessionStarted, here: int) -> Context:
    return replace(context, depth=event.config.context_undo_depth)


def opened(context: Context, event: SessionOpened, here: int) -> Context:
    if event.config is None:
        return context
    depth = event.config.context_undo_depth
    undo, redo = _bounded(context.undo, depth), _bounded(context.redo, depth)
    return replace(context, depth=depth, undo=undo, redo=redo)


def added(context: Context, event: ContextAdded, here: int) -> Context:
    item = event.item
    items = context.items
    count = len(items)
    if item.id != count + 1:
        _need_id(item.id, count + 1)
        items = items.padded(item.id - 1, None)
    if item.id <= count:
        noted = _note(context, event.undo, here, (item.id, None), event.turn > 0)
        return _place(noted, item.id, item)
    tokens, withheld = context.tokens, context.withheld
    if sends_content(item.state):
        tokens += item.tokens
    else:
        withheld += item.tokens
    noted = _note(context, event.undo, here, (item.id, None), event.turn > 0)
    return replace(
        noted,
        items=items.append(item),
        count=context.count + 1,
        tokens=tokens,
        withheld=withheld,
    )


def _need_id(id: int, next_id: int) -> None:
    """Refuse what no counter could have come to."""
    if not 0 < id <= next_id + GAP_MAX:
        raise ValueError(f"{id} is not the id of an item: the next one is {next_id}")


def changed(context: Context, event: ContextChanged, here: int) -> Context:
    return _edit(
        context, event.id, event.undo, here, {"state": event.to, "note": event.note}, event.turn
    )


def replaced(context: Context, event: ContextReplaced, here: int) -> Context:
    fields: dict[str, Any] = {
        "content": event.content,
        "tokens": event.tokens,
        "uncounted": event.uncounted,
    }
    if event.because is not None:
        fields["included_because"] = event.because
    return _edit(context, event.id, event.undo, here, fields, event.turn)


def annotated(context: Context, event: ContextAnnotated, here: int) -> Context:
    """Metadata has no point of its own: it goes back with the operation before it."""
    before = item(context, event.id)
    if before is None:
        return context
    context = _into_newest(context, (event.id, before))
    return replace(_place(context, event.id, before.with_meta(event.meta)), redo=())


def recounted(context: Context, event: ContextRecounted, here: int) -> Context:
    for moved in event.moved:
        before = item(context, moved.id)
        if before is not None:
            after = replace(before, tokens=moved.tokens, uncounted=moved.uncounted)
            context = _place(context, moved.id, after)
    return context


def undone(context: Context, event: ContextUndone, here: int) -> Context:
    if not context.undo:
        return context
    after, point = taken_back(context, context.undo[-1])
    redo = _bounded((*context.redo, point), context.depth)
    # What else comes of a batch whose point is taken back cannot join it any more.
    loop_point = 0 if point.number == context.loop_point else context.loop_point
    return replace(after, undo=context.undo[:-1], redo=redo, loop_point=loop_point)


def redone(context: Context, event: ContextRedone, here: int) -> Context:
    if not context.redo:
        return context
    after, point = taken_back(context, context.redo[-1])
    undo = _bounded((*context.undo, point), context.depth)
    return replace(after, redo=context.redo[:-1], undo=undo)


EVOLVE: dict[type, Callable[[Context, Any, int], Context]] = {
    SessionStarted: started,
    SessionOpened: opened,
    ContextChanged: changed,
    ContextReplaced: replaced,
    ContextAnnotated: annotated,
    ContextRecounted: recounted,
    ContextUndone: undone,
    ContextRedone: redone,
}
"""`ContextAdded` may hold a content that stands in the batch; `reducers.state` puts it in."""


def taken_back(context: Context, point: UndoPoint) -> tuple[Context, UndoPoint]:
    """The context without the point's edits, and the point that would make them again."""
    touched: dict[int, None] = dict.fromkeys(id for id, _ in point.edits)
    again = Vector.of((id, item(context, id)) for id in touched)
    for id, before in reversed(list(point.edits)):
        context = _place(context, id, before)
    return context, replace(point, edits=again)


def _edit(
    context: Context, id: int, undo: UndoMode, here: int, fields: dict[str, Any], turn: int
) -> Context:
    before = item(context, id)
    if before is None:
        return context
    noted = _note(context, undo, here, (id, before), by_loop=turn > 0)
    return _place(noted, id, replace(before, **fields))


def _place(context: Context, id: int, after: ContextItem | None) -> Context:
    """Put an item (or its absence) in its place and keep the sums right."""
    before = item(context, id)
    count, tokens, withheld = context.count, context.tokens, context.withheld
    for one, sign in ((before, -1), (after, 1)):
        if one is not None:
            count += sign
            if sends_content(one.state):
                tokens += sign * one.tokens
            else:
                withheld += sign * one.tokens
    items = context.items.set(id - 1, after)
    return replace(context, items=items, count=count, tokens=tokens, withheld=withheld)


def _note(context: Context, undo: UndoMode, here: int, edit: Edit, by_loop: bool) -> Context:
    """Write down how to take one edit back, where its event says so."""
    if not undo:
        return context
    if undo == "join" and context.undo and context.undo[-1].at == here:
        return _into_newest(context, edit)
    if undo == "join" and context.loop_point:
        return _into_loop_point(context, edit)
    number = context.points + 1
    older = context.undo
    if len(older) >= context.depth:
        older = older[len(older) + 1 - context.depth :]
    point = UndoPoint(number, here, NO_EDITS.append(edit))
    return replace(
        context,
        undo=older + (point,) if context.depth else (),  # noqa: RUF005 - half the time
        redo=(),
        points=number,
        loop_point=number if by_loop else context.loop_point,
    )


def _into_newest(context: Context, edit: Edit) -> Context:
    if not context.undo:
        return context
    *rest, newest = context.undo
    return replace(context, undo=(*rest, replace(newest, edits=newest.edits.append(edit))))


def _into_loop_point(context: Context, edit: Edit) -> Context:
    """Join the loop's own point and fold whatever others opened above it into it.

    If that point has fallen off the end, the points above would lead into the middle of a batch,
    so they fall too.
    """
    place = next(
        (n for n, point in enumerate(context.undo) if point.number == context.loop_point), None
    )
    if place is None:
        return replace(context, undo=())
    edits = context.undo[place].edits
    for point in context.undo[place + 1 :]:
        edits = edits.extend(point.edits)
    folded = replace(context.undo[place], edits=edits.append(edit))
    return replace(context, undo=(*context.undo[:place], folded))


def _bounded(points: tuple[UndoPoint, ...], depth: int) -> tuple[UndoPoint, ...]:
    return points[len(points) - depth :] if len(points) > depth else points


# -- queries -----------------------------------------------------------------------------------


def item(context: Context, id: int) -> ContextItem | None:
    return context.items[id - 1] if 0 < id <= len(context.items) else None


def present(context: Context) -> tuple[ContextItem, ...]:
    """Every item in any state, oldest first."""
    return tuple(one for one in context.items if one is not None)


def difference(
    before: Context, after: Context, point: UndoPoint
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """What the point's edits did to the items: ids gone, come and changed, each in order.

    Figures do not count as changes: they are estimates of the same content.
    """
    gone, come, changed = [], [], []
    for id in sorted(dict.fromkeys(id for id, _ in point.edits)):
        old, new = item(before, id), item(after, id)
        if old is None or new is None:
            if old is not None:
                gone.append(id)
            elif new is not None:
                come.append(id)
        elif replace(old, tokens=new.tokens, uncounted=new.uncounted) != new:
            changed.append(id)
    return tuple(gone), tuple(come), tuple(changed)
