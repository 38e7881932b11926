"""The acceptance lines, the tests that name them, and what is wrong between the two."""

import contextlib
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

NUMBERS_MAX = 8
"""A test that claims more lines than this asserts none of them closely."""

HEADING = re.compile(r"## (\d+)\. (.+)")
NUMBERED = re.compile(r"(\d+)\.\s+(\S.*)")
LIKE_NUMBERED = re.compile(r"\d+\b")


class Malformed(ValueError):
    """A list of lines that cannot be used; the text says where and why."""


class Line(Struct, frozen=True):
    number: int
    section: int
    heading: str
    sentence: str


class Row(Struct, frozen=True):
    """One line of the table. `exception` is the reason why no test covers it, or None."""

    number: int
    section: int
    heading: str
    sentence: str
    tests: tuple[str, ...]
    exception: str | None

    @property
    def is_missing(self) -> bool:
        return not self.tests and self.exception is None


class Test(Struct, frozen=True):
    """`names` are what its marks say, each once: integers, and what is none as it is spelt."""

    name: str
    names: tuple[int | str, ...]


# -- what is to be covered ---------------------------------------------------------------------


def read_lines(path: Path) -> list[Line]:
    """The lines under their headings. Raises Malformed unless they are numbered 1, 2, 3 and on."""
    lines: list[Line] = []
    section, heading = 0, ""
    for place, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := HEADING.fullmatch(text):
            section, heading = int(found[1]), found[2]
        elif LIKE_NUMBERED.match(text):
            number, sentence = _numbered(path, place, text)
            if number != len(lines) + 1:
                raise Malformed(f"{path.name}:{place}: {number} stands where {len(lines) + 1} must")
            lines.append(Line(number, section, heading, sentence))
    return lines


def read_exceptions(path: Path) -> dict[int, str]:
    """Number to reason. Raises Malformed for a number without a reason, or given twice."""
    reasons: dict[int, str] = {}
    for place, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if LIKE_NUMBERED.match(text):
            number, reason = _numbered(path, place, text)
            if number in reasons:
                raise Malformed(f"{path.name}:{place}: {number} is listed twice")
            reasons[number] = reason
    return reasons


def _numbered(path: Path, place: int, text: str) -> tuple[int, str]:
    found = NUMBERED.fullmatch(text)
    if found is None:
        raise Malformed(f"{path.name}:{place}: not a number, a dot, a space and words: {text}")
    return int(found[1]), found[2]


# -- what covers it ----------------------------------------------------------------------------


class Collector:
    """A pytest plugin that keeps what the marks of each collected case name.

    A test that is skipped always, or expected to fail, covers nothing and is left out.
    """

    def __init__(self) -> None:
        self.cases: dict[str, tuple[int | str, ...]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if any(item.iter_markers("skip")) or any(item.iter_markers("xfail")):
                continue
            marks = list(item.iter_markers("accepts"))
            if marks:
                said = [name for mark in marks for name in mark.args]
                named = [name if type(name) is int else repr(name) for name in said]
                self.cases[item.nodeid] = tuple(dict.fromkeys(named))


def collect(folder: Path) -> list[Test]:
    """The tests under `folder` that carry the mark. Raises Malformed if pytest cannot collect."""
    collector, told = Collector(), io.StringIO()
    options = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    with contextlib.redirect_stdout(told):
        status = pytest.main([*options, str(folder)], plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise Malformed(f"the tests cannot be collected:\n{told.getvalue().rstrip()}")
    return merged(collector.cases)


def merged(cases: Mapping[str, tuple[int | str, ...]]) -> list[Test]:
    """One test for all cases of a function, unless they name different lines."""
    families: dict[str, dict[str, tuple[int | str, ...]]] = {}
    for case, names in cases.items():
        families.setdefault(case.partition("[")[0], {})[case] = names
    tests = []
    for function, members in families.items():
        if len(set(members.values())) == 1:
            tests.append(Test(function, next(iter(members.values()))))
        else:
            tests += [Test(case, names) for case, names in members.items()]
    return tests


# -- both together -----------------------------------------------------------------------------


def table(lines: Iterable[Line], tests: Iterable[Test], reasons: Mapping[int, str]) -> list[Row]:
    covering: dict[int | str, list[str]] = {}
    for test in tests:
        for name in test.names:
            covering.setdefault(name, []).append(test.name)
    return [
        Row(
            line.number,
            line.section,
            line.heading,
            line.sentence,
            tuple(covering.get(line.number, ())),
            reasons.get(line.number),
        )
        for line in lines
    ]


def problems(rows: list[Row], tests: Iterable[Test], reasons: Mapping[int, str]) -> list[str]:
    """What is wrong with marks and exceptions, a sentence each; what is missing is not among it."""
    known: set[int | str] = {row.number for row in rows}
    numbers = f"the lines are 1 to {len(rows)}"
    found = [problem for test in tests for problem in _mark_problems(test, known, numbers)]
    strangers = sorted(number for number in reasons if number not in known)
    found += [f"exceptions.md lists {number}; {numbers}" for number in strangers]
    found += [
        f"exceptions.md lists {row.number}, which {row.tests[0]} covers"
        for row in rows
        if row.tests and row.exception is not None
    ]
    return found


def _mark_problems(test: Test, known: Collection[int | str], numbers: str) -> Iterator[str]:
    if not test.names:
        yield f"{test.name} carries the mark and names no line"
    if len(test.names) > NUMBERS_MAX:
        yield f"{test.name} names {len(test.names)} lines; at most {NUMBERS_MAX} may be"
    for name in test.names:
        if name not in known:
            yield f"{test.name} names {name}; {numbers}"


def ranges(numbers: Iterable[int]) -> str:
    """`1-3, 7` for 1, 2, 3 and 7; the numbers rise."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)
