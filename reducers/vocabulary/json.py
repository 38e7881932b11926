"""JSON from outside, kept as its text: immutable, hashable, digits and order as they came.

Strict in both directions: no NaN, no infinity, no number out of range, no duplicate key, no lone
surrogate. The text is checked at the border and parsed on reading.
"""

import json
import math
import re
from typing import Any, NewType

import msgspec

Json = NewType("Json", str)
"""The exact text of one JSON value."""

NULL = Json("")
"""Absent, which reads as null. Empty, so that a default is left out of the record by its value:
msgspec leaves defaults out by identity, and bytes must not depend on that."""
EMPTY_OBJECT = Json("{}")

DIGITS_MAX = 4300
"""Longest integer read, in digits: CPython's own default limit for `int(str)`."""


DEPTH_MAX = 128
"""Deepest nesting read. Ours: a decoder's own limit differs between versions and callers."""

_NESTING = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class NotJson(ValueError):
    """The text is not one strict JSON value; the message says why."""


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise NotJson(f"a number has {len(digits)} digits; at most {DIGITS_MAX} are read")
    return int(digits)


def _float(text: str) -> float:
    # A longer mantissa would be rounded by float() in time that grows with it.
    value = float(text) if len(text) <= DIGITS_MAX else math.inf
    if math.isinf(value):
        raise NotJson(f"the number {text[:24]} is out of range")
    return value


def _constant(name: str) -> Any:
    raise NotJson(f"{name} is not a JSON value")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise NotJson(f"the key {quoted(twice)} stands twice in one object")
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def parse(text: str) -> Any:
    """The value of one strict JSON text. Raises `NotJson`, in words that never vary: what a
    decoder says differs between versions of Python, and reasons are recorded."""
    if text.count("[") + text.count("{") > DEPTH_MAX and _depth(text) > DEPTH_MAX:
        raise NotJson(f"it is nested more than {DEPTH_MAX} deep")
    try:
        value = _DECODER.decode(text)
    except NotJson:
        raise
    except ValueError:
        raise NotJson("it is empty" if not text.strip() else "it is not one whole value") from None
    if "\\u" in text or not text.isascii():
        _refuse_surrogates(value)
    return value


def _depth(text: str) -> int:
    """How deep brackets nest outside of strings."""
    depth = deepest = 0
    for found in _NESTING.finditer(text):
        sign = found.group()
        if sign in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif sign in ("]", "}"):
            depth -= 1
    return deepest


def quoted(text: str) -> str:
    """A text in quotation marks, the same on every Python; `repr` follows its Unicode tables."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return json.dumps(text, ensure_ascii=False)


def _refuse_surrogates(value: Any) -> None:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise NotJson("a string holds half of a character (a lone surrogate)") from None


def parse_object(text: str) -> dict[str, Any]:
    """The arguments of a call: one JSON object. Raises `NotJson`."""
    value = parse(text)
    if not isinstance(value, dict):
        raise NotJson(f"it is {_article(value)}, not an object")
    return value


def _article(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"


def object_problem(text: str) -> str | None:
    """Why the text is not one JSON object, or None when it is."""
    try:
        parse_object(text)
    except NotJson as problem:
        return str(problem)
    return None


def value_of(text: str) -> Any:
    """The value of a stored text, None where it is absent."""
    return parse(text) if text else None


def compact(value: Any) -> Json:
    """The compact text of a plain value: keys in their order, non-ASCII unescaped.

    Raises `NotJson` for what JSON cannot say: NaN, infinity, bytes, objects of other types.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise NotJson("the value is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise NotJson(str(error)) from None
    return Json(text)
