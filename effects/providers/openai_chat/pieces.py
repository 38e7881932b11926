"""Values from a stranger, and text that comes in pieces. Nothing here raises."""

import json
import re
from typing import Any

from reducers.vocabulary.json import NotJson, compact
from reducers.vocabulary.text import escape_halves, mend

_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")


def as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_str(value: object) -> str:
    return value if isinstance(value, str) else ""


def json_text(value: object) -> str:
    """The compact text of a value, strict or not: a number out of range stays visible."""
    try:
        text: str = compact(value)
    except NotJson:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
        except (RecursionError, ValueError):
            text = "[a value nested too deeply]"
    return mend(text)[0]


class Mender:
    """Makes pieces of text sound: halves of a character in two pieces are joined, and a half that
    never finds its other becomes U+FFFD, which is counted."""

    __slots__ = ("_half", "count")

    def __init__(self) -> None:
        self._half = ""
        self.count = 0

    def add(self, piece: str) -> str:
        """What is sound so far; the first half of a pair is held until the next piece."""
        if piece.isascii() and not self._half:
            return piece
        whole = self._half + piece
        self._half = whole[-1] if "\ud800" <= whole[-1:] <= "\udbff" else ""
        whole = whole[:-1] if self._half else whole
        return self._sound(_PAIR.sub(_joined, whole))

    def end(self) -> str:
        half, self._half = self._half, ""
        return self._sound(half)

    def _sound(self, text: str) -> str:
        sound, found = mend(text)
        self.count += found
        return sound


class ArgumentsMender(Mender):
    """For a call's arguments, which are run as they were written or not at all: a lone half stays,
    as an escape that no strict reader of JSON accepts."""

    __slots__ = ()

    def _sound(self, text: str) -> str:
        return escape_halves(text)


def _joined(pair: re.Match[str]) -> str:
    high, low = pair.groups()
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))
