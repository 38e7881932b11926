"""Tool calls put together from their fragments.

The wire's index is a label and not a place; it may be missing, the same for all, or not start at 0.
So is the id: missing, empty on later fragments, the same for two calls, another on every fragment.
What decides, in this order: label, id, the call last written to. A fragment that can only be a
second call (a name, behind arguments that are already whole) opens one whatever its label says.
Ids are not repaired here: the core does that, and records it.
"""

from typing import Any

import msgspec

from effects.providers.openai_chat.pieces import ArgumentsMender, as_dict, as_str, json_text
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.json import NULL, Json, object_problem
from reducers.vocabulary.models import Delta
from reducers.vocabulary.text import mend

CALL_EXTRAS = ("extra_content",)
"""What a vendor hangs on a call and wants back with it: Google's call signatures."""

Label = str | int


class Draft:
    """A call while its fragments arrive."""

    __slots__ = ("arguments", "extra", "id", "mender", "name", "place")

    def __init__(self, place: int) -> None:
        self.place = place
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}
        self.mender = ArgumentsMender()

    def is_whole(self) -> bool:
        """Whether its arguments are one object already. Rarely asked, and never for a `{`."""
        tail = self.arguments[-1].rstrip() if self.arguments else ""
        return tail.endswith("}") and _is_object("".join(self.arguments))

    def finished(self) -> ToolCall:
        """With no arguments written, it has none: only ask once the stream ended properly."""
        text = "".join(self.arguments) + self.mender.end()
        return ToolCall(self.id, self.name, Json(text if text.strip() else "{}"), self._extra())

    def _extra(self) -> Json:
        if not self.extra:
            return NULL
        text = Json(json_text(self.extra))
        return text if object_problem(text) is None else NULL


class CallAssembler:
    __slots__ = ("_by_id", "_by_label", "_last", "drafts")

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._by_label: dict[Label, Draft] = {}
        self._by_id: dict[str, Draft] = {}
        self._last: Draft | None = None

    def add(self, fragment: object, is_whole: bool = False) -> list[Delta]:
        """Take one entry of `tool_calls`; `is_whole` where each entry is a call of its own."""
        entry = as_dict(fragment)
        function = as_dict(entry.get("function"))
        id, name = _word(entry.get("id")), as_str(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        label = _label(entry.get("index"))
        draft = None if is_whole else self._find(label, id)
        if draft is None or _is_another(draft, id, name, arguments):
            draft = Draft(len(self.drafts))
            self.drafts.append(draft)
        self._file(draft, label, id)
        if name and name != draft.name:
            draft.name = mend(draft.name + name)[0]
        for key in CALL_EXTRAS:
            if entry.get(key) is not None:
                draft.extra[key] = entry[key]
        return self._write(draft, arguments)

    def finished(self) -> tuple[ToolCall, ...]:
        """All calls, in the order in which they first appeared."""
        return tuple([draft.finished() for draft in self.drafts])

    def _find(self, label: Label | None, id: str) -> Draft | None:
        if label is not None:
            held = self._by_label.get(label)
            if held is None or not id or held.id in ("", id):
                return held
            return self._by_id.get(id, held)
        if id:
            return self._by_id.get(id)
        return self._last or (self.drafts[-1] if self.drafts else None)

    def _file(self, draft: Draft, label: Label | None, id: str) -> None:
        if id and not draft.id:
            draft.id = id
        if id and draft.id == id:
            self._by_id[id] = draft
        if label is not None:
            self._by_label[label] = draft

    def _write(self, draft: Draft, arguments: str) -> list[Delta]:
        # An empty fragment announces; it does not write. A loose one behind it belongs elsewhere.
        if not arguments:
            return []
        self._last = draft
        text = draft.mender.add(arguments)
        if not text:
            return []
        draft.arguments.append(text)
        return [Delta("tool_args", text, draft.place, draft.id, draft.name)]


def _is_another(draft: Draft, id: str, name: str, arguments: str) -> bool:
    if id and draft.id and id != draft.id:
        # A server that invents an id for every fragment sends the name only once.
        return bool(name) or (bool(arguments.strip()) and draft.is_whole())
    if not name:
        return False
    if name == draft.name and not _is_object(arguments):
        return False
    return draft.is_whole()


def _is_object(text: str) -> bool:
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def _arguments(value: object) -> str:
    """As text: null is nothing written, an object or any other value its compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)


def _label(value: object) -> Label | None:
    return value if isinstance(value, str | int) else None


def _word(value: object) -> str:
    """An id; a server that numbers its calls means the number as a word."""
    if isinstance(value, int) and not isinstance(value, bool):
        return json_text(value)
    return mend(as_str(value))[0]
