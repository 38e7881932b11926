"""`check` as a command; what it finds is tested in `tests/nachalnik/test_checking.py`."""

import pytest

from tests.nachalnik.samples import make_log


@pytest.fixture
def log(shell):
    make_log(shell.log)
    return shell.log


def test_a_whole_log_is_said_to_be_whole(here, log):
    ran = here("check", "s.jsonl")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "whole: 14 commits, 48 events\n"
    assert here("check", "s.jsonl", "--json").lines() == [
        {"log": "s.jsonl", "commits": 14, "events": 48, "findings": [], "notes": []}
    ]


def test_each_finding_is_a_line_and_the_status_is_1(here, log):
    lines = log.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"Add", b"Odd", 1)
    log.write_bytes(b"".join(lines))
    ran = here("check", "s.jsonl")
    assert (ran.status, ran.err) == (1, "")
    first, last = ran.out.splitlines()
    assert first.startswith("line 7: bytes: ")
    assert first.endswith("8 lines behind it cannot be verified")
    assert last == "1 finding (5 commits, 6 events could be read)"
    (found,) = here("check", "s.jsonl", "--json").lines()
    assert [(one["line"], one["kind"]) for one in found["findings"]] == [(7, "bytes")]


def test_a_note_is_no_finding(here, log):
    with log.open("ab") as file:
        file.write(b'{"chain"')
    ran = here("check", "s.jsonl")
    assert ran.status == 0
    assert ran.out.startswith("note: line 16: bytes: 8 bytes at the end")
    (found,) = here("check", "s.jsonl", "--json").lines()
    assert (len(found["findings"]), len(found["notes"])) == (0, 1)


def test_a_log_in_use_can_be_checked(shell, here):
    kernel = make_log(shell.log, close=False)
    assert here("check", "s.jsonl").status == 0
    kernel.close()
