"""The page of invariants names every one the machines promise, and only tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "reducers" / "INVARIANTS.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"^(I-[A-Z]+-\d+)", re.MULTILINE)


def test_each_invariant_of_a_machine_stands_on_the_page():
    promised = [
        number
        for path in sorted((ROOT / "reducers" / "machines").glob("*.py"))
        for number in NUMBER.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(promised) > 20
    told = re.findall(r"^\| (I-[A-Z]+-\d+)", PAGE, re.MULTILINE)
    assert [number for number in promised if number not in told] == []
    assert len(told) == len(set(told))


def test_each_test_it_names_exists():
    for name in re.findall(r"`(tests/[a-z_/]+\.py)`", PAGE):
        assert (ROOT / name).is_file(), name
    properties = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests" / "properties").glob("test_*.py"))
    )
    for name in re.findall(r"`(test_\w+)(?:\[[\w-]+\])?`", PAGE):
        assert f"def {name}(" in properties, name
    for number in re.findall(r"`test_invariant\[([\w-]+)\]`", PAGE):
        assert f'"{number}": ' in properties, number


def test_each_law_has_its_number():
    laws = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert laws == [str(number) for number in range(1, 11)]
