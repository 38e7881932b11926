"""Reasoning beside the content, under any of its names; each stretch is taken once.

`reasoning` and `reasoning_content` are two names of one field and sometimes both there. Aggregators
add the same as `reasoning_details`, with signatures: that list goes back as it came, in its order.
"""

from typing import Any

from effects.providers.openai_chat.pieces import Mender, as_dict, as_list, as_str, json_text
from reducers.vocabulary.json import NULL, Json, object_problem
from reducers.vocabulary.text import mend

DETAILS = "reasoning_details"
_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Kinds of detail that are streamed in fragments, and the field that grows."""


class Reasoning:
    __slots__ = ("_details", "_has_any", "_mender", "_summaries")

    def __init__(self) -> None:
        self._mender = Mender()
        self._details: list[tuple[dict[str, Any], list[str]]] = []
        self._summaries: list[str] = []
        self._has_any = False

    def add(self, chunk: dict[str, Any], message: dict[str, Any], is_whole: bool = False) -> str:
        """The reasoning that one chunk adds; `is_whole` where no detail is a fragment."""
        details = [one for one in as_list(message.get(DETAILS)) if isinstance(one, dict)]
        for detail in details:
            self._keep(detail, is_whole)
        piece = as_str(message.get("reasoning")) or as_str(message.get("reasoning_content"))
        piece = piece or "".join(map(_text_of, details))
        text = self._mender.add(piece) + self._summary(chunk)
        self._has_any = self._has_any or bool(text)
        return text

    def end(self) -> str:
        return self._mender.end()

    @property
    def mended(self) -> int:
        return self._mender.count

    def extra(self) -> Json:
        """The details as an object for `ModelResponse.extra`, or null."""
        if not self._details:
            return NULL
        text = Json(json_text({DETAILS: [_joined(*one) for one in self._details]}))
        return text if object_problem(text) is None else NULL

    def _keep(self, detail: dict[str, Any], is_whole: bool) -> None:
        """Fragments of one detail follow each other: their text grows, later fields win."""
        field = _GROWING.get(as_str(detail.get("type")), "")
        text = [as_str(detail[field])] if field in detail else []
        if not is_whole and field and self._details and _continues(self._details[-1][0], detail):
            fields, texts = self._details[-1]
            fields.update({key: value for key, value in detail.items() if value is not None})
            texts += text
        else:
            self._details.append((dict(detail), text))

    def _summary(self, chunk: dict[str, Any]) -> str:
        """A finished summary on the chunk (Inception); the same one may be sent twice."""
        summary = as_str(as_dict(chunk.get("reasoning_summary")).get("content")).strip()
        if not summary or summary in self._summaries:
            return ""
        self._summaries.append(summary)
        return ("\n\n" if self._has_any else "") + mend(summary)[0]


def _continues(last: dict[str, Any], detail: dict[str, Any]) -> bool:
    if any(last.get(mark) != detail.get(mark) for mark in ("type", "index")):
        return False
    return None in (last.get("id"), detail.get("id")) or last["id"] == detail["id"]


def _joined(fields: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    field = _GROWING.get(as_str(fields.get("type")), "")
    return {**fields, field: "".join(texts)} if texts else fields


def _text_of(detail: dict[str, Any]) -> str:
    return as_str(detail.get("text")) or as_str(detail.get("summary"))
