"""What is recorded must not depend on the Python that records it, nor on who calls."""

import sys
from pathlib import Path

import pytest

from reducers.vocabulary.json import DEPTH_MAX, object_problem, quoted

ROOT = Path(__file__).parents[2]
RECORDED = ("wording.py", "linear.py", "vocabulary/json.py")
"""Modules whose texts become content, repairs or reasons in a log."""


@pytest.mark.parametrize("module", RECORDED)
def test_no_repr_stands_in_a_recorded_text(module):
    # repr follows the Unicode table of its Python: a new letter is escaped by an older one.
    text = (ROOT / "reducers" / module).read_text(encoding="utf-8")
    assert "!r" not in text
    assert "repr(" not in text


def test_a_quoted_text_is_the_same_for_letters_of_any_age():
    assert quoted("\U0001fae8 x") == '"\U0001fae8 x"'


def nested(depth):
    return '{"x":' * depth + "1" + "}" * depth


def test_nesting_has_a_limit_of_our_own():
    assert object_problem(nested(DEPTH_MAX)) is None
    assert object_problem(nested(DEPTH_MAX + 1)) == f"it is nested more than {DEPTH_MAX} deep"
    assert object_problem('{"x":"' + "[" * 500 + '"}') is None, "brackets in a text nest nothing"


def test_a_reason_does_not_depend_on_the_depth_of_the_stack():
    def deep(frames, text):
        return deep(frames - 1, text) if frames else object_problem(text)

    for text in (nested(DEPTH_MAX), nested(1500), "{", '{"x":1,}', "nonsense", ""):
        assert deep(300, text) == object_problem(text)
    assert sys.getrecursionlimit() <= 1000


@pytest.mark.parametrize("text", ['{"x":1,}', '{"x":1}{', "[1", "{'x':1}", '{"x":01}'])
def test_what_is_not_json_is_said_in_our_words(text):
    assert object_problem(text) == "it is not one whole value"
