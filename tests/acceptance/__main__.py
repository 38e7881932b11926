"""`python -m tests.acceptance`: the acceptance lines and the tests that cover them.

Exit status: 0 every line shown has a test or stands in exceptions.md; 1 some line has neither, or a
mark or an exception is wrong; 2 the lists or the tests could not be read.
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

import msgspec

from tests.acceptance.table import (
    Malformed,
    Row,
    collect,
    problems,
    ranges,
    read_exceptions,
    read_lines,
    table,
)

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    given = arguments()
    lists = given.folder / "tests" / "acceptance"
    try:
        lines = read_lines(lists / "lines.md")
        reasons = read_exceptions(lists / "exceptions.md")
        tests = collect(given.folder / "tests")
    except (Malformed, OSError) as problem:
        print(f"acceptance: {problem}", file=sys.stderr)
        return 2
    rows = table(lines, tests, reasons)
    wrong = problems(rows, tests, reasons)
    if given.section is not None:
        rows = [row for row in rows if row.section == given.section]
        if not rows:
            print(f"acceptance: there is no section {given.section}", file=sys.stderr)
            return 2
    shown = [row for row in rows if row.is_missing or not given.missing]
    if given.json:
        print_json(rows, shown, wrong)
    else:
        print_text(rows, shown, wrong)
    return 1 if wrong or any(row.is_missing for row in rows) else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--missing", action="store_true", help="show only lines that have nothing")
    parser.add_argument("--section", type=int, metavar="N", help="show and demand only section N")
    parser.add_argument("--folder", type=Path, default=ROOT, help="the project, if not this one")
    return parser.parse_args()


def print_text(rows: list[Row], shown: list[Row], wrong: list[str]) -> None:
    for section, members in groupby(shown, lambda row: row.section):
        of_section = [row for row in rows if row.section == section]
        covered = sum(bool(row.tests) for row in of_section)
        print(f"{section}. {of_section[0].heading} ({covered} of {len(of_section)} covered)\n")
        for row in members:
            print_row(row)
        print()
    for problem in wrong:
        print(f"wrong: {problem}")
    missing = [row.number for row in rows if row.is_missing]
    if missing:
        print(f"no test: {ranges(missing)}")
    excepted = sum(row.exception is not None for row in rows)
    covered = sum(bool(row.tests) for row in rows)
    print(f"{covered} of {len(rows)} lines covered, {excepted} excepted, {len(missing)} without")


def print_row(row: Row) -> None:
    print(f"{row.number:>4}  {row.sentence}")
    for test in row.tests:
        print(f"        {test}")
    if row.exception is not None:
        print(f"        exception: {row.exception}")
    if row.is_missing:
        print("        no test")


def print_json(rows: list[Row], shown: list[Row], wrong: list[str]) -> None:
    told = {
        "lines": len(rows),
        "covered": sum(bool(row.tests) for row in rows),
        "excepted": sum(row.exception is not None for row in rows),
        "missing": [row.number for row in rows if row.is_missing],
        "problems": wrong,
        "table": shown,
    }
    print(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    sys.exit(main())
