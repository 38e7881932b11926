"""`show`: the timeline, a state, and a log that grows; nothing is locked and nothing written."""

import importlib
import json
import os
import typing

import anyio
import pytest

from nachalnik import ContextItem, Kernel, ModelInfo, ModelResponse
from nachalnik.cli import timeline
from nachalnik.cli.show import place_of
from reducers.vocabulary.events import Event
from tests.nachalnik.cli.shell import finish, interrupt
from tests.nachalnik.samples import make_log

TIMELINE = """\
-- 2025-11-30 UTC
     1 22:00:00.007  session.started      s, format 1
     2 22:00:00.014  model.changed        scripted/scripted
     3 22:00:00.021  tools.changed        add, big
     4 22:00:00.028  policy.changed       Rules: allow *
     5 22:00:00.035  context.added        #1 system "Be brief." 3 tokens
                     context.changed      #1 active -> pinned
     6 22:00:00.042  context.added        #2 user_message "Add them." 3 tokens
     7 22:00:00.049  state.changed        idle -> requesting
                     model.requested      2 messages, 2 tools, 80 tokens
     8 22:00:00.056  context.added        #3 assistant_message 10 tokens 2 calls
"""


@pytest.fixture
def log(shell):
    make_log(shell.log)
    return shell.log


def folder_of(log) -> dict:
    """Every file beside the log with what it holds and when it was changed."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.parent.iterdir()
    }


def test_the_timeline_has_a_line_for_each_event(here, log):
    ran = here("show", "s.jsonl")
    assert (ran.status, ran.err) == (0, "")
    assert "".join(ran.out.splitlines(keepends=True)[:11]) == TIMELINE
    assert ran.out.endswith("state.changed        requesting -> finished (end_turn)\n")


def test_bookkeeping_is_shown_on_demand(here, log):
    assert "turn.opened" not in here("show", "s.jsonl").out
    assert "turn.opened          turn 1\n" in here("show", "s.jsonl", "--all").out


def test_the_table_knows_every_event():
    told = [*timeline.OF_EVENT, *timeline.WITH_RECORD, *timeline.BARE]
    assert sorted(map(str, told)) == sorted(map(str, typing.get_args(Event)))


def test_json_gives_the_records_of_the_history(here, log):
    kernel = make_log(log.with_name("again.jsonl"), close=False)
    expected = [record.to_dict() for record in kernel.history()]
    everything = [record.to_dict() for record in kernel.history(all=True)]
    kernel.close()
    assert here("show", "again.jsonl", "--json").lines() == expected
    assert here("show", "again.jsonl", "--json", "--all").lines() == everything


# -- a state -----------------------------------------------------------------------------------


def test_a_state_is_shown_with_its_request(here, log):
    ran = here("show", "s.jsonl@10")
    assert ran.status == 0
    out = ran.out
    assert out.startswith("position 10 of session s\nstate    requesting; turn 1\n")
    assert "#1    pinned  system             system     3       Be brief." in out
    assert "the request that is out\n  5 messages, 2 tools, digest " in out
    assert '-> call a0: add {"x":1,"y":2}' in out
    assert "  tool a0:\n    3\n" in out


def test_a_state_as_json_is_what_the_kernel_had(here, log):
    kernel = make_log(log.with_name("again.jsonl"), close=False)
    request, budget = kernel.preview_request(), kernel.budget()
    position = kernel.position
    kernel.close()
    (state,) = here("show", f"again.jsonl@{position}", "--json").lines()
    assert state["position"] == position
    assert state["state"] == {"state": "finished", "item": 9, "stop": "end_turn"}
    assert (state["turn"], state["is_turn_open"]) == (1, False)
    assert state["budget"]["context_tokens"] == budget.context_tokens
    assert state["budget"]["tool_tokens"] == budget.tool_tokens
    assert len(state["request"]["messages"]) == len(request.messages)
    assert len(state["items"]) == 9


def test_open_questions_are_shown(shell, here):
    shell.script('call c1 note{"text":"hi"}')
    assert here(*shell.turn_words("go", "--ask", "note")).status == 3
    assert 'question 1, permission of call c1: note {"text":"hi"}' in here("show", "s.jsonl@7").out
    (state,) = here("show", "s.jsonl@7", "--json").lines()
    assert [(one["id"], one["tool"]) for one in state["questions"]] == [(1, "note")]


class Interrupting:
    """A model; while it is asked, an item enters."""

    def info(self):
        return ModelInfo("local", "m")

    async def respond(self, request, deltas):
        self.kernel.push(ContextItem.user("And be quick."))
        return ModelResponse.of_text("Yes.")


def test_a_request_that_is_not_out_is_not_shown_as_if_it_were(shell, here):
    model = Interrupting()
    with Kernel.open(shell.log, provider=model) as kernel:
        model.kernel = kernel
        kernel.push(ContextItem.user("Do it."))
        anyio.run(kernel.turn)
        (asked,) = (one for one in kernel.history() if one.name == "model.requested")
    sent = here("show", f"s.jsonl@{asked.position}")
    assert (
        f"\nthe request that is out\n  1 message, 0 tools, digest {asked['digest']}\n" in sent.out
    )
    later = here("show", f"s.jsonl@{asked.position + 1}").out
    head, _, request = later.partition("the request that these items would make; ")
    assert "the request that is out" not in head
    assert request.startswith(f"another one is out:\n  digest {asked['digest']}, of the items #1\n")
    assert "  2 messages, 0 tools, digest " in request
    assert asked["digest"] not in request.partition("2 messages")[2]
    told = [here("show", f"s.jsonl@{asked.position + n}", "--json").lines()[0] for n in range(3)]
    out = {"effect": asked["effect"], "digest": asked["digest"], "items": [1]}
    assert told[0]["out"] == {**out, "is_request": True}
    assert told[1]["out"] == {**out, "is_request": False}
    assert told[2]["out"] is None


def test_a_projector_that_raises_costs_the_request_alone(shell, here):
    (shell.folder / "failing.py").write_text(
        "class Failing:\n    def project(self, items):\n        raise ValueError('no luck')\n"
    )
    projector = importlib.import_module("failing").Failing()
    Kernel.open(shell.log, projector=projector).close()
    ran = here("show", "s.jsonl@1")
    assert (ran.status, ran.err) == (0, "")
    assert "  none: a seam raised ValueError: no luck\n" in ran.out


def test_position_0_is_before_everything(here, log):
    out = here("show", "s.jsonl@0").out
    assert "state    idle; no turn yet\nmodel    none in this process\n" in out
    assert "no items\n" in out
    assert "none: nothing in the context is projected as a message" in out


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s.jsonl@99", "there is no position 99; the last is 14"),
        ("s.jsonl@99999999999999999999", "there is no position 9999"),
        ("s.jsonl@x", "s.jsonl@x: no log: there is no such file"),
        ("s.jsonl@-1", "s.jsonl@-1: no log"),
        ("@3", "no log"),
    ],
)
def test_a_place_that_is_not_there_is_told(here, log, place, said):
    ran = here("show", place)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_a_file_whose_name_holds_an_at_wins(here, log):
    os.rename(log, log.with_name("s.jsonl@7"))
    assert here("show", "s.jsonl@7").out.startswith(TIMELINE)
    assert here("show", "s.jsonl@7@7").out.startswith("position 7 of session s")


@pytest.mark.parametrize("text", ["a@b", "a", "a@", "a@\u0663"])
def test_what_is_no_position_belongs_to_the_name(text):
    assert place_of(text) == (text, None)


# -- reading only ------------------------------------------------------------------------------


def test_nothing_is_locked_and_nothing_written(shell, here):
    kernel = make_log(shell.log, close=False)
    before = folder_of(shell.log)
    for words in (["show", "s.jsonl"], ["show", "s.jsonl@5"], ["check", "s.jsonl"]):
        assert here(*words).status == 0
    assert here("replay", "s.jsonl").status == 0
    assert folder_of(shell.log) == before
    kernel.close()


def test_a_torn_end_is_told_and_left(here, log):
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"chain":"00')
    ran = here("show", "s.jsonl")
    assert ran.status == 0
    assert "12 bytes at the end belong to no whole commit" in ran.err
    assert log.read_bytes() == whole + b'{"chain":"00'


def test_what_is_whole_before_the_damage_is_shown(here, log):
    lines = log.read_bytes().splitlines(keepends=True)
    lines[8] = lines[8].replace(b"assistant", b"assistent", 1)
    log.write_bytes(b"".join(lines))
    ran = here("show", "s.jsonl")
    assert ran.status == 2
    assert "s.jsonl, line 9: damaged" in ran.err
    assert ran.out.splitlines()[-1].lstrip().startswith("model.requested")


def test_a_reader_that_goes_away_is_no_error(shell, log):
    process = shell.start("show", "s.jsonl", "--json")
    process.stdout.close()
    process.stdout = None
    ran = finish(process)
    assert (ran.status, ran.err) == (0, "")


def test_a_log_that_grows_is_followed_until_ctrl_c(shell):
    kernel = make_log(shell.log, close=False)
    process = shell.start("show", "s.jsonl", "--json", "--follow")
    try:
        for record in kernel.history():
            assert json.loads(process.stdout.readline()) == record.to_dict()
        last = kernel.last_seq()
        kernel.set_params({"temperature": 0})
        (record,) = kernel.history_since(last)
        assert json.loads(process.stdout.readline()) == record.to_dict()
    finally:
        kernel.close()
        interrupt(process)
        ran = finish(process)
    assert (ran.status, ran.out, ran.err) == (130, "", "\n")


def test_a_place_cannot_be_followed(here, log):
    ran = here("show", "s.jsonl@3", "--follow")
    assert (ran.status, "leave out @POSITION" in ran.err) == (2, True)
