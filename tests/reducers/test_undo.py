"""Undo points: what one undo takes back, whoever edited in between (kernel.md 4.6, rulings R7)."""

import pytest
from msgspec.structs import replace

from reducers.machines.context import present
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Text
from reducers.vocabulary.errors import UnknownItem
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.tools import ToolOutput
from tests.reducers.driving import CODE, Core, call, started, told


def texts(core: Core) -> list[str]:
    return [item.content.text for item in present(core.state.context)]


def undone(core: Core) -> list[str]:
    return [told(event) for event in core.feed(i.Undo()).events]


def redone(core: Core) -> list[str]:
    return [told(event) for event in core.feed(i.Redo()).events]


def running(*calls: str, **config) -> Core:
    core = started(**config)
    core.push("go")
    core.feed(i.RunStep())
    core.ask(*calls)
    core.feed(i.RunStep())
    return core


# -- edits -------------------------------------------------------------------------------------


@pytest.mark.accepts(335, 342, 347, 348)
def test_whatever_one_call_did_is_taken_back_by_one_undo():
    core = started()
    core.push("a", "b", "c")
    core.feed(i.SetState((1, 2, 1, 99), "excluded", "not now"))
    core.feed(i.ReplaceContent(3, Text("C")))
    core.feed(i.SupersedeItem(3, ContextItem.user("d")))
    assert [undone(core) for _ in range(5)] == [
        ["context.undone [4] [3]"],
        ["context.undone [] [3]"],
        ["context.undone [] [1, 2]"],
        ["context.undone [1, 2, 3] []"],
        [],
    ]
    assert [redone(core) for _ in range(5)] == [
        ["context.redone [1, 2, 3] []"],
        ["context.redone [] [1, 2]"],
        ["context.redone [] [3]"],
        ["context.redone [4] [3]"],
        [],
    ]
    assert texts(core) == ["a", "b", "C", "d"]
    assert core.state.context.items[0].note == "not now"


@pytest.mark.accepts(337)
def test_what_changes_nothing_leaves_no_point():
    core = started()
    core.push("a")
    for input in (
        i.PushItems(()),
        i.SetState((1,), "active"),
        i.SetState((7,), "excluded"),
        i.SetState((), "excluded"),
        i.ReplaceContent(1, Text("a")),
        i.AnnotateItem(1, Json("")),
    ):
        assert core.feed(input).events == (), input
    for input in (i.ReplaceContent(7, Text("x")), i.AnnotateItem(7, Json("1"))):
        with pytest.raises(UnknownItem, match="7"):
            core.feed(input)
    with pytest.raises(UnknownItem):
        core.feed(i.SupersedeItem(7, ContextItem.user("x")))
    assert undone(core) == ["context.undone [1] []"]


@pytest.mark.accepts(318)
def test_a_note_alone_is_a_change_and_an_item_arrives_active():
    core = started()
    step = core.feed(i.PushItems((ContextItem.user("a").with_state("archived", "old"),)))
    assert [told(event) for event in step.events] == [
        "context.added 1 o",
        "context.changed 1>archived j",
    ]
    assert [told(e) for e in core.feed(i.SetState((1,), "archived")).events] == [
        "context.changed 1>archived o"
    ]
    assert core.state.context.items[0].note is None


@pytest.mark.accepts(345, 355)
def test_metadata_goes_back_with_the_operation_before_it():
    core = started()
    core.push("a")
    core.push("b")
    core.feed(i.AnnotateItem(1, Json('{"n":1}')))
    assert undone(core) == ["context.undone [2] [1]"]
    assert redone(core) == ["context.redone [2] [1]"]
    assert core.state.context.items[0].meta == Json('{"n":1}')
    core.feed(i.Undo())
    core.feed(i.AnnotateItem(1, Json('{"n":2}')))
    assert redone(core) == [], "a real change of metadata discards what could be redone"
    assert core.state.context.items[0].meta == Json('{"n":2}')


def test_an_undone_number_stays_taken():
    core = started()
    core.push("a", "b")
    core.feed(i.Undo())
    core.push("c")
    assert [item.id for item in present(core.state.context)] == [3]
    assert core.state.context.items[0] is None
    assert redone(core) == [], "a new operation discards what could be redone"
    assert texts(core) == ["c"]


@pytest.mark.accepts(336)
def test_depth():
    core = started(context_undo_depth=2)
    for text in "abc":
        core.push(text)
    assert [bool(undone(core)) for _ in range(3)] == [True, True, False]
    assert texts(core) == ["a"]
    assert [bool(redone(core)) for _ in range(3)] == [True, True, False]
    none = started(context_undo_depth=0)
    none.push("a", "b")
    assert undone(none) == []
    assert none.state.context.undo == ()


def test_a_smaller_depth_at_an_opening_forgets_the_oldest():
    core = started()
    for text in "abc":
        core.push(text)
    config = replace(core.state.session.config, context_undo_depth=1)
    core.feed(i.SessionOpened(config=config))
    assert [bool(undone(core)) for _ in range(2)] == [True, False]
    assert texts(core) == ["a", "b"]


@pytest.mark.accepts(338)
def test_a_recount_makes_no_item_changed():
    core = started()
    core.push("a")
    core.push("b")
    core.feed(i.RecountItems())
    assert undone(core) == ["context.undone [2] []"]


# -- turns and batches -------------------------------------------------------------------------


@pytest.mark.accepts(353)
def test_a_turn_and_the_answers_to_its_unknown_calls_are_one():
    core = started()
    core.push("go")
    core.feed(i.RunStep())
    core.ask(call("c1", "nonsense"), call("c2", "add", "[1]"))
    assert undone(core) == ["context.undone [2, 3, 4] []"]


@pytest.mark.accepts(353)
def test_two_results_of_one_execution_are_one():
    core = running("c1", "c2")
    core.result("c1")
    core.result("c2")
    assert undone(core) == ["context.undone [3, 4] []"]
    assert undone(core) == ["context.undone [2] []"]


@pytest.mark.accepts(359)
def test_what_others_did_in_between_is_folded_into_the_batch():
    core = running("c1", "c2", "c3")
    core.result("c1")
    core.push("memo")
    core.feed(i.SetState((1,), "pinned"))
    core.result("c2")
    core.push("another")
    core.result("c3")
    assert undone(core) == ["context.undone [3, 4, 5, 6, 7] [1]"]
    assert redone(core) == ["context.redone [3, 4, 5, 6, 7] [1]"]
    assert texts(core) == ["go", "", "ok", "memo", "ok", "another", "ok"]


def test_what_others_did_before_the_first_result_is_its_own():
    core = running("c1")
    core.push("memo")
    core.result("c1")
    assert undone(core) == ["context.undone [4] []"]
    assert undone(core) == ["context.undone [3] []"]


def test_a_change_of_a_pushed_item_during_a_batch_joins_the_push():
    core = running("c1", "c2")
    core.result("c1")
    core.feed(i.PushItems((ContextItem.user("memo").with_state("pinned"),)))
    assert [len(point.edits) for point in core.state.context.undo[-2:]] == [1, 2]


def test_a_batch_whose_point_has_fallen_off_cannot_be_undone_in_its_middle():
    core = running("c1", "c2", context_undo_depth=2)
    core.result("c1")
    for text in "abc":
        core.push(text)
    core.result("c2")
    assert core.state.context.undo == ()
    assert undone(core) == []


@pytest.mark.accepts(352)
def test_a_cancellation_is_one():
    for ended in (i.CancelCalls(), i.CancelTurn()):
        core = started()
        core.push("go")
        core.feed(i.RunStep())
        core.ask("c1", "c2", "c3")
        core.feed(ended)
        assert undone(core) == ["context.undone [3, 4, 5] []"]


def test_a_cancellation_of_a_running_batch_joins_it():
    core = running("c1", "c2", "c3")
    core.result("c1")
    core.feed(i.CancelTurn())
    assert undone(core) == ["context.undone [3, 4, 5] []"]


def test_a_cancellation_where_nothing_was_judged_is_one():
    core = started(CODE)
    core.push("go")
    core.feed(i.RunStep())
    core.ask("c1", "c2")
    core.feed(i.CancelTurn())
    assert undone(core) == ["context.undone [3, 4] []"]


def test_calls_left_behind_are_answered_under_one_point():
    core = running("c1", "c2")
    core.feed(i.DriverLeft())
    core.feed(i.RunTurn())
    core.say("well")
    assert undone(core) == ["context.undone [5] []", ">idle"]
    assert undone(core) == ["context.undone [3, 4] []"]


def test_a_result_that_comes_when_its_batch_was_undone_stands_alone():
    """Its batch's point is gone by an undo, not by the depth: nothing else may go with it."""
    core = running("c1", "c2")
    core.result("c1")
    effect = core.effect("c2")
    core.feed(i.DriverLeft())
    assert undone(core) == ["context.undone [3] []"]
    core.feed(i.ToolSettled(effect, ToolOutput(Text("late"))))
    assert texts(core) == ["go", "", "late"]
    assert undone(core) == ["context.undone [4] []"]
    assert undone(core) == ["context.undone [2] []"]
    assert undone(core) == ["context.undone [1] []"]


def test_a_retried_call_of_a_batch_that_was_undone_opens_a_point_of_its_own():
    core = running("c1", "c2")
    core.result("c1")
    core.feed(i.DriverLeft())
    core.feed(i.Undo())
    core.feed(i.RetryOutcome("c2"))
    core.feed(i.RunStep())
    core.result("c2", "again")
    assert [undone(core) for _ in range(3)] == [
        ["context.undone [4] []"],
        ["context.undone [2] []"],
        ["context.undone [1] []"],
    ]


def test_results_after_the_session_was_finished_are_still_one_batch():
    core = running("c1", "c2")
    core.feed(i.FinishSession())
    core.result("c1")
    core.result("c2")
    assert undone(core) == ["context.undone [3, 4] []"]
    assert undone(core) == ["context.undone [2] []"]


# -- calls whose driver left -------------------------------------------------------------------


def test_a_retried_call_is_not_held_up_by_one_that_was_left_running():
    core = running("c1", "c2", parallel_tool_calls=True)
    effect = core.effect("c2")
    core.feed(i.DriverLeft())
    core.feed(i.RetryOutcome("c1"))
    assert [told(event) for event in core.feed(i.RunStep()).events] == [
        ">executing{c1}",
        "tool.started c1 #2",
    ]
    assert [told(event) for event in core.result("c1").events] == [
        "context.added 3 o",
        "tool.finished c1",
        ">idle",
    ]
    step = core.feed(i.ToolSettled(effect, ToolOutput(Text("two"))))
    assert [told(event) for event in step.events] == ["context.added 4 o", "tool.finished c2"]


def test_the_answer_to_an_earlier_start_of_a_retried_call_is_late():
    core = running("c1")
    first = core.effect("c1")
    core.feed(i.DriverLeft())
    core.feed(i.RetryOutcome("c1"))
    core.feed(i.RunStep())
    step = core.feed(i.ToolSettled(first, ToolOutput(Text("from the first start"))))
    assert [told(event) for event in step.events] == ["[tool.late c1]"]
    assert core.feed(i.ToolSettled(first, ToolOutput(Text("again")))).events == ()
    core.result("c1", "from the second")
    assert texts(core)[2] == "from the second"
