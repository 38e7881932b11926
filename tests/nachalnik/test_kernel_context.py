"""Edits of the context: their events, what one undo takes back, what is refused."""

import anyio
import pytest

from nachalnik import Blob, Config, ContextItem, Kernel, Text, ToolCall
from nachalnik.reports import StateChange
from reducers.vocabulary.content import JsonContent
from reducers.vocabulary.errors import Busy, InvalidInput, UnknownItem
from reducers.vocabulary.json import NotJson
from reducers.vocabulary.phases import Finished, Idle
from tests.effects.shell import Gate, Tool, calls, kernel, named, names, said, sound


@pytest.fixture
def k():
    made = Kernel(Config(session_name="demo"))
    made.push_all([ContextItem.user("one"), ContextItem.user("two")])
    return made


def since(k, before):
    return names(k, since=before, all=False)


# -- adding ------------------------------------------------------------------------------------


@pytest.mark.accepts(303)
def test_push_gives_the_id_and_opens_an_undo_point(k):
    before = k.position
    assert k.push(ContextItem.file("a.py", "x = 1").pinned()) == 3
    assert since(k, before) == ["context.added", "context.changed"]
    assert (k.item(3).state, k.item(3).label) == ("pinned", "a.py")
    assert k.undo()
    assert [item.id for item in k.items()] == [1, 2]
    assert k.push(ContextItem.user("three")) == 4
    sound(k)


@pytest.mark.accepts(351)
def test_push_all_is_one_operation(k):
    before = k.position
    assert k.push_all(ContextItem.user(text) for text in "abc") == [3, 4, 5]
    assert k.position == before + 1
    assert k.undo()
    assert len(k.items()) == 2
    assert k.push_all([]) == []
    assert k.position == before + 2


def test_what_is_no_item_is_refused_before_anything_happens(k):
    before = k.position
    for wrong in ("text", None, Text("x"), {"kind": "user"}):
        with pytest.raises(InvalidInput, match="not a context item"):
            k.push(wrong)
    with pytest.raises(InvalidInput):
        k.push_all([ContextItem.user("x"), "text"])
    with pytest.raises(InvalidInput):
        k.supersede(1, "text")
    assert k.position == before


@pytest.mark.accepts(229, 266)
def test_every_kind_of_content_can_be_pushed(k):
    assert k.budget().fully_counted()
    for content, kind in (
        ("text", Text),
        ({"a": [1, None, 2.5]}, JsonContent),
        (Blob("image/png", "aGk="), Blob),
    ):
        assert type(k.item(k.push(ContextItem.user(content))).content) is kind
    assert k.budget().uncounted == 1
    assert (k.items()[-1].tokens, k.items()[-1].uncounted) == (0, 1)
    assert not k.budget().fully_counted()
    with pytest.raises(NotJson):
        ContextItem.user(float("nan"))
    sound(k)


# -- changing ----------------------------------------------------------------------------------


@pytest.mark.accepts(346)
def test_set_state_reports_each_id_once(k):
    k.set_state(2, "excluded")
    before = k.position
    found = k.set_state([1, 2, 1, 9], "excluded", None)
    assert found == StateChange((1,), (2,), (9,))
    assert (len(found), found.is_empty()) == (1, False)
    assert since(k, before) == ["context.changed"]
    assert k.undo()
    assert k.item(1).state == "active"
    sound(k)


@pytest.mark.accepts(312, 313, 346)
def test_a_new_note_is_a_change_and_no_change_is_silence(k):
    before = k.position
    assert k.set_state(1, "active").is_empty()
    assert k.set_state([], "excluded") == StateChange()
    assert k.set_state(9, "excluded") == StateChange(unknown=(9,))
    assert k.position == before
    assert k.set_state(1, "active", "why").changed == (1,)
    assert k.item(1).note == "why"
    assert k.set_state(1, "pinned").changed == (1,)
    assert k.item(1).note is None
    assert [one["from"] for one in named(k, "context.changed")] == ["active", "active"]


def test_a_state_nobody_knows_is_refused(k):
    with pytest.raises(InvalidInput, match=r"frozen.*active, pinned"):
        k.set_state(1, "frozen")


def test_exclude(k):
    assert k.exclude(1, 2, note="not now").changed == (1, 2)
    assert [(item.state, item.note) for item in k.items()] == [("excluded", "not now")] * 2
    assert k.undo()
    assert [item.state for item in k.items()] == ["active", "active"]


@pytest.mark.accepts(315, 316)
def test_supersede(k):
    before = k.position
    assert k.supersede(1, ContextItem.user("better")) == 3
    assert since(k, before) == ["context.added", "context.changed"]
    assert k.item(1).state == "superseded"
    assert "3" in k.item(1).note
    assert k.item(1).content == Text("one")
    assert [one.content for one in k.project().messages] == [Text("two"), Text("better")]
    assert k.undo()
    assert [(item.id, item.state) for item in k.items()] == [(1, "active"), (2, "active")]
    before = k.position
    with pytest.raises(UnknownItem, match="9"):
        k.supersede(9, ContextItem.user("x"))
    assert (k.position, k.next_id()) == (before, 4)
    sound(k)


@pytest.mark.accepts(308, 356)
def test_replace_counts_anew_and_tells_what_was(k):
    tokens = k.item(1).tokens
    k.replace(1, "a much longer text than the one before it")
    assert k.item(1).content == Text("a much longer text than the one before it")
    (replaced,) = named(k, "context.replaced")
    assert (replaced["was"], replaced["tokens_before"]) == ({"text": "one"}, tokens)
    assert replaced["tokens_after"] == k.item(1).tokens > tokens
    before = k.position
    k.replace(1, "a much longer text than the one before it")
    assert k.position == before
    with pytest.raises(UnknownItem, match="9"):
        k.replace(9, "x")
    assert k.undo()
    assert (k.item(1).content, k.item(1).tokens) == (Text("one"), tokens)
    sound(k)


@pytest.mark.accepts(317)
def test_annotate_takes_no_undo_point_but_the_redo(k):
    k.push(ContextItem.user("x"))
    k.undo()
    assert k.redo_len() == 1
    points = k.undo_len()
    k.annotate(1, {"a": 1})
    assert (k.undo_len(), k.redo_len()) == (points, 0)
    (annotated,) = named(k, "context.annotated")
    assert (annotated["meta"], annotated["was"]) == ({"a": 1}, None)
    before = k.position
    k.annotate(1, {"a": 1})
    assert k.position == before
    k.annotate(1, None)
    assert named(k, "context.annotated")[-1]["was"] == {"a": 1}
    with pytest.raises(UnknownItem, match="9"):
        k.annotate(9, 1)
    with pytest.raises(InvalidInput):
        k.annotate(1, object())
    sound(k)


def test_a_recount_is_always_announced(k):
    before = k.position
    k.recount()
    assert since(k, before) == ["context.recounted"]
    recounted = named(k, "context.recounted")[-1]
    assert recounted["tokens_before"] == recounted["tokens_after"] == k.tokens()


# -- undo and redo -----------------------------------------------------------------------------


@pytest.mark.accepts(343, 344)
def test_undo_and_redo_are_inverse_and_silent_at_the_end(k):
    k.push(ContextItem.user("three"))
    k.set_state(1, "excluded")
    items = k.items()
    assert (k.undo(), k.undo(), k.undo(), k.undo()) == (True, True, True, False)
    assert (k.items(), k.undo_len(), k.redo_len()) == ([], 0, 3)
    before = k.position
    assert not k.undo()
    assert k.position == before
    assert (k.redo(), k.redo(), k.redo(), k.redo()) == (True, True, True, False)
    assert k.items() == items
    undone = named(k, "context.undone")
    assert [one["removed"] for one in undone] == [[], [3], [1, 2]]
    assert [one["changed"] for one in undone] == [[1], [], []]
    sound(k)


@pytest.mark.accepts(350)
def test_a_new_operation_drops_the_redo(k):
    k.undo()
    assert k.redo_len() == 1
    k.push(ContextItem.user("x"))
    assert k.redo_len() == 0
    assert not k.redo()


@pytest.mark.accepts(336)
def test_the_depth_of_undo():
    k = Kernel(Config(session_name="demo", context_undo_depth=2))
    for text in "abcd":
        k.push(ContextItem.user(text))
    assert (k.undo(), k.undo(), k.undo()) == (True, True, False)
    assert [item.content for item in k.items()] == [Text("a"), Text("b")]
    off = Kernel(Config(session_name="demo", context_undo_depth=0))
    off.push(ContextItem.user("a"))
    assert not off.undo()
    sound(k)


@pytest.mark.accepts(357)
@pytest.mark.anyio
async def test_undo_is_busy_while_a_batch_is_in_hand():
    gate = Gate()
    k = kernel(calls("a"), said("x"), tools=[Tool("a", gate)], policy=None)
    await k.turn()
    for edit in (k.undo, k.redo):
        with pytest.raises(Busy, match="busy"):
            edit()
    k.decide(1, "allow")
    with pytest.raises(Busy):
        k.undo()
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        with pytest.raises(Busy):
            k.undo()
        gate.opened.set()
    assert k.undo()
    sound(k)


@pytest.mark.accepts(360)
@pytest.mark.anyio
async def test_undoing_the_answer_of_a_finished_turn_makes_it_idle():
    k = kernel(said("x"))
    assert await k.turn() == Finished(2, "end_turn")
    before = k.position
    assert k.undo()
    assert k.state() == Idle()
    assert since(k, before) == ["context.undone", "state.changed"]
    assert k.redo()
    assert k.state() == Idle()
    sound(k)


@pytest.mark.accepts(359)
@pytest.mark.anyio
async def test_one_undo_takes_a_batch_and_what_came_between():
    async def editing(call, sink):
        k.push(ContextItem.memory("note", "from inside"))
        return "done"

    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a"), Tool("b", editing)])
    await k.turn()
    assert k.undo()
    assert k.undo()
    assert [item.kind.__class__.__name__ for item in k.items()] == [
        "UserMessage",
        "AssistantMessage",
    ]
    sound(k)


# -- figures -----------------------------------------------------------------------------------


def test_tokens_and_what_is_withheld(k):
    k.push(ContextItem.user("x" * 400))
    before = k.tokens()
    k.set_state(3, "elided", "too long")
    assert (k.tokens(), k.tokens_withheld()) == (before - 100, 100)
    k.set_state(3, "excluded")
    assert k.tokens_withheld() == 100


def test_an_assistant_item_with_calls_can_be_pushed_with_its_result(k):
    k.push(ContextItem.assistant("", (ToolCall("c1", "a", "{}"),)))
    k.push(ContextItem.tool_result("c1", "a", "done"))
    roles = [message.role for message in k.preview_request().messages]
    assert roles == ["user", "user", "assistant", "tool"]
    k.set_state(4, "excluded")
    projection = k.project()
    assert [message.role for message in projection.messages] == ["user", "user"]
    assert projection.repairs
    sound(k)
