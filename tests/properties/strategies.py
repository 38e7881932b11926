"""Values of every word of the vocabulary, made from the types themselves.

A new field or alternative is drawn from the moment it exists; nothing here has to be told.
"""

import types
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from msgspec import NODEFAULT, UNSET, Struct, UnsetType
from msgspec.structs import fields

from reducers.vocabulary.content import AnyContent, Content, Held, Stored
from reducers.vocabulary.json import Json

Strategy = st.SearchStrategy[Any]

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["", "none", "open", "end_turn", "\x00", "\u2028", "ż\U0001f600", '"\\', "x" * 70]
)
INTEGERS = st.integers(0, 300) | st.integers(-(2**63), 2**63 - 1)
JSONS = st.sampled_from(
    ["", "{}", "null", '{"x":1,"y":2}', "9007199254740993", '{"b":1,"a":[1.50,true,"ż"]}', "[1"]
)


def values_of(kind: Any) -> Strategy:
    """A strategy for any type the vocabulary is written with."""
    return _values(kind)


@cache
def _values(kind: Any) -> Strategy:
    origin = get_origin(kind)
    if kind in _LEAVES:
        return _LEAVES[kind]
    if kind == AnyContent:
        return _values(Content)  # the two others stand only in stored commits
    if isinstance(kind, NewType):
        return JSONS if kind is Json else _values(kind.__supertype__)
    if origin is Literal:
        return st.sampled_from(get_args(kind))
    if origin in (Union, types.UnionType):
        return st.one_of([_values(one) for one in get_args(kind) if one not in (Held, Stored)])
    if origin is tuple:
        return _tuples(get_args(kind))
    struct = origin or kind
    if isinstance(struct, type) and issubclass(struct, Struct):
        return st.deferred(lambda: _structs(kind))
    raise TypeError(f"no strategy for {kind!r}")


_LEAVES: dict[Any, Strategy] = {
    str: TEXTS,
    int: INTEGERS,
    bool: st.booleans(),
    float: st.floats(0, 1e6, allow_nan=False),
    type(None): st.none(),
    UnsetType: st.just(UNSET),
    Any: TEXTS,
}


def _tuples(parts: tuple[Any, ...]) -> Strategy:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return st.lists(_values(parts[0]), max_size=3).map(tuple)
    return st.tuples(*[_values(part) for part in parts])


@cache
def _structs(kind: Any) -> Strategy:
    struct, hints = _fields_of(kind)
    required = {
        one.name: _values(hints[one.name])
        for one in fields(struct)
        if one.default is NODEFAULT and one.default_factory is NODEFAULT
    }
    optional = {name: _values(hint) for name, hint in hints.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: struct(**given))


def _fields_of(kind: Any) -> tuple[type[Struct], dict[str, Any]]:
    struct = get_origin(kind) or kind
    hints = get_type_hints(struct)
    if get_args(kind):
        known = dict(zip(struct.__parameters__, get_args(kind), strict=True))
        hints = {name: _filled(hint, known) for name, hint in hints.items()}
    return struct, {name: hints[name] for name in struct.__struct_fields__}


def _filled(hint: Any, known: dict[Any, Any]) -> Any:
    if hint in known:
        return known[hint]
    if get_origin(hint) is tuple:
        return tuple[tuple(_filled(one, known) for one in get_args(hint))]  # type: ignore[misc]
    return hint


# -- the same value, made of other objects -----------------------------------------------------


def twin(value: Any) -> Any:
    """An equal value that shares no text, number, tuple or struct with the given one, as far as
    this Python does not share them by itself."""
    if isinstance(value, str):
        return "".join(list(value))
    if isinstance(value, bool) or value is None or value is UNSET:
        return value
    if isinstance(value, int):
        return int(str(value))
    if isinstance(value, float):
        return float(repr(value))
    if isinstance(value, tuple):
        return tuple([twin(one) for one in value])
    if isinstance(value, Struct):
        kind = type(value)
        return kind(**{name: twin(getattr(value, name)) for name in kind.__struct_fields__})
    raise TypeError(f"no twin for {value!r}")


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def decoder_of(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode
