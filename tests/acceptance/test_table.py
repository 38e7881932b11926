"""The table of acceptance lines itself, over a small project made for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.table import Malformed, ranges, read_exceptions, read_lines

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    '[tool.pytest.ini_options]\nmarkers = ["accepts(*lines)"]\naddopts = "--strict-markers"\n'
)
LINES = "# Lines\n\n## 1. Trees\n\n1. Trees grow.\n2. Leaves fall.\n\n## 2. Rain\n\n{rest}"
REST = "\n".join(f"{number}. Drop {number} falls." for number in range(3, 11))
TESTS = """
import pytest

@pytest.mark.accepts(1)
def test_trees():
    pass

@pytest.mark.accepts(3, 4)
@pytest.mark.parametrize("x", [1, 2])
@pytest.mark.accepts(4, 5, 6, 7, 8, 9)
def test_drops(x):
    pass

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.accepts(10)), 2], ids="ab")
@pytest.mark.accepts(1)
def test_last(x):
    pass
"""


@pytest.fixture
def look(tmp_path):
    """Run the command over a project with more tests and exceptions; its status and its words."""

    def run(*options, more="", exceptions=""):
        acceptance = tmp_path / "tests" / "acceptance"
        acceptance.mkdir(parents=True)
        (tmp_path / "pyproject.toml").write_text(SETTINGS)
        (acceptance / "lines.md").write_text(LINES.format(rest=REST))
        (acceptance / "exceptions.md").write_text(f"# Exceptions\n\n{exceptions}\n")
        (tmp_path / "tests" / "test_weather.py").write_text(TESTS + more)
        command = [sys.executable, "-m", "tests.acceptance", "--folder", tmp_path, *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_table_names_the_tests_of_each_line(look):
    status, told = look("--json", exceptions="2. They are needles.")
    found = json.loads(told)
    assert status == 0
    assert (found["lines"], found["covered"], found["excepted"]) == (10, 9, 1)
    assert (found["missing"], found["problems"]) == ([], [])
    tests = {row["number"]: row["tests"] for row in found["table"]}
    name = "tests/test_weather.py::test_"
    assert tests == {
        1: [f"{name}trees", f"{name}last[a]", f"{name}last[b]"],
        2: [],
        **{number: [f"{name}drops"] for number in range(3, 10)},
        10: [f"{name}last[a]"],
    }
    assert found["table"][1]["exception"] == "They are needles."
    assert found["table"][2]["heading"] == "Rain"


def test_a_line_without_a_test_fails(look):
    status, told = look()
    assert status == 1
    assert "   2  Leaves fall.\n        no test\n" in told
    assert "Trees grow." in told
    assert told.endswith("no test: 2\n9 of 10 lines covered, 0 excepted, 1 without\n")


def test_only_what_is_missing(look):
    status, told = look("--missing")
    assert status == 1
    assert "1. Trees (1 of 2 covered)\n\n   2  Leaves fall.\n" in told
    assert "grow" not in told


def test_another_section_is_no_matter(look):
    status, told = look("--section", "2")
    assert status == 0
    assert "Trees grow" not in told
    assert told.endswith("8 of 8 lines covered, 0 excepted, 0 without\n")


def test_what_is_wrong_with_a_mark_is_said(look):
    wrong = """
@pytest.mark.accepts(1, 2, 3, 4, 5, 6, 7, 8, 9)
def test_all():
    pass

@pytest.mark.accepts(11, "2", [3])
def test_more():
    pass

@pytest.mark.accepts()
def test_none():
    pass
"""
    status, told = look(more=wrong, exceptions="3. Dry.\n12. Never.")
    assert status == 1
    name = "wrong: tests/test_weather.py::test_"
    assert [line for line in told.splitlines() if line.startswith("wrong")] == [
        f"{name}all names 9 lines; at most 8 may be",
        f"{name}more names 11; the lines are 1 to 10",
        f"{name}more names '2'; the lines are 1 to 10",
        f"{name}more names [3]; the lines are 1 to 10",
        f"{name}none carries the mark and names no line",
        "wrong: exceptions.md lists 12; the lines are 1 to 10",
        "wrong: exceptions.md lists 3, which tests/test_weather.py::test_drops covers",
    ]


@pytest.mark.parametrize("reason", ["skip(reason='later')", "xfail"])
def test_a_test_that_does_not_pass_covers_nothing(look, reason):
    more = f"\n@pytest.mark.{reason}\n@pytest.mark.accepts(2)\ndef test_leaves():\n    assert 0\n"
    status, told = look("--section", "1", more=more)
    assert status == 1
    assert "no test: 2\n" in told


def test_a_suite_that_cannot_be_collected_is_not_judged(look):
    status, told = look(more="\nimport nothing_of_that_name\n")
    assert status == 2
    assert told.startswith("acceptance: the tests cannot be collected:\n")
    assert "nothing_of_that_name" in told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1. One.\n3. Three.\n", "x.md:2: 3 stands where 2 must"),
        ("1. One.\n1. One.\n", "x.md:2: 1 stands where 2 must"),
        ("1 One.\n", "x.md:1: not a number, a dot, a space and words: 1 One."),
    ],
)
def test_lines_that_are_not_numbered_through_are_refused(tmp_path, text, problem):
    path = tmp_path / "x.md"
    path.write_text(text)
    with pytest.raises(Malformed, match=f"^{problem}$"):
        read_lines(path)


@pytest.mark.parametrize("text", ["1.\n", "1. Why.\n1. Why not.\n"])
def test_an_exception_has_one_reason(tmp_path, text):
    path = tmp_path / "x.md"
    path.write_text(text)
    with pytest.raises(Malformed):
        read_exceptions(path)


def test_the_lines_of_this_project():
    lines = read_lines(ROOT / "tests/acceptance/lines.md")
    assert (len(lines), lines[-1].section) == (462, 19)


def test_ranges():
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    assert ranges([]) == ""
