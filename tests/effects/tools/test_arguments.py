"""Arguments structured by a function's types: all that does not fit, at once, by its path."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NotRequired, Optional, TypedDict

import attrs
import pytest

from effects.ports import ToolError
from effects.tools.arguments import structured
from effects.tools.function import tool
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.errors import InvalidInput


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


@attrs.define
class Route:
    start: Place
    name: str | None = attrs.field(default=None, validator=attrs.validators.max_len(5))


class Options(TypedDict):
    depth: int
    places: NotRequired[list[Place]]


def taken(hint, value):
    """The argument as a function with this type gets it."""

    def function(x):
        return x

    function.__annotations__ = {"x": hint}
    made = tool(thread=False)(function)
    return structured(function, made._hints, ToolCall("c1", "f", json.dumps({"x": value})))["x"]


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (float, 2.5, 2.5),
        (str, "s", "s"),
        (bool, False, False),
        (bytes, "aGk=", b"hi"),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (Optional[int], None, None),  # noqa: UP045 - people write it
        (int | None, 3, 3),
        (float | int, 3, 3),
        (int | str | list[int], [1], [1]),
        (list[int], [1, 2], [1, 2]),
        (list, [1, "a"], [1, "a"]),
        (Sequence[int], [1], [1]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (set[int], [1, 1], {1}),
        (frozenset[str], ["a"], frozenset("a")),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Mapping[str, list[int]], {"a": [1]}, {"a": [1]}),
        (dict, {"a": 1}, {"a": 1}),
        (Literal["a", "b", 3], 3, 3),
        (Color, "blue", Color.BLUE),
        (Place, {"x": 1}, Place(1)),
        (Place | None, {"x": 1, "y": 2, "tags": ["t"]}, Place(1, 2, ["t"])),
        (Route, {"start": {"x": 1}, "name": "way"}, Route(Place(1), "way")),
        (Options, {"depth": 1}, {"depth": 1}),
        (Options, {"depth": 1, "places": [{"x": 1}]}, {"depth": 1, "places": [Place(1)]}),
        (list[Place | Color], ["red", {"x": 1}], [Color.RED, Place(1)]),
    ],
    ids=repr,
)
def test_a_value_that_fits(hint, value, expected):
    found = taken(hint, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("hint", "value", "problems"),
    [
        (int, "q", ['x: expected an integer, got "q"']),
        (int, "3", ['x: expected an integer, got "3"']),
        (int, True, ["x: expected an integer, got true"]),
        (int, 3.0, ["x: expected an integer, got 3.0"]),
        (int, None, ["x: expected an integer, got null"]),
        (float, "2", ['x: expected a number, got "2"']),
        (str, 3, ["x: expected a string, got 3"]),
        (bool, 1, ["x: expected true or false, got 1"]),
        (bytes, "a?", ['x: expected a base64 text, got "a?"']),
        (int | None, "q", ['x: expected an integer or null, got "q"']),
        (int | str, 1.5, ["x: expected an integer or a string, got 1.5"]),
        (list[int], "abc", ['x: expected a list, got "abc"']),
        (list[int], {"a": 1}, ['x: expected a list, got {"a": 1}']),
        (
            list[int],
            [1, "a", None],
            ['x[1]: expected an integer, got "a"', "x[2]: expected an integer, got null"],
        ),
        (tuple[int, str], [1], ["x: expected a list of 2, got [1]"]),
        (tuple[int, str], ["a", "b"], ['x: expected an integer, got "a"']),
        (set[int], "ab", ['x: expected a list, got "ab"']),
        (dict[str, int], {"a": "1"}, ["x['a']: expected an integer, got \"1\""]),
        (dict[str, int], [1], ["x: expected an object, got [1]"]),
        (Literal["a", 3], "b", ['x: expected one of "a", 3, got "b"']),
        (Literal[1], True, ["x: expected one of 1, got true"]),
        (Color, "green", ['x: expected one of "red", "blue", got "green"']),
        (Place, "here", ['x: expected an object, got "here"']),
        (Place, {}, ["x.x: missing"]),
        (
            Place,
            {"x": "1", "z": 2},
            ['x.x: expected an integer, got "1"', "x: there is no field 'z'"],
        ),
        (
            Route,
            {"start": {"x": 1, "tags": ["a", 5]}, "name": 3},
            [
                "x.start.tags[1]: expected a string, got 5",
                "x.name: expected a string or null, got 3",
            ],
        ),
        (Options, {"places": [{"y": "q"}]}, None),
        (Route, {"start": {"x": 1}, "name": "too long"}, None),
        (str | None, 3 * ["long" * 30], None),
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit(hint, value, problems):
    with pytest.raises(ToolError) as raised:
        taken(hint, value)
    text = str(raised.value)
    assert text.startswith("The arguments do not fit f: x")
    assert text.endswith(".")
    assert " @ " not in text
    assert " at." not in text
    assert "$" not in text
    assert len(text) < 300
    if problems is not None:
        assert text == f"The arguments do not fit f: {'; '.join(problems)}."


async def nothing(x: int, y: str, z: list[int] | None = None) -> None:
    """Nothing."""


def test_all_problems_are_told_at_once():
    made = tool(nothing)
    args = '{"z":["a"],"x":"q","w":1}'
    with pytest.raises(ToolError) as raised:
        structured(nothing, made._hints, ToolCall("c1", "nothing", args))
    assert str(raised.value) == (
        "The arguments do not fit nothing: y: missing; "
        'z[0]: expected an integer, got "a"; x: expected an integer, got "q"; '
        "w: no such argument."
    )


@pytest.mark.parametrize("args", ["", "[1]", "3", "null", '{"x":1,"x":2}', '{"x":NaN}', "{"])
def test_what_is_no_object_is_said_to_be_none(args):
    with pytest.raises(ToolError, match="The arguments are not one JSON object"):
        structured(nothing, tool(nothing)._hints, ToolCall("c1", "nothing", args))


class Opaque:
    pass


@pytest.mark.parametrize("hint", [Opaque, object, complex, dict[int, str], list[Opaque]], ids=repr)
def test_a_type_without_a_json_form_is_refused_when_the_tool_is_made(hint):
    def function(x):
        """Nothing."""

    function.__annotations__ = {"x": hint}
    with pytest.raises(InvalidInput, match="function"):
        tool(function)
