"""The JSON schema of a function's arguments, by msgspec, flat enough for every provider."""

import inspect
from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from reducers.vocabulary.errors import InvalidInput


def schema_of(function: Callable[..., Any], hints: dict[str, Any]) -> dict[str, Any]:
    """An object schema: a property for each argument, required where it has no default.

    Raises `InvalidInput` for a type that has no JSON form.
    """
    parameters = inspect.signature(function).parameters
    names = list(hints)
    try:
        schemas, components = msgspec.json.schema_components(
            [hints[name] for name in names], ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        raise InvalidInput(f"tool {function.__name__}: no JSON schema for it: {error}") from error
    properties: dict[str, Any] = {}
    required = []
    for name, schema in zip(names, schemas, strict=True):
        default = parameters[name].default
        if default is inspect.Parameter.empty:
            required.append(name)
        elif (plain := _plain(default)) is not attrs.NOTHING:
            schema = {**schema, "default": plain}
        properties[name] = schema
    found: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    found["additionalProperties"] = False
    if components:
        found["$defs"] = components
    return found


def _plain(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return attrs.NOTHING
