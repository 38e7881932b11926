"""Questions and their answers: once, by id, for the arguments that were shown (ONCE, RESU, R14)."""

import threading

import pytest

from nachalnik import ContextItem, ModelResponse, Rules
from nachalnik.reports import PendingCall, PermissionQuestion
from reducers.vocabulary.digests import text_digest
from reducers.vocabulary.errors import (
    AlreadyResolved,
    InvalidInput,
    UnknownCall,
    UnknownPermission,
)
from reducers.vocabulary.phases import Deciding, Finished, Idle, Ready
from tests.effects.shell import Tool, call, calls, kernel, named, names, results, said, sound

pytestmark = pytest.mark.anyio


async def asking(*tools, **options):
    made = [Tool(name) for name in tools]
    k = kernel(calls(*tools), said("x"), tools=made, policy=None, **options)
    assert await k.turn() == Deciding(tuple(range(1, len(tools) + 1)))
    return k


@pytest.mark.accepts(193)
async def test_what_waits_is_listed():
    reply = ModelResponse.of_calls(call("c1", "a", '{"x": 1}'), call("c2", "b"))
    tools = [Tool("a", capabilities=("fs:read",)), Tool("b")]
    k = kernel(reply, tools=tools, policy=Rules(allow=["b"]))
    await k.turn()
    digest = text_digest('{"x": 1}')
    assert k.pending_permissions() == [
        PermissionQuestion(1, "c1", "a", ("fs:read",), '{"x": 1}', digest)
    ]
    assert k.pending_questions() == k.pending_permissions()
    assert k.pending_calls() == [
        PendingCall("c1", "a", '{"x": 1}', None),
        PendingCall("c2", "b", "{}", "allow"),
    ]
    assert k.unanswered_calls() == []
    assert results(k) == []


@pytest.mark.accepts(195, 197)
async def test_each_answer_moves_the_loop():
    k = await asking("a", "b")
    assert [one.id for one in k.pending_permissions()] == [1, 2]
    assert k.decide(2, "allow") == Deciding((1,))
    assert k.decide(1, "deny", reason="not today") == Ready(("c1", "c2"))
    assert await k.turn() == Finished(5, "end_turn")
    decided = named(k, "permission.decided")
    assert [(one["id"], one["grant"], one["source"]) for one in decided] == [
        (2, "allow", "user"),
        (1, "deny", "user"),
    ]
    refused, ran = results(k)
    assert "not today" in refused[1]
    assert "not a standing rule" in refused[1]
    assert refused[2]
    assert ran == ("c2", "done", False)
    assert "  " not in refused[1]
    sound(k)


@pytest.mark.accepts(198)
async def test_a_second_answer_is_told_how_it_was_resolved():
    k = await asking("a")
    k.decide(1, "allow")
    before = k.position
    for grant in ("allow", "deny"):
        with pytest.raises(AlreadyResolved, match=r"granted.* 1$") as raised:
            k.decide(1, grant)
        assert raised.value.how == "granted"
    with pytest.raises(UnknownPermission, match=r"7$"):
        k.decide(7, "allow")
    assert k.position == before
    await k.turn()
    assert k.tool("a").runs == ["c1"]
    sound(k)


async def test_resu_03_an_answer_behind_a_cancel_is_told_so():
    k = await asking("a")
    assert k.cancel()
    before = k.position
    for grant in ("allow", "deny"):
        with pytest.raises(AlreadyResolved, match="cancelled"):
            k.decide(1, grant)
    with pytest.raises(UnknownPermission) as raised:
        k.decide(99, "allow")
    assert not isinstance(raised.value, AlreadyResolved)
    assert k.position == before
    assert k.tool("a").runs == []
    k.push(ContextItem.user("next"))
    assert await k.turn() == Finished(5, "end_turn")
    sound(k)


async def test_once_05_of_two_answers_at_once_one_wins():
    for _ in range(20):
        k = await asking("a")
        met, barrier = [], threading.Barrier(2)

        def answer(k=k, met=met, barrier=barrier):
            barrier.wait()
            try:
                met.append(k.decide(1, "allow"))
            except AlreadyResolved as error:
                met.append(error.how)

        threads = [threading.Thread(target=answer) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Ready(("c1",)) in met
        assert "granted" in met
        await k.turn()
        assert k.tool("a").runs == ["c1"]
        assert len(named(k, "permission.decided")) == 1
        sound(k)


async def test_an_answer_to_other_arguments_is_refused():
    k = await asking("a")
    (question,) = k.pending_permissions()
    before = k.position
    with pytest.raises(UnknownPermission, match="other arguments"):
        k.decide(1, "allow", args=text_digest('{"x":2}'))
    assert k.position == before
    assert k.decide(1, "allow", args=question.args_digest) == Ready(("c1",))


async def test_a_grant_nobody_knows_is_refused():
    k = await asking("a")
    for grant in ("yes", None, True, "ask"):
        with pytest.raises(InvalidInput, match="allow"):
            k.decide(1, grant)
    assert k.state() == Deciding((1,))


async def test_orders_about_outcomes_need_an_unknown_outcome():
    k = await asking("a")
    before = k.position
    for order in (
        lambda name: k.retry(name),
        lambda name: k.settle(name, "x"),
        lambda name: k.fail(name, "x"),
    ):
        with pytest.raises(UnknownCall, match=r"'c1'.*permission"):
            order("c1")
        with pytest.raises(UnknownCall, match="'c9'"):
            order("c9")
    assert k.position == before
    k.decide(1, "allow")
    with pytest.raises(UnknownCall, match="prepared and has not run"):
        k.retry("c1")
    await k.turn()
    with pytest.raises(AlreadyResolved, match="c1"):
        k.settle("c1", "x")
    assert results(k) == [("c1", "done", False)]
    sound(k)


async def test_ids_of_questions_never_repeat():
    k = kernel(calls("a"), calls("a"), said("x"), tools=[Tool("a")], policy=None)
    ids = []
    for _ in range(2):
        await k.turn()
        (question,) = k.pending_permissions()
        ids.append(question.id)
        k.decide(question.id, "allow")
    assert await k.turn() == Finished(6, "end_turn")
    assert ids == [1, 2]


@pytest.mark.accepts(413)
async def test_unknown_tools_use_no_id_and_leave_the_loop_idle():
    k = kernel(calls("zip", "zap"), said("x"), tools=[Tool("a")], policy=None)
    assert await k.step() == Idle()
    assert [error for _, _, error in results(k)] == [True, True]
    assert "permission.requested" not in names(k)
    assert k.undo()
    assert len(k.items()) == 1
    sound(k)
