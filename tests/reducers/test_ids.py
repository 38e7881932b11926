"""Call ids are non-empty and used once in a session, whatever a model says (kernel.md 2.7)."""

import pytest

from reducers.absorb.answers import ID_CHARACTERS_MAX
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Blocks, CallBlock, Text, TextBlock
from reducers.vocabulary.events import ToolRepaired
from reducers.vocabulary.models import ModelResponse
from tests.reducers.driving import Core, call, started


def asking(*reserved: str) -> Core:
    core = started()
    core.push("go")
    if reserved:
        core.feed(i.ReserveCalls(reserved))
    core.feed(i.RunStep())
    return core


def repaired(core: Core, *ids: str) -> list[str]:
    """The ids the calls get, after each repair was told."""
    step = core.ask(*[call(id) for id in ids])
    turn = core.state.context.items[core.state.calls.item - 1]
    given = [one.id for one in turn.calls()]
    told = {event.call: event.was for event in step.events if isinstance(event, ToolRepaired)}
    assert told == {new: old for new, old in zip(given, ids, strict=True) if new != old}
    return given


@pytest.mark.parametrize(
    ("reserved", "ids", "given"),
    [
        ((), ("a", "b"), ["a", "b"]),
        ((), ("", ""), ["call_0", "call_1"]),
        ((), ("a", "a", "a"), ["a", "call_1", "call_2"]),
        (("a",), ("a",), ["call_0"]),
        (("a", "call_0"), ("a",), ["call_0_1"]),
        (("a", "call_0", "call_0_1"), ("a",), ["call_0_2"]),
        ((), ("call_1", ""), ["call_1", "call_1_1"]),
        ((), ("", "call_0"), ["call_0", "call_1"]),
    ],
)
def test_ids_are_repaired(reserved, ids, given):
    assert repaired(asking(*reserved), *ids) == given


@pytest.mark.accepts(411)
def test_each_repair_says_why():
    core = asking("old")
    step = core.ask(call(""), call("x"), call("x"), call("old"))
    reasons = [event.reason for event in step.events if isinstance(event, ToolRepaired)]
    assert ["left empty" in reasons[0], "used twice" in reasons[1], "earlier" in reasons[2]] == [
        True
    ] * 3


def test_an_id_that_would_swell_every_event_is_not_kept():
    core = asking()
    long = "x" * (ID_CHARACTERS_MAX + 1)
    step = core.ask(call(long), call(long[1:]))
    assert [one.id for one in core.state.context.items[-1].calls()] == ["call_0", long[1:]]
    (repair,) = [event for event in step.events if isinstance(event, ToolRepaired)]
    assert (repair.was, repair.reason) == (
        "x" * 64 + "...",
        "it was longer than 65536 characters",
    )


@pytest.mark.accepts(424)
def test_ids_01_a_provider_that_uses_one_id_in_every_turn():
    core = asking()
    given = []
    for n in range(3):
        given += repaired(core, "call_0")
        core.feed(i.RunStep())
        core.result(given[-1], str(n))
        core.feed(i.RunStep())
    assert given == ["call_0", "call_0_1", "call_0_2"]
    messages = core.reducer.draw(core.state).request.messages
    answered = {one.tool_call_id: one.content for one in messages if one.role == "tool"}
    assert answered == {id: Text(str(n)) for n, id in enumerate(given)}


@pytest.mark.accepts(19)
def test_blocks_are_rewritten_in_place_and_only_where_needed():
    core = asking()
    blocks = (TextBlock(Text("x")), CallBlock(call("a")), TextBlock(Text("y")), CallBlock(call("")))
    response = ModelResponse.of_blocks(Blocks(blocks))
    core.feed(i.ModelSettled(core.effect(), response))
    kept = core.state.context.items[1].content
    assert kept == Blocks((*blocks[:3], CallBlock(call("call_1"))))

    untouched = ModelResponse.of_blocks(Blocks((CallBlock(call("b")),)))
    core = asking()
    core.feed(i.ModelSettled(core.effect(), untouched))
    assert core.state.context.items[1].content is untouched.content


def test_ids_are_reserved_once_and_for_ever():
    core = started()
    assert core.feed(i.ReserveCalls(("a", "b", "a"))).events[0].reserved == 2
    assert core.feed(i.ReserveCalls(("a",))).events == ()
    core.reopen()
    assert core.feed(i.ReserveCalls(("b", "c"))).events[0].calls == ("c",)


def test_an_id_that_was_undone_is_used_all_the_same():
    core = asking()
    core.ask(call("a", "nonsense"))
    core.feed(i.Undo())
    core.feed(i.RunStep())
    assert repaired(core, "a") == ["call_0"]
