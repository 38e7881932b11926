"""What items become as messages, rule by rule (kernel.md 4.8)."""

import pytest
from msgspec.structs import replace

from reducers.linear import LinearProjector, pairing_problem
from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    JsonContent,
    ReasoningBlock,
    Text,
    TextBlock,
    ToolCall,
)
from reducers.vocabulary.events import Skipped
from reducers.vocabulary.items import AssistantMessage, ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.messages import Message

BLOB = Blob("image/png", "aGVsbG8=")
SIGNED = Json('{"signature":"c2ln"}')


def call(id: str, tool: str = "add") -> ToolCall:
    return ToolCall(id, tool, Json("{}"))


def asks(*ids: str, text: str = "") -> ContextItem:
    return ContextItem.assistant(text, tuple(call(id) for id in ids))


def answers(id: str, text: str = "ok") -> ContextItem:
    return ContextItem.tool_result(id, "add", text)


def project(*items: ContextItem, **options):
    numbered = [replace(item, id=n) for n, item in enumerate(items, start=1)]
    return LinearProjector(**options).project(numbered)


def said(projection) -> list[str]:
    """Each message as its role and text, or its calls."""
    lines = []
    for message in projection.messages:
        text = getattr(message.content, "text", "" if message.content is None else "?")
        calls = ",".join(one.id for one in message.calls())
        lines.append(f"{message.role}: {text}{f' [{calls}]' if calls else ''}")
    return lines


# -- one item ----------------------------------------------------------------------------------


@pytest.mark.accepts(34, 323, 324)
def test_each_kind_becomes_a_message_of_its_role():
    projection = project(
        ContextItem.system("be brief"),
        ContextItem.user(""),
        ContextItem.file("a.rs", "fn a() {}"),
        asks("c1", text="adding"),
        answers("c1", "3"),
    )
    assert said(projection) == [
        "system: be brief",
        "user: ",
        "user: a.rs:\nfn a() {}",
        "assistant: adding [c1]",
        "tool: 3",
    ]
    assert list(projection.included) == [1, 2, 3, 4, 5]
    assert (projection.skipped, projection.repairs, projection.reordered) == ((), (), ())


def test_only_text_references_are_labelled_and_only_if_asked():
    items = (
        ContextItem.file("a.json", {"x": 1}),
        ContextItem.file("a.png", BLOB),
        ContextItem.file("a.rs", "x").with_state("elided"),
    )
    contents = [message.content for message in project(*items).messages]
    assert contents == [
        JsonContent(Json('{"x":1}')),
        BLOB,
        Text("a.rs:\n[... elided by nachalnik ...]"),
    ]
    assert said(project(ContextItem.file("a.rs", "x"), label_references=False)) == ["user: x"]


@pytest.mark.accepts(325)
@pytest.mark.parametrize("state", ["excluded", "archived", "superseded"])
def test_what_is_out_is_skipped_with_its_state_and_note(state):
    projection = project(
        ContextItem.user("a").with_state(state), ContextItem.user("b").with_state(state, "too long")
    )
    assert projection.messages == ()
    assert projection.skipped == (Skipped(1, state), Skipped(2, f"{state}: too long"))


@pytest.mark.parametrize("state", ["active", "pinned"])
def test_the_content_is_shared_not_copied(state):
    item = ContextItem.user("a").with_state(state)
    assert project(item).messages[0].content is item.content


@pytest.mark.accepts(298)
def test_an_elided_item_keeps_its_place_as_a_marker():
    projection = project(
        ContextItem.user("long").with_state("elided", "read before"),
        asks("c1").with_state("elided"),
        answers("c1", "long").with_state("elided"),
        elision="gone",
    )
    assert said(projection) == [
        "user: [... read before ...]",
        "assistant: [... gone ...] [c1]",
        "tool: [... gone ...]",
    ]


def test_an_error_is_told_to_the_model():
    projection = project(asks("c1"), ContextItem.tool_result("c1", "add", "no", is_error=True))
    assert projection.messages[1].is_error
    assert (projection.messages[1].tool_call_id, projection.messages[1].name) == ("c1", "add")


# -- pairs -------------------------------------------------------------------------------------


def test_a_call_without_a_result_is_left_out_with_a_repair():
    projection = project(ContextItem.user("go"), asks("c1", "c2", text="adding"), answers("c2"))
    assert said(projection) == ["user: go", "assistant: adding [c2]", "tool: ok"]
    (repair,) = projection.repairs
    assert '"c1"' in repair
    assert "add" in repair
    assert "item 2" in repair


def test_a_turn_with_nothing_left_is_skipped():
    thinking = ContextItem.assistant("", (call("c1"),)).with_reasoning("hm")
    projection = project(asks("c1"), thinking)
    assert projection.messages == ()
    plain, thoughtful = (one.reason for one in projection.skipped)
    assert "no content and no answered calls" in plain
    assert "reasoning goes with it" in thoughtful


@pytest.mark.accepts(291, 334)
def test_a_result_without_its_call_is_left_out():
    projection = project(answers("c1"), asks("c2"), answers("c2"), answers("c2", "again"))
    assert said(projection) == ["assistant:  [c2]", "tool: ok"]
    assert projection.skipped == (
        Skipped(1, "an orphaned tool result"),
        Skipped(4, "a second result for one call"),
    )
    orphan, second = projection.repairs
    assert "not in the projection" in orphan
    assert "already has a result" in second
    assert "not in the projection" not in second


def test_a_result_whose_call_is_out_is_an_orphan_until_it_returns():
    turn = asks("c1")
    out = project(turn.with_state("excluded"), answers("c1"))
    assert out.messages == ()
    assert [one.reason for one in out.skipped] == ["excluded", "an orphaned tool result"]
    assert len(project(turn, answers("c1")).messages) == 2


@pytest.mark.accepts(332)
def test_two_turns_that_share_an_id_keep_their_own_results():
    projection = project(asks("c"), answers("c", "one"), asks("c"), answers("c", "two"))
    assert said(projection) == ["assistant:  [c]", "tool: one", "assistant:  [c]", "tool: two"]
    assert pairing_problem(projection.messages) is None


@pytest.mark.accepts(333)
def test_the_kept_whole_beside_its_short_copy_is_no_repair_until_it_is_active():
    whole = answers("c1", "the whole").with_state("archived", "shortened")
    assert project(asks("c1"), whole, answers("c1", "the")).repairs == ()
    both = project(asks("c1"), whole.with_state("active"), answers("c1", "the"))
    assert len(both.messages) == 2
    assert "already has a result" in both.repairs[0]


@pytest.mark.accepts(328)
def test_without_repairs_orphans_stay_in_their_place():
    projection = project(
        ContextItem.user("a"), answers("c1"), ContextItem.user("b"), repair_orphans=False
    )
    assert said(projection) == ["user: a", "tool: ok", "user: b"]
    assert (projection.repairs, projection.reordered) == ((), ())
    assert said(project(asks("c1"), repair_orphans=False)) == ["assistant:  [c1]"]


# -- order -------------------------------------------------------------------------------------


@pytest.mark.accepts(51, 52, 53, 330, 331)
def test_results_stand_directly_behind_their_turn():
    """ORPH-07: something was recorded between a call and its answer."""
    projection = project(
        ContextItem.user("go"),
        asks("p1", "p2"),
        ContextItem.user("memo: blue"),
        answers("p2", "two"),
        answers("p1", "one"),
    )
    assert list(projection.included) == [1, 2, 5, 4, 3]
    assert projection.repairs == ()
    assert projection.reordered == ('item 5 was moved to stand behind its call "p1"',)
    assert pairing_problem(projection.messages) is None


def test_an_early_result_waits_for_its_call():
    projection = project(answers("c1"), ContextItem.user("go"), asks("c1"))
    assert list(projection.included) == [2, 3, 1]
    assert len(projection.reordered) == 1


# -- turns as blocks ---------------------------------------------------------------------------

ORDERED = Blocks(
    (
        ReasoningBlock(Text("hm"), SIGNED),
        TextBlock(Text("first")),
        CallBlock(call("c1")),
        TextBlock(Text("then")),
        CallBlock(call("c2")),
    )
)


@pytest.mark.accepts(27, 28, 29)
def test_blocks_are_flattened_and_what_that_loses_is_said():
    projection = project(ContextItem.assistant(ORDERED), answers("c1"), answers("c2"))
    message = projection.messages[0]
    assert message.content == Text("first\nthen")
    assert message.reasoning == Text("hm")
    assert [one.id for one in message.tool_calls] == ["c1", "c2"]
    (repair,) = projection.repairs
    for lost in ("item 1", "order", "several of a kind", "attached"):
        assert lost in repair


@pytest.mark.accepts(31)
def test_blocks_that_three_slots_can_say_lose_nothing():
    slots = Blocks((ReasoningBlock(Text("hm")), TextBlock(BLOB), CallBlock(call("c1"))))
    projection = project(ContextItem.assistant(slots), answers("c1"))
    assert projection.repairs == ()
    assert projection.messages[0].content == BLOB


@pytest.mark.accepts(35, 38)
def test_blocks_can_be_sent_as_blocks():
    projection = project(
        ContextItem.assistant(ORDERED), answers("c1"), ContextItem.assistant("x"), send_blocks=True
    )
    first, _, last = projection.messages
    assert first.content == Blocks(ORDERED.blocks[:4]), "the unanswered call alone is gone"
    assert first.tool_calls == ()
    assert last.content == Blocks((TextBlock(Text("x")),))


def test_what_the_provider_attached_to_a_turn_goes_back_with_it():
    kind = AssistantMessage(extra=SIGNED)
    turn = replace(ContextItem.assistant("x"), kind=kind)
    for options in ({}, {"send_blocks": True}):
        assert project(turn, **options).messages[0].extra == SIGNED


@pytest.mark.accepts(436)
def test_thinking_goes_out_or_stays():
    turn = ContextItem.assistant("x").with_reasoning("hm")
    assert project(turn).messages[0].reasoning == Text("hm")
    assert project(turn, send_reasoning=False).messages[0].reasoning is None
    blocks = project(ContextItem.assistant(ORDERED), answers("c1"), send_reasoning=False)
    assert blocks.messages[0].reasoning is None


@pytest.mark.accepts(42, 44, 55)
def test_an_elided_turn_of_blocks_has_one_marker_and_no_thinking():
    item = ContextItem.assistant(ORDERED).with_state("elided", "short")
    projection = project(item, answers("c1"), answers("c2"))
    message = projection.messages[0]
    assert message.content == Text("[... short ...]")
    assert message.reasoning is None
    assert [one.id for one in message.calls()] == ["c1", "c2"]
    no_text = Blocks((CallBlock(call("c1")),))
    marked = project(
        ContextItem.assistant(no_text).with_state("elided"), answers("c1"), send_blocks=True
    )
    assert isinstance(marked.messages[0].content.blocks[0], TextBlock)


def test_a_turn_whose_content_was_replaced_by_blocks_speaks_by_its_blocks():
    """Blocks win over the slot of calls, in the pairing and in the message alike."""
    turn = replace(asks("c1"), content=Blocks((TextBlock(Text("x")),)))
    projection = project(turn, answers("c1"))
    assert said(projection) == ["assistant: x"]
    assert pairing_problem(projection.messages) is None


# -- the judge of pairs ------------------------------------------------------------------------

USER = Message("user", Text("go"))
ASKS = Message("assistant", None, tool_calls=(call("c1"), call("c2")))
ONE, TWO = (Message("tool", Text("ok"), tool_call_id=id) for id in ("c1", "c2"))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], None),
        ([USER, ASKS, TWO, ONE, USER], None),
        ([ASKS, ONE, TWO, ASKS, ONE, TWO], None),
        ([ASKS, ONE], 'ends while "c2"'),
        ([ASKS, ONE, USER, TWO], 'message 2 comes while "c2"'),
        ([ASKS, ONE, ASKS], 'message 2 comes while "c2"'),
        ([ONE], 'answers "c1", which is not asked'),
        ([ASKS, ONE, TWO, ONE], 'answers "c1", which is not asked'),
        ([ASKS, ONE, ONE, TWO], 'answers "c1", which is not asked'),
        ([USER, ONE, ASKS, TWO], 'answers "c1", which is not asked'),
    ],
)
def test_what_breaks_the_pairing(messages, problem):
    found = pairing_problem(messages)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert problem in found
