"""JSON is strict in both directions: the digits survive, and nothing that is not JSON gets in."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers.vocabulary.json import (
    DEPTH_MAX,
    DIGITS_MAX,
    EMPTY_OBJECT,
    NULL,
    NotJson,
    compact,
    object_problem,
    parse,
    parse_object,
    value_of,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_a_value_survives_its_text(value):
    text = compact(value)
    assert parse(text) == value
    assert compact(parse(text)) == text
    assert json.loads(text) == value
    assert " " not in compact({"a": [1, {"b": None}]})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), b"x", {1, 2}])
def test_json_01_what_json_cannot_say_is_refused_not_lost(value):
    for shape in (value, {"mean": value}, [value]):
        with pytest.raises(NotJson):
            compact(shape)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"mean": NaN}', "[1, NaN]"])
def test_json_01_a_bare_nan_is_not_json(text):
    with pytest.raises(NotJson, match="is not a JSON value"):
        parse(text)


def test_json_03_digits_are_exact():
    text = '{"id":2512292042121000001,"n":-9007199254740993,"s":"1234567890123456789"}'
    value = parse_object(text)
    assert value == {
        "id": 2512292042121000001,
        "n": -9007199254740993,
        "s": "1234567890123456789",
    }
    assert compact(value) == text


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e999999"])
def test_json_03_a_number_out_of_range_is_refused_not_infinity(number):
    with pytest.raises(NotJson, match="out of range"):
        parse('{"e": %s}' % number)  # noqa: UP031


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ("[1,2]", "a list"),
        ('"text"', "a string"),
        ("null", "null"),
        ("3", "a number"),
        ("true", "a boolean"),
        ('{"x":1}{"y":2}', "not one whole value"),
        ('{"x":1} trailing words', "not one whole value"),
        ('{"x":1,"x":2}', '"x" stands twice'),
        ('{"a":{"x":1,"x":2}}', '"x" stands twice'),
        ('{"x":1', "not one whole value"),
        ("", "it is empty"),
        ('{"s":"\\ud800"}', "surrogate"),
        ('{"s":"\ud800"}', "surrogate"),
    ],
)
def test_json_05_only_one_object_is_accepted_and_the_reason_is_said(args, problem):
    assert problem in (object_problem(args) or "")
    with pytest.raises(NotJson):
        parse_object(args)


@pytest.mark.parametrize("args", ["{}", '{"x":1}', ' {"x" : [1, 2]} ', '{"s":"\\ud83d\\ude00"}'])
def test_json_05_one_object_is(args):
    assert object_problem(args) is None


@pytest.mark.parametrize(
    "args",
    [
        '{"n": 1' + "0" * 5000 + "}",
        '{"n": ' + "9" * 2_000_000 + "}",
        '{"n": 0.' + "9" * 2_000_000 + "}",
        '{"n": 1e' + "9" * 2_000_000 + "}",
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
    ids=["5000 digits", "2 MB of digits", "2 MB of decimals", "giant exponent", "deep", "deeper"],
)
def test_json_06_what_would_stall_is_refused_at_once(args):
    began = time.perf_counter()
    assert object_problem(args)
    assert time.perf_counter() - began < 1.0


def test_only_nesting_is_deep():
    """Neither brackets beside each other nor those inside of a text count."""
    assert parse("[" + "[]," * 500 + "[]]") == [[]] * 501
    assert parse('{"a":"' + "[{" * 500 + '"}') == {"a": "[{" * 500}
    quoted = ['a "quoted [[[ bracket\\'] * 500
    assert parse(compact(quoted)) == quoted
    deepest = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert object_problem(f"[{deepest}]") == f"it is nested more than {DEPTH_MAX} deep"
    assert parse(deepest) is not None


def test_json_06_the_longest_number_that_is_read():
    assert parse("9" * DIGITS_MAX) == int("9" * DIGITS_MAX)
    with pytest.raises(NotJson, match="digits"):
        parse("9" * (DIGITS_MAX + 1))


def test_what_is_absent_reads_as_null():
    assert value_of(NULL) is None
    assert value_of(EMPTY_OBJECT) == {}
    assert value_of("null") is None
