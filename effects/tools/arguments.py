"""The arguments of a call, structured by a function's types: all that does not fit, at once.

cattrs does the work and keeps the paths. Where it is lenient it is made strict here: a model
learns from an error, not from a guess, so no number is made of a text and no list of a string.
"""

import base64
import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union

import attrs
import cattrs
from cattrs.cols import list_structure_factory, mapping_structure_factory

from effects.ports import ToolError
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import NotJson, parse_object

Hook = Callable[[Any, Any], Any]
_SHOWN_MAX = 60
"""Characters of a value that an error repeats."""


def structured(
    function: Callable[..., Any], hints: dict[str, Any], call: ToolCall
) -> dict[str, Any]:
    """The arguments by name. Raises `ToolError` that says all that does not fit, with its path."""
    try:
        plain = parse_object(call.args)
    except NotJson as problem:
        raise ToolError(f"The arguments are not one JSON object: {problem}.") from None
    parameters = inspect.signature(function).parameters
    problems = [
        f"{name}: missing"
        for name in hints
        if name not in plain and parameters[name].default is inspect.Parameter.empty
    ]
    given: dict[str, Any] = {}
    for name, value in plain.items():
        if name not in hints:
            problems.append(f"{name}: no such argument")
            continue
        try:
            given[name] = CONVERTER.structure(value, hints[name])
        except Exception as error:
            problems += _said(error, name)
    if problems:
        raise ToolError(f"The arguments do not fit {call.tool}: {'; '.join(problems)}.")
    return given


def check_hints(tool: str, hints: dict[str, Any]) -> None:
    """Refuse a type that no argument could ever be structured by. Raises `InvalidInput`."""
    for name, hint in hints.items():
        try:
            CONVERTER.get_structure_hook(hint)
        except Exception as error:
            raise InvalidInput(
                f"tool {tool}: the argument {name!r} cannot be of type {hint!r}: "
                f"{type(error).__name__}: {error}"
            ) from error


# -- what is said of a misfit ------------------------------------------------------------------


class Misfit(TypeError):
    """Words for the model: what was expected, what came."""


def _expected(words: str, value: Any) -> Misfit:
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > _SHOWN_MAX:
        shown = shown[:_SHOWN_MAX] + "..."
    return Misfit(f"expected {words}, got {shown}")


def _said(error: Exception, name: str) -> list[str]:
    found = []
    for one in cattrs.transform_error(error, name, _words):
        words, _, path = one.rpartition(" @ ")
        found.append(f"{path}: {words}")
    return found


def _words(error: BaseException, _kind: type | None) -> str:
    match error:
        case Misfit():
            return str(error)
        case KeyError():
            return "missing"
        case cattrs.ForbiddenExtraKeysError():
            names = ", ".join(repr(name) for name in sorted(error.extra_fields))
            return f"there is no field {names}"
        case _:
            # A validator or a converter of the user's own class.
            return str(error) or type(error).__name__


# -- hooks -------------------------------------------------------------------------------------


def _exactly(kind: Any, words: str) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is kind or (kind is float and type(value) is int):
            return kind(value)
        raise _expected(words, value)

    return structure


def _from_base64(value: Any, _: Any) -> bytes:
    if type(value) is not str:
        raise _expected("a base64 text", value)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise _expected("a base64 text", value) from None


def _only(kind: type, words: str, hook: Hook) -> Hook:
    """The hook of a container, for the JSON kind it is written as and no other."""

    def structure(value: Any, hint: Any) -> Any:
        if type(value) is not kind:
            raise _expected(words, value)
        return hook(value, hint)

    return structure


def _origin(hint: Any) -> Any:
    return typing.get_origin(hint) or hint


def _is_list(hint: Any) -> bool:
    return _origin(hint) in (list, tuple, set, frozenset, Sequence)


def _list_hook(hint: Any, converter: cattrs.Converter) -> Hook:
    kind, inner = _origin(hint), typing.get_args(hint)
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return _only(list, "a list", _tuple_hook(inner, converter))
    of_list: Any = types.GenericAlias(list, inner[:1] or (Any,))
    of = list_structure_factory(of_list, converter)
    made = list if kind is Sequence else kind
    return _only(list, "a list", lambda value, hint: made(of(value, hint)))


def _tuple_hook(inner: tuple[Any, ...], converter: cattrs.Converter) -> Hook:
    hooks = [converter.get_structure_hook(one) for one in inner]

    def structure(value: Any, _: Any) -> Any:
        if len(value) != len(hooks):
            raise _expected(f"a list of {len(hooks)}", value)
        return tuple(hook(one, of) for hook, one, of in zip(hooks, value, inner, strict=True))

    return structure


def _is_mapping(hint: Any) -> bool:
    return _origin(hint) in (dict, Mapping)


def _mapping_hook(hint: Any, converter: cattrs.Converter) -> Hook:
    inner = typing.get_args(hint)
    if inner and inner[0] not in (str, Any):
        raise TypeError("the keys of a JSON object are texts")
    return _only(dict, "an object", mapping_structure_factory(hint, converter, dict))


def _is_class(hint: Any) -> bool:
    kind = _origin(hint)
    return typing.is_typeddict(kind) or attrs.has(kind) or dataclasses.is_dataclass(kind)


def _class_hook(hint: Any, converter: cattrs.Converter) -> Hook:
    if typing.is_typeddict(_origin(hint)):
        return _only(dict, "an object", converter.gen_structure_typeddict(hint))
    return _only(dict, "an object", converter.gen_structure_attrs_fromdict(hint))


def _is_choice(hint: Any) -> bool:
    is_enum = isinstance(hint, type) and issubclass(hint, Enum)
    return is_enum or typing.get_origin(hint) is Literal


def _choices(hint: Any) -> list[tuple[Any, Any]]:
    """Each choice as it is written in JSON, and as the function gets it."""
    chosen = typing.get_args(hint) or tuple(hint)
    return [(one.value if isinstance(one, Enum) else one, one) for one in chosen]


def _choice_hook(hint: Any) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        for written, one in _choices(hint):
            if type(written) is type(value) and written == value:
                return one
        raise _expected(_name(hint), value)

    return structure


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (Union, types.UnionType)


def _union_hook(hint: Any, converter: cattrs.Converter) -> Hook:
    """Each member is tried in turn, `float` last, since an integer fits it too."""
    inner = typing.get_args(hint)
    members = sorted((one for one in inner if one is not type(None)), key=lambda one: one is float)
    hooks = [(converter.get_structure_hook(one), one) for one in members]
    has_none = len(members) < len(inner)
    words = " or ".join([*(_name(one) for one in members), *(["null"] if has_none else [])])

    def structure(value: Any, _: Any) -> Any:
        if value is None and has_none:
            return None
        for hook, one in hooks:
            try:
                return hook(value, one)
            except Exception as error:
                # With one member, or an object for one class, its own words say more.
                if len(hooks) == 1 and not (isinstance(error, Misfit) and has_none):
                    raise
        raise _expected(words, value)

    return structure


_NAMES: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    bytes: "a base64 text",
}


def _name(hint: Any) -> str:
    if hint in _NAMES:
        return _NAMES[hint]
    if _is_list(hint):
        return "a list"
    if _is_choice(hint):
        written = [json.dumps(one, ensure_ascii=False) for one, _ in _choices(hint)]
        return f"one of {', '.join(written)}"
    return "an object"


def _converter() -> cattrs.Converter:
    made = cattrs.Converter(forbid_extra_keys=True)
    for kind in (str, int, float, bool):
        made.register_structure_hook(kind, _exactly(kind, _NAMES[kind]))
    made.register_structure_hook(bytes, _from_base64)
    factories: list[tuple[Callable[[Any], bool], Callable[..., Hook]]] = [
        (_is_list, _list_hook),
        (_is_mapping, _mapping_hook),
        (_is_class, _class_hook),
        (_is_choice, _choice_hook),
        (_is_union, _union_hook),
    ]
    for predicate, factory in factories:
        made.register_structure_hook_factory(predicate, factory)
    return made


CONVERTER = _converter()
