"""`replay`: identical, or the first divergence as expected and as got."""

import json

import pytest

from tests.nachalnik.samples import make_log, rewritten

SEAMS = """
import attrs
from reducers.linear import LinearProjector
from reducers.reducer import Reducer
from reducers.tokens import Calibrating

class Forgetful(LinearProjector):
    def project(self, items):
        return super().project([item for item in items if item.id != 1])

class Doubling(Calibrating):
    def count_item(self, item):
        return 2 * super().count_item(item)

WHOLE = Reducer()
NEEDY = lambda: None

class Bad(LinearProjector):
    def __init__(self):
        raise ValueError("no luck")

class Needy:
    def __init__(self, argument):
        pass
"""


@pytest.fixture
def log(shell):
    (shell.folder / "seams.py").write_text(SEAMS)
    make_log(shell.log)
    return shell.log


def counts(log) -> tuple[int, int]:
    commits = [json.loads(line)["commit"] for line in log.read_text().splitlines()[1:]]
    return len(commits), sum(len(commit["events"]) for commit in commits)


def test_a_log_is_identical_to_what_its_inputs_give(here, log):
    ran = here("replay", "s.jsonl")
    assert (ran.status, ran.err) == (0, "")
    commits, events = counts(log)
    assert ran.out == f"identical: {commits} commits, {events} events\n"


def test_it_needs_no_key_no_model_and_no_tool(shell, log):
    ran = shell.run("replay", "s.jsonl", "--json")
    commits, events = counts(log)
    assert ran.lines() == [{"identical": True, "commits": commits, "events": events}]


def test_it_stops_behind_a_position(here, log):
    assert here("replay", "s.jsonl", "--until", "4").out == "identical: 4 commits, 4 events\n"
    assert here("replay", "s.jsonl", "--until", "0").out == "identical: 0 commits, 0 events\n"
    last, _ = counts(log)
    ran = here("replay", "s.jsonl", "--until", str(last + 1))
    assert (ran.status, ran.out) == (2, "")
    assert f"there is no position {last + 1}; the last is {last}" in ran.err


def test_the_first_divergence_is_shown_as_expected_and_got(here, log):
    rewritten(log, (b'"stop":"tool_use"}', b'"stop":"tool_used"}'))
    rewritten(log, (b'"tokens":3', b'"tokens":4'))
    ran = here("replay", "s.jsonl")
    assert ran.status == 1
    first, expected, got = ran.out.splitlines()
    assert first == "divergence at position 5, input context.push, event 0 of the commit"
    assert expected.startswith('expected {"tag":"context.added"')
    assert '"tokens":4' in expected
    assert got == expected.replace('"tokens":4', '"tokens":3').replace("expected", "got     ")
    (found,) = here("replay", "s.jsonl", "--json").lines()
    assert (found["identical"], found["commits"]) == (False, 4)
    assert found["divergence"]["position"] == 5
    assert found["divergence"]["expected"]["item"]["tokens"] == 4
    assert found["divergence"]["got"]["item"]["tokens"] == 3


def test_before_the_divergence_all_is_identical(here, log):
    rewritten(log, (b'"stop":"tool_use"}', b'"stop":"tool_used"}'))
    assert here("replay", "s.jsonl", "--until", "7").status == 0
    assert here("replay", "s.jsonl", "--until", "8").status == 1


# -- seams in place of those the log names -----------------------------------------------------


@pytest.mark.parametrize(
    "place", ["reducers.linear:LinearProjector", "reducers.tokens:Calibrating", "seams:WHOLE"]
)
def test_a_seam_that_does_the_same_makes_no_difference(here, log, place):
    assert here("replay", "s.jsonl", "--with", place).status == 0


def test_a_projector_that_does_otherwise_diverges_at_the_first_request(here, log):
    ran = here("replay", "s.jsonl", "--with", "seams:Forgetful")
    assert ran.status == 1
    assert "divergence at position 7, input turn.run" in ran.out
    assert '"messages":2' in ran.out
    assert '"messages":1' in ran.out


def test_a_counter_that_does_otherwise_diverges_at_the_first_item(here, log):
    ran = here("replay", "s.jsonl", "--with", "seams:Doubling")
    assert ran.status == 1
    assert "divergence at position 5" in ran.out


def test_a_module_that_prints_when_imported_does_not_spoil_the_json(shell, log):
    (shell.folder / "loud.py").write_text("print('loud')\nfrom seams import WHOLE\n")
    ran = shell.run("replay", "s.jsonl", "--with", "loud:WHOLE", "--json")
    assert (ran.lines()[0]["identical"], ran.err) == (True, "loud\n")


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (["seams"], "write MODULE:NAME"),
        (["seams:nope"], "has no 'nope'"),
        (["nowhere:x"], "does not import"),
        (["seams:NEEDY"], "neither a projector, nor a counter, nor a Reducer"),
        (["seams:Needy"], "a class that can be made without arguments (TypeError: "),
        (["seams:Bad"], "a class that can be made without arguments (ValueError: no luck)"),
        (["reducers.linear:LinearProjector", "seams:Forgetful"], "its kind was given already"),
        (["seams:Forgetful", "seams:WHOLE"], "leave the others out"),
    ],
)
def test_a_seam_that_cannot_be_used_is_told(here, log, places, said):
    words = [word for place in places for word in ("--with", place)]
    ran = here("replay", "s.jsonl", *words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_seam_that_is_gone_is_named_and_can_be_replaced(here, log):
    rewritten(log, (b"reducers.projection:LinearProjector", b"gone_away:Projector"))
    ran = here("replay", "s.jsonl")
    assert (ran.status, ran.out) == (2, "")
    assert "gone_away:Projector" in ran.err
    assert here("replay", "s.jsonl", "--with", "reducers.linear:LinearProjector").status == 0


def test_a_damaged_log_cannot_be_replayed(here, log):
    data = log.read_bytes()
    log.write_bytes(data.replace(b"Be brief", b"Be briex"))
    ran = here("replay", "s.jsonl")
    assert ran.status == 2
    assert "line 6: damaged" in ran.err
