"""The context: items in and out of what the model is shown, and what it would be shown."""

from collections.abc import Iterable
from typing import Any

from nachalnik.face.face import Face, as_json, given
from nachalnik.reports import (
    Budget,
    StateChange,
)
from reducers.linear import Projection
from reducers.machines import context as context_machine
from reducers.machines import parts as parts_machine
from reducers.reducer import Reducer
from reducers.state import State
from reducers.vocabulary.content import content_of
from reducers.vocabulary.errors import (
    EmptyProjection,
    InvalidInput,
    NoProvider,
)
from reducers.vocabulary.inputs import (
    AnnotateItem,
    PushItems,
    RecountItems,
    Redo,
    ReplaceContent,
    SetState,
    SupersedeItem,
    Undo,
)
from reducers.vocabulary.items import STATES, ContextItem, ContextState
from reducers.vocabulary.json import NULL
from reducers.vocabulary.messages import ModelRequest


class ContextFace(Face):
    """Edits of the items, undo, and previews of the next request."""

    def push(self, item: ContextItem) -> int:
        """Add one item; returns its id."""
        return self.push_all([item])[0]

    def push_all(self, items: Iterable[ContextItem]) -> list[int]:
        """Add many as one operation, taken back by one undo; returns their ids."""
        new = tuple(items)
        for item in new:
            _check_item(item)
        if not new:
            return []
        with self._writer.lock:
            first = self._writer.state.context.next_id
            self._apply(PushItems(new))
            return list(range(first, self._writer.state.context.next_id))

    def supersede(self, old: int, item: ContextItem) -> int:
        """Add an item in place of an old one, which is kept as superseded. Raises `UnknownItem`."""
        _check_item(item)
        with self._writer.lock:
            id = self._writer.state.context.next_id
            self._apply(SupersedeItem(old, item))
            return id

    def set_state(
        self, ids: int | Iterable[int], state: ContextState, note: str | None = None
    ) -> StateChange:
        """Move items to a state; the note says why and replaces the one before."""
        if state not in STATES:
            raise InvalidInput(
                f"{state!r} is not a state of an item: use one of {', '.join(STATES)}"
            )
        named = (ids,) if isinstance(ids, int) else tuple(ids)
        with self._writer.lock:
            before = self._writer.state.context
            self._apply(SetState(named, state, note))
            after = self._writer.state.context
        changed: list[int] = []
        unchanged: list[int] = []
        unknown: list[int] = []
        for id in dict.fromkeys(named):
            old, new = context_machine.item(before, id), context_machine.item(after, id)
            bin_of = unknown if old is None else unchanged if old is new else changed
            bin_of.append(id)
        return StateChange(tuple(changed), tuple(unchanged), tuple(unknown))

    def exclude(self, *ids: int, note: str | None = None) -> StateChange:
        return self.set_state(ids, "excluded", note)

    def replace(self, id: int, content: object) -> None:
        """Overwrite an item's content. Raises `UnknownItem`."""
        self._apply(ReplaceContent(id, given(content_of, content, "the content")))

    def annotate(self, id: int, meta: object) -> None:
        """Replace an item's metadata, any JSON value. Raises `UnknownItem`."""
        self._apply(AnnotateItem(id, NULL if meta is None else as_json(meta, "the metadata")))

    def undo(self) -> bool:
        """Take back the last operation; False where there is none. `Busy` unless it rests."""
        return self._apply(Undo())

    def redo(self) -> bool:
        return self._apply(Redo())

    def undo_len(self) -> int:
        return len(self._writer.state.context.undo)

    def redo_len(self) -> int:
        return len(self._writer.state.context.redo)

    def recount(self) -> None:
        """Measure every item with the counter and calibration in force."""
        self._apply(RecountItems())

    def items(self) -> list[ContextItem]:
        """Every item in any state, oldest first."""
        return list(context_machine.present(self._writer.state.context))

    def item(self, id: int) -> ContextItem | None:
        return context_machine.item(self._writer.state.context, id)

    def next_id(self) -> int:
        return self._writer.state.context.next_id

    def tokens(self) -> int:
        """Sum over the items that send their content."""
        return self._writer.state.context.tokens

    def tokens_withheld(self) -> int:
        return self._writer.state.context.withheld

    # -- previews ----------------------------------------------------------------------------

    def budget(self) -> Budget:
        def ask(state: State, reducer: Reducer) -> Budget:
            draw = reducer.draw(state)
            model = parts_machine.model(state.parts)
            limit = None if model is None else model.context_limit
            return Budget(
                draw.tokens, draw.tool_tokens, draw.uncounted, limit, state.requests.usage
            )

        return self._writer.read(ask)  # type: ignore[no-any-return]

    def project(self) -> Projection:
        return self._writer.read(lambda state, reducer: reducer.projection(state))  # type: ignore[no-any-return]

    def preview_request(self) -> ModelRequest:
        """What the next step would send. Raises `EmptyProjection`. Needs no provider."""
        request = self._writer.read(lambda state, reducer: reducer.draw(state).request)
        if not len(request.messages):
            raise EmptyProjection
        return request  # type: ignore[no-any-return]

    def preview_payload(self) -> Any:
        """The body the provider would send for it, or None if it cannot tell."""
        import msgspec

        provider = self._ports.provider
        if provider is None:
            raise NoProvider
        request = self.preview_request()
        render = getattr(provider, "render", None)
        body = None if render is None else render(request)
        return msgspec.json.decode(body) if isinstance(body, str) else body


def _check_item(item: object) -> None:
    if not isinstance(item, ContextItem):
        raise InvalidInput(
            f"{type(item).__name__} is not a context item: make one with ContextItem.user(...), "
            "ContextItem.file(...) or the like"
        )
