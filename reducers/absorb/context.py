"""Edits of the context by its owner. Allowed in any state, but for undo and redo."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from reducers import wording
from reducers.draft import Draft
from reducers.machines import context as machine
from reducers.machines.loop import may_undo
from reducers.vocabulary.errors import Busy, UnknownItem
from reducers.vocabulary.events import (
    ContextAnnotated,
    ContextChanged,
    ContextRecounted,
    ContextRedone,
    ContextReplaced,
    ContextUndone,
    Recount,
    ToolReserved,
    UndoMode,
)
from reducers.vocabulary.inputs import (
    AnnotateItem,
    PushItems,
    RecountItems,
    Redo,
    ReplaceContent,
    ReserveCalls,
    SetState,
    SupersedeItem,
    Undo,
)
from reducers.vocabulary.items import ContextItem, sends_content
from reducers.vocabulary.phases import Finished, Idle


def push(draft: Draft, input: PushItems) -> None:
    mode: UndoMode = "open"
    for item in input.items:
        draft.add(_mended(item, input.mended), mode)
        mode = "join"


def _mended(item: ContextItem, count: int) -> ContextItem:
    if not count:
        return item
    because = [text for text in (item.included_because, wording.mended(count)) if text]
    return item.because("; ".join(because))


def supersede(draft: Draft, input: SupersedeItem) -> None:
    if machine.item(draft.state.context, input.old) is None:
        raise UnknownItem(input.old)
    id = draft.add(_mended(input.item, input.mended), "open")
    note = f"superseded by item {id}"
    draft.say(ContextChanged(id=input.old, to="superseded", note=note, undo="join"))


def set_state(draft: Draft, input: SetState) -> None:
    mode: UndoMode = "open"
    for id in dict.fromkeys(input.ids):
        item = machine.item(draft.state.context, id)
        if item is None or (item.state == input.state and item.note == input.note):
            continue
        draft.say(ContextChanged(id=id, to=input.state, note=input.note, undo=mode))
        mode = "join"


def replace_content(draft: Draft, input: ReplaceContent) -> None:
    item = machine.item(draft.state.context, input.id)
    if item is None:
        raise UnknownItem(input.id)
    if item.content == input.content:
        return
    tokens, uncounted = draft.reducer.figures(draft.state, replace(item, content=input.content))
    draft.say(
        ContextReplaced(
            id=input.id,
            content=input.content,
            tokens=tokens,
            uncounted=uncounted,
            because=_mended(item, input.mended).included_because if input.mended else None,
            undo="open",
        )
    )


def annotate(draft: Draft, input: AnnotateItem) -> None:
    item = machine.item(draft.state.context, input.id)
    if item is None:
        raise UnknownItem(input.id)
    if item.meta != input.meta:
        draft.say(ContextAnnotated(id=input.id, meta=input.meta))


def recount(draft: Draft, input: RecountItems) -> None:
    recount_items(draft, machine.present(draft.state.context), is_silent=False)


def recount_items(draft: Draft, items: tuple[ContextItem, ...], is_silent: bool) -> None:
    """Say the figures of these items that move; nothing if none does and `is_silent`."""
    moved = []
    before = after = draft.state.context.tokens
    for item in items:
        tokens, uncounted = draft.reducer.figures(draft.state, item)
        if (tokens, uncounted) != (item.tokens, item.uncounted):
            moved.append(Recount(item.id, tokens, uncounted))
            if sends_content(item.state):
                after += tokens - item.tokens
    if moved or not is_silent:
        draft.say(ContextRecounted(tokens_before=before, tokens_after=after, moved=tuple(moved)))


def undo(draft: Draft, input: Undo) -> None:
    before = _free_to_undo(draft)
    if not before.undo:
        return
    point = before.undo[-1]
    after, _ = machine.taken_back(before, point)
    gone, come, changed = machine.difference(before, after, point)
    draft.say(ContextUndone(items=after.count, removed=gone, changed=tuple(sorted(come + changed))))
    _settle_figures(draft, point)


def redo(draft: Draft, input: Redo) -> None:
    before = _free_to_undo(draft)
    if not before.redo:
        return
    point = before.redo[-1]
    after, _ = machine.taken_back(before, point)
    gone, come, changed = machine.difference(before, after, point)
    draft.say(
        ContextRedone(items=after.count, restored=come, changed=tuple(sorted(gone + changed)))
    )
    _settle_figures(draft, point)


def _free_to_undo(draft: Draft) -> machine.Context:
    if not may_undo(draft.state.loop):
        raise Busy("the loop is busy with a request or a batch of calls: undo when it rests")
    return draft.state.context


def _settle_figures(draft: Draft, point: machine.UndoPoint) -> None:
    """What came back is measured anew; a finished turn whose item went is not finished."""
    context = draft.state.context
    touched = sorted(dict.fromkeys(id for id, _ in point.edits))
    items = [machine.item(context, id) for id in touched]
    recount_items(draft, tuple([one for one in items if one is not None]), is_silent=True)
    phase = draft.state.loop.phase
    if isinstance(phase, Finished) and machine.item(context, phase.item) is None:
        draft.enter(Idle())


def reserve(draft: Draft, input: ReserveCalls) -> None:
    seen = draft.state.calls.seen
    new = tuple(call for call in dict.fromkeys(input.calls) if call not in seen)
    if new:
        draft.say(ToolReserved(reserved=len(new), calls=new))


ABSORB: dict[type, Callable[[Draft, Any], None]] = {
    PushItems: push,
    SupersedeItem: supersede,
    SetState: set_state,
    ReplaceContent: replace_content,
    AnnotateItem: annotate,
    RecountItems: recount,
    Undo: undo,
    Redo: redo,
    ReserveCalls: reserve,
}
