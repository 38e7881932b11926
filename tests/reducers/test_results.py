"""Results of calls: cut or whole, labelled, refused in words, and what comes in the wrong shape."""

import pytest
from msgspec.structs import replace

from reducers import wording
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import JsonContent, Text, content_len
from reducers.vocabulary.errors import (
    AlreadyResolved,
    Busy,
    InvalidInput,
    UnknownCall,
    UnknownPermission,
)
from reducers.vocabulary.events import StepFailed, ToolFinished
from reducers.vocabulary.items import ContextItem, ToolResult
from reducers.vocabulary.json import Json
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolOutput, ToolSpec
from tests.reducers.driving import ADD, ALLOW_ALL, CODE, NOTE, Core, call, started, told

ASK = PolicyInfo("Rules", ())
LONG = Text("0123456789" * 30)


def asked(*calls, policy=ALLOW_ALL, tools=(ADD, NOTE), **config) -> Core:
    core = started(policy, tools=tools, **config)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask(*calls)
    return core


def result(core: Core, n: int = -1) -> ContextItem:
    found = [one for one in core.state.context.items if isinstance(one.kind, ToolResult)]
    return found[n]


# -- output limits (kernel.md 2.9) -------------------------------------------------------------


def finished(step) -> ToolFinished:
    return next(event for event in step.events if isinstance(event, ToolFinished))


@pytest.mark.accepts(416, 417, 419, 423)
def test_an_output_over_its_limit_is_cut_and_the_whole_is_kept_aside():
    core = asked("c1", default_tool_output_limit=100)
    step = core.feed(i.ToolSettled(core.effect("c1"), ToolOutput(LONG)))
    assert [told(event) for event in step.events[:4]] == [
        "context.added 3 o",
        "context.changed 3>archived j",
        "context.added 4 j",
        "tool.finished c1",
    ]
    whole, copy = core.state.context.items[2], core.state.context.items[3]
    assert (whole.content, whole.state) == (LONG, "archived")
    assert (whole.note, whole.included_because) == (wording.WHOLE_NOTE, wording.WHOLE_KEPT)
    assert (copy.state, copy.note, copy.label) == ("active", None, whole.label)
    assert content_len(copy.content) == 100
    end = finished(step)
    assert (end.item, end.whole, end.tokens) == (4, 3, copy.tokens)
    assert copy.content.text.startswith("0123456789")
    assert f"[{end.truncated} bytes cut" in copy.content.text
    assert str(end.truncated) in copy.included_because
    assert "item 3" in copy.included_because
    sent = core.reducer.draw(core.state).projection
    assert list(sent.included) == [1, 2, 4]
    assert list(sent.repairs) == []


@pytest.mark.accepts(422)
def test_the_whole_need_not_be_kept():
    core = asked("c1", default_tool_output_limit=100, keep_truncated_output=False)
    step = core.feed(i.ToolSettled(core.effect("c1"), ToolOutput(LONG)))
    assert told(step.events[1]) == "tool.finished c1"
    assert (finished(step).whole, finished(step).item) == (None, 3)
    assert len(core.state.context.items) == 3
    assert str(finished(step).truncated) in result(core).included_because
    assert "item" not in result(core).included_because


@pytest.mark.accepts(419)
def test_at_its_limit_nothing_is_cut():
    core = asked("c1", default_tool_output_limit=300)
    step = core.feed(i.ToolSettled(core.effect("c1"), ToolOutput(LONG)))
    assert finished(step).truncated is None
    assert result(core).content == LONG
    assert result(core).included_because is None


@pytest.mark.accepts(423, 430)
@pytest.mark.parametrize(
    ("own", "given", "limit"),
    [(None, None, 200), (150, None, 150), (150, 120, 120), (0, None, 0), (None, 0, 0)],
)
def test_the_calls_own_limit_wins_over_the_tools_over_the_sessions(own, given, limit):
    tool = replace(ADD, output_limit=own, judged=True)
    core = asked("c1", tools=[tool], default_tool_output_limit=200)
    core.feed(i.CallJudged(core.effect("c1"), "allow", limit=given))
    core.feed(i.ToolSettled(core.effect("c1"), ToolOutput(LONG)))
    assert content_len(result(core).content) <= limit
    assert content_len(result(core).content) > limit - 40


def test_the_limit_holds_for_errors_and_refusals_but_not_for_the_kernels_own_words():
    refused = asked(call("c1", "note"), policy=ASK, default_tool_output_limit=30)
    refused.feed(i.DecidePermission(1, "deny"))
    refused.feed(i.RunStep())
    assert content_len(result(refused).content) <= 30
    cancelled = asked("c1", policy=ASK, default_tool_output_limit=5)
    cancelled.feed(i.CancelCalls("not now"))
    assert "not now" in result(cancelled).content.text
    unknown = asked(call("c1", "nonsense"), default_tool_output_limit=5)
    assert "nonsense" in result(unknown).content.text


def test_an_output_that_waited_and_is_cut_stands_whole_in_its_answer():
    core = asked("c1", "c2", parallel_tool_calls=True, default_tool_output_limit=100)
    core.feed(i.ToolSettled(core.effect("c2"), ToolOutput(LONG)))
    core.result("c1")
    whole, copy = core.state.context.items[3], core.state.context.items[4]
    assert whole.content == LONG
    assert content_len(copy.content) <= 100


@pytest.mark.accepts(237)
def test_a_structured_result_stays_structured():
    core = asked("c1")
    content = JsonContent(Json('{"sum":3}'))
    core.feed(i.ToolSettled(core.effect("c1"), ToolOutput(content)))
    assert result(core).content is content
    assert core.reducer.draw(core.state).request.messages[2].content is content


# -- labels ------------------------------------------------------------------------------------


@pytest.mark.accepts(428)
@pytest.mark.parametrize(
    ("declared", "needed", "label"),
    [
        (("fs:read", "fs:write"), ("fs:write",), "files:write"),
        (("fs:read", "fs:write"), ("fs:read", "fs:write"), "files"),
        (("fs:read", "fs:write"), None, "files"),
        (("fs:write",), ("fs:write",), "files"),
        ((), (), "files"),
    ],
)
def test_a_label_says_what_was_needed_of_a_tool_that_can_do_several_things(declared, needed, label):
    tool = ToolSpec("files", "Files.", capabilities=declared, judged=True)
    core = asked(call("c1", "files"), tools=[tool])
    core.feed(i.CallJudged(core.effect("c1"), "allow", capabilities=needed))
    core.feed(i.PartsDescribed(tools=()))
    core.result("c1")
    assert result(core).label == label


# -- words (kernel.md 2.10) --------------------------------------------------------------------


@pytest.mark.accepts(382)
def test_a_refusal_by_a_rule_is_a_standing_one():
    core = asked("c1", policy=PolicyInfo("Rules", (Rule(deny="add"),)))
    text = result(core).content.text
    assert text.startswith("Not permitted")
    assert 'deny "add"' in text
    assert "standing rule" in text
    assert "refused again" in text


@pytest.mark.accepts(381)
def test_a_refusal_by_code_says_why():
    core = asked("c1", policy=CODE)
    core.feed(i.CallJudged(core.effect("c1"), "deny", "it is Sunday."))
    assert "it is Sunday. " in result(core).content.text
    core = asked("c1", policy=CODE)
    core.feed(i.CallJudged(core.effect("c1"), "deny"))
    assert "the policy refuses it" in result(core).content.text


@pytest.mark.accepts(383)
def test_a_refusal_by_a_person_answers_one_call():
    core = asked("c1", policy=ASK)
    core.feed(i.DecidePermission(1, "deny", reason="not in this folder."))
    core.feed(i.RunStep())
    text = result(core).content.text
    assert "not in this folder." in text
    assert "not a standing rule" in text
    assert result(core).kind.is_error


def test_a_refusal_because_nobody_could_be_asked_is_not_a_person_s():
    core = asked("c1", policy=ASK)
    core.feed(i.DecidePermission(1, "deny", reason="nobody is there", by_rule=True))
    core.feed(i.RunStep())
    text = result(core).content.text
    assert "nobody is there" in text
    assert "when the user was asked" not in text
    assert core.state.calls.batch[0].source == "policy"


@pytest.mark.accepts(427)
def test_an_unknown_tool_is_told_the_known_ones():
    core = asked(call("c1", "frobnicate"))
    text = result(core).content.text
    assert "frobnicate" in text
    assert "add, note" in text
    assert "no tools" in wording.unknown_tool("x", ())


@pytest.mark.accepts(385)
@pytest.mark.parametrize(
    "text",
    [
        wording.refused_by_rule(""),
        wording.refused_by_rule("no."),
        wording.refused_by_person(""),
        wording.refused_by_person("no."),
        wording.cancelled(""),
        wording.cancelled(" later. "),
        wording.cancelled_running("later"),
        wording.interrupted(),
        wording.unknown_tool("x", (ADD,)),
        wording.unknown_tool("x", ()),
        wording.not_arguments("it is a list"),
        wording.crashed("boom."),
        wording.outcome_unknown(),
        wording.was_not_run(),
    ],
)
def test_words_are_sentences(text):
    assert text[0].isupper()
    assert text.endswith(".")
    assert ".." not in text
    assert "  " not in text
    assert " ." not in text
    for jargon in ("kernel", "event", "reducer", "None"):
        assert jargon not in text


# -- arguments (R17) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args", ["[1,2]", '"text"', "null", "3", '{"x":1}{"y":2}', '{"x":1,"x":2}', '{"x":1', "", "NaN"]
)
def test_json_05_a_call_without_one_object_is_answered_and_never_started(args):
    core = asked(call("c1", "add", args), policy=ASK)
    assert result(core).kind == ToolResult("c1", "add", is_error=True)
    assert "not one JSON object" in result(core).content.text
    assert core.state.questions.next_id == 1, "nobody was asked"
    assert not any("tool.started" in line for line in core.told())
    turn = core.state.context.items[1]
    assert turn.calls()[0].args == args, "the text is kept as it came"
    assert core.state.requests.in_flight, "and the turn goes on"


def test_json_03_digits_reach_the_tool_as_they_came():
    args = '{"id":2512292042121000001,"n":-9007199254740993,"e":1.50}'
    core = asked(call("c1", "add", args))
    assert core.state.calls.batch[0].args == args
    refused = asked(call("c1", "add", '{"e":1e400}'))
    assert "out of range" in result(refused).content.text


def test_mended_characters_are_told():
    core = asked("c1")
    core.feed(i.ToolSettled(core.effect("c1"), ToolOutput(Text("a\ufffd")), mended=1))
    assert "1 character(s)" in result(core).included_because
    core = started()
    item = ContextItem.user("a\ufffd").because("it was asked for")
    core.feed(i.PushItems((item,), mended=2))
    because = core.state.context.items[-1].included_because
    assert because.startswith("it was asked for; 2 character(s)")
    core.feed(i.ReplaceContent(len(core.state.context.items), Text("b\ufffd"), mended=1))
    because = core.state.context.items[-1].included_because
    assert because.endswith("; 1 character(s) were no valid text and were replaced")
    core.feed(i.Undo())
    assert "1 character(s)" not in core.state.context.items[-1].included_because


def test_a_late_answer_keeps_how_it_came_about():
    core = asked("c1")
    effect = core.effect("c1")
    core.feed(i.CancelTurn())
    late = i.ToolSettled(effect, ToolOutput(Text("no"), True), crashed=True, mended=1)
    (event,) = core.feed(late).events
    assert (event.crashed, event.mended, event.output) == (True, 1, late.output)


@pytest.mark.accepts(318)
@pytest.mark.parametrize("state", ["active", "pinned"])
def test_the_note_of_an_item_arrives_with_it(state):
    core = started()
    core.feed(i.PushItems((ContextItem.user("a").with_state(state, "it was asked for"),)))
    assert core.state.context.items[-1].note == "it was asked for"


# -- answers that cannot be --------------------------------------------------------------------


def test_people_answer_a_question_once_and_are_told_how_it_ended():
    core = asked("c1", "c2", policy=ASK)
    digest = core.state.questions.open[0].args
    with pytest.raises(UnknownPermission, match="other arguments"):
        core.feed(i.DecidePermission(1, "allow", args="0" * 32))
    core.feed(i.DecidePermission(1, "allow", args=digest))
    with pytest.raises(AlreadyResolved, match="granted"):
        core.feed(i.DecidePermission(1, "deny"))
    core.feed(i.DecidePermission(2, "deny"))
    with pytest.raises(AlreadyResolved, match="denied"):
        core.feed(i.DecidePermission(2, "allow"))
    with pytest.raises(UnknownPermission, match=r"9$") as refusal:
        core.feed(i.DecidePermission(9, "allow"))
    assert type(refusal.value) is UnknownPermission


def test_a_question_of_another_kind_says_what_to_call():
    core = asked("c1")
    core.reopen()
    with pytest.raises(UnknownPermission, match="retry, settle or fail"):
        core.feed(i.DecidePermission(2, "allow"))


def test_no_order_runs_a_call_that_cannot_be_run():
    core = asked("c1", call("c2", "nonsense"), call("c3", "add", "[1]"), call("c4"), policy=CODE)
    core.feed(i.DriverLeft())
    for name, why in (("c2", "no tool 'nonsense'"), ("c3", "a list")):
        with pytest.raises(InvalidInput, match=why):
            core.feed(i.RetryOutcome(name))
    core.feed(i.RetryOutcome("c4"))
    assert [told(event) for event in core.commits[-1].events] == [
        "[tool.retried c4]",
        "permission.decided 2 c4 allow/user",
        ">ready{c4}",
    ]
    refused = asked("c1", "c2", policy=ASK)
    refused.feed(i.DecidePermission(1, "allow"))
    refused.feed(i.DecidePermission(2, "deny"))
    refused.feed(i.RunStep())
    refused.feed(i.DriverLeft())
    with pytest.raises(InvalidInput, match="refused"):
        refused.feed(i.RetryOutcome("c2"))


def test_a_call_nobody_waits_for_is_known_by_its_name():
    core = asked("c1")
    core.result("c1")
    for name, error in (("c1", AlreadyResolved), ("nobody", UnknownCall)):
        with pytest.raises(error, match=name):
            core.feed(i.SettleOutcome(name, ToolOutput(Text("x"))))
    waiting = asked("c1", policy=ASK)
    with pytest.raises(UnknownCall, match="permission"):
        waiting.feed(i.RetryOutcome("c1"))
    waiting.feed(i.DecidePermission(1, "allow"))
    with pytest.raises(UnknownCall, match="has not run"):
        waiting.feed(i.RetryOutcome("c1"))
    waiting.feed(i.RunStep())
    with pytest.raises(Busy):
        waiting.feed(i.RetryOutcome("c1"))


def test_a_failed_step_says_what_the_seam_said():
    core = asked("c1", policy=CODE)
    step = core.feed(i.CallJudged(core.effect("c1"), failure="no such rule"))
    failed = next(event for event in step.events if isinstance(event, StepFailed))
    assert failed.error == "no such rule"
    assert str(step.raised) == "no such rule"
