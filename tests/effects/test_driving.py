"""One effect in place, several at once, and the order in which the log tells it."""

import threading
import time

import anyio
import anyio.lowlevel
import pytest

from effects.interpreter import SHARE_S
from nachalnik import Config, ContextItem, Kernel, ModelResponse, Rules
from reducers.vocabulary.errors import Busy, EmptyProjection, NoProvider
from reducers.vocabulary.phases import Deciding, Finished, Idle, Ready
from tests.effects.shell import (
    Gate,
    Model,
    Tool,
    call,
    calls,
    kernel,
    model,
    named,
    names,
    results,
    said,
    sound,
)

pytestmark = pytest.mark.anyio

SERIAL = [
    "turn.opened",
    "state.changed",
    "model.requested",
    "context.added",
    "model.finished",
    "tool.requested",
    "tool.requested",
    "permission.decided",
    "permission.decided",
    "state.changed",
    "state.changed",
    "tool.started",
    "context.added",
    "tool.finished",
    "tool.started",
    "context.added",
    "tool.finished",
    "state.changed",
    "state.changed",
    "model.requested",
    "context.added",
    "model.finished",
    "state.changed",
    "turn.closed",
]


async def test_a_turn_without_tools():
    k = kernel(said("hello"))
    start = k.position
    assert await k.turn() == Finished(2, "end_turn")
    assert names(k, since=start) == [
        "turn.opened",
        "state.changed",
        "model.requested",
        "context.added",
        "model.finished",
        "state.changed",
        "turn.closed",
    ]
    sound(k)


async def test_serial_calls_run_one_after_the_other():
    a, b = Tool("a", "1"), Tool("b", "2")
    k = kernel(calls("a", "b"), said("done"), tools=[a, b])
    start = k.position
    assert await k.turn() == Finished(5, "end_turn")
    assert names(k, since=start) == SERIAL
    assert results(k) == [("c1", "1", False), ("c2", "2", False)]
    assert [len(one) for one in model(k).requests] == [1, 4]
    sound(k)


@pytest.mark.accepts(192)
async def test_steps_give_the_same_records_as_a_turn():
    """Where a driver stops is no part of what happened, but for where commits end."""
    k = kernel(calls("a", "b"), said("done"), tools=[Tool("a"), Tool("b")])
    start = k.position
    phases = [await k.step() for _ in range(3)]
    assert phases == [Ready(("c1", "c2")), Idle(), Finished(5, "end_turn")]
    recorded = [one for one in SERIAL if one not in ("turn.opened", "turn.closed")]
    assert names(k, since=start, all=False) == recorded
    sound(k)


@pytest.mark.accepts(66)
async def test_parallel_calls_run_at_once_and_are_recorded_in_the_models_order():
    first, second = Gate("slow"), Gate("quick")
    tools = [Tool("a", first), Tool("b", second)]
    k = kernel(calls("a", "b"), said("done"), tools=tools, parallel_tool_calls=True)
    start = k.position
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await first.began.wait()
        await second.began.wait()
        second.opened.set()
        await anyio.wait_all_tasks_blocked()
        assert names(k, since=start)[-1] == "call.answered"
        assert results(k) == []
        first.opened.set()
    assert results(k) == [("c1", "slow", False), ("c2", "quick", False)]
    assert k.state() == Finished(5, "end_turn")
    sound(k)


@pytest.mark.accepts(65)
async def test_both_modes_leave_the_same_context():
    contexts = []
    for parallel in (False, True):
        tools = [Tool("a", "1"), Tool("b", "2"), Tool("c", "3")]
        k = kernel(calls("a", "b", "c"), said("x"), tools=tools, parallel_tool_calls=parallel)
        await k.turn()
        contexts.append([(one.id, one.label, one.content) for one in k.items()])
    assert contexts[0] == contexts[1]


@pytest.mark.accepts(67)
async def test_a_refused_call_in_a_parallel_batch_stands_in_its_own_place():
    rules = Rules(allow=["a", "c"], deny=["b"])
    tools = [Tool("a"), Tool("b"), Tool("c")]
    k = kernel(calls("a", "b", "c"), said("x"), tools=tools, policy=rules, parallel_tool_calls=True)
    await k.turn()
    ids, texts, errors = zip(*results(k), strict=True)
    assert ids == ("c1", "c2", "c3")
    assert texts[1].startswith("Not permitted")
    assert errors == (False, True, False)
    assert tools[1].runs == []
    sound(k)


@pytest.mark.accepts(199)
async def test_driving_twice_is_busy_and_harms_nobody():
    gate = Gate(said("hello"))
    k = kernel(gate)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        before = k.position
        for drive in (k.step, k.turn):
            with pytest.raises(Busy, match="busy"):
                await drive()
        assert k.position == before
        gate.opened.set()
    assert k.state() == Finished(2, "end_turn")
    assert len(model(k).requests) == 1
    sound(k)


async def test_busy_from_another_thread_harms_nobody():
    gate = Gate(said("hello"))
    k = kernel(gate)
    met = []

    def elsewhere():
        try:
            anyio.run(k.turn)
        except Busy as error:
            met.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        await anyio.to_thread.run_sync(elsewhere)
        gate.opened.set()
    assert len(met) == 1
    assert k.state() == Finished(2, "end_turn")


@pytest.mark.accepts(190)
async def test_without_a_provider_nothing_is_claimed():
    k = Kernel(Config(session_name="demo"))
    k.push(ContextItem.user("go"))
    before = k.position
    with pytest.raises(NoProvider, match="no provider"):
        await k.step()
    assert (k.position, k.state()) == (before, Idle())


@pytest.mark.accepts(426)
async def test_an_empty_context_fails_the_step():
    k = Kernel(Config(session_name="demo"), provider=Model())
    with pytest.raises(EmptyProjection, match="empty request"):
        await k.step()
    assert names(k)[-2:] == ["step.failed", "state.changed"]
    assert k.state() == Idle()
    sound(k)


async def test_pushes_and_edits_from_threads_while_a_turn_runs():
    gate = Gate("done")
    k = kernel(calls("a"), said("x"), tools=[Tool("a", gate)])
    threads = [threading.Thread(target=_edits, args=(k,)) for _ in range(4)]
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        for thread in threads:
            thread.start()
        await anyio.to_thread.run_sync(lambda: [thread.join() for thread in threads])
        gate.opened.set()
    ids = [item.id for item in k.items()]
    assert ids == sorted(set(ids))
    assert len(ids) == 4 + 4 * 20
    assert k.state() == Finished(ids[-1], "end_turn")
    sound(k)


def _edits(k):
    for _ in range(20):
        id = k.push(ContextItem.user("more"))
        k.exclude(id)
        k.set_state(id, "active")
        k.budget()
        k.preview_request()


@pytest.mark.accepts(56, 57)
async def test_several_kernels_share_nothing():
    shared = Tool("a")
    kernels = [
        kernel(
            calls("a"),
            said(f"answer {n}"),
            tools=[shared],
            config=Config(session_name=f"session {n}"),
        )
        for n in range(16)
    ]
    async with anyio.create_task_group() as group:
        for k in kernels:
            group.start_soon(k.turn)
    for n, k in enumerate(kernels):
        assert k.state() == Finished(4, "end_turn")
        assert [len(k.items()), k.items()[-1].content.text] == [4, f"answer {n}"]
        assert k.session_name() == f"session {n}"
        sound(k)


# -- what is asked about -----------------------------------------------------------------------


@pytest.mark.accepts(196, 386, 387)
async def test_a_batch_rests_in_deciding_until_everything_is_answered():
    a, b = Tool("a"), Tool("b")
    k = kernel(calls("a", "b"), said("x"), tools=[a, b], policy=Rules(allow=["a"]))
    assert await k.turn() == Deciding((2,))
    before = k.position
    assert await k.turn() == Deciding((2,))
    assert await k.step() == Deciding((2,))
    assert k.position == before
    assert (a.runs, b.runs) == ([], [])
    assert k.decide(2, "deny") == Ready(("c1", "c2"))
    assert await k.turn() == Finished(5, "end_turn")
    assert (a.runs, b.runs) == (["c1"], [])
    ran, refused = results(k)
    assert ran == ("c1", "done", False)
    assert (refused[0], refused[1][:13], refused[2]) == ("c2", "Not permitted", True)
    sound(k)


@pytest.mark.accepts(208, 227)
async def test_the_request_budget_pauses_a_turn_and_lets_it_go_on():
    k = kernel(calls("a"), calls("a"), said("x"), tools=[Tool("a")], max_requests_per_turn=1)
    assert [await k.turn() for _ in range(3)] == [Idle(), Idle(), Finished(6, "end_turn")]
    assert [one["requests"] for one in named(k, "turn.paused")] == [1, 1]
    assert len(named(k, "turn.opened")) == 1
    sound(k)


async def test_a_budget_of_zero_sends_nothing():
    k = kernel(said("x"), max_requests_per_turn=0)
    assert await k.turn() == Idle()
    assert model(k).requests == []


@pytest.mark.accepts(226)
async def test_the_budget_goes_on_across_a_decision():
    k = kernel(calls("a"), said("x"), tools=[Tool("a")], policy=None, max_requests_per_turn=1)
    assert await k.turn() == Deciding((1,))
    k.decide(1, "allow")
    assert await k.turn() == Idle()
    assert len(model(k).requests) == 1


# -- keys --------------------------------------------------------------------------------------


async def test_a_tool_gets_a_durable_key_and_its_attempt():
    a = Tool("a")
    k = kernel(calls("a", "a"), said("x"), tools=[a])
    await k.turn()
    started = [one for one in k.history() if one.name == "tool.started"]
    keys = [f"{k.log_id}:{one.position}.{one.raw.effect}" for one in started]
    assert [sink.key for sink in a.sinks] == keys
    assert len(set(keys)) == 2
    assert [(sink.call, sink.tool, sink.attempt) for sink in a.sinks] == [
        ("c1", "a", 1),
        ("c2", "a", 1),
    ]


@pytest.mark.accepts(411)
async def test_call_ids_are_repaired_and_results_answer_the_new_ones():
    reply = ModelResponse.of_calls(call("dup", "a"), call("dup", "a"), call("", "a"))
    a = Tool("a")
    k = kernel(reply, said("x"), tools=[a])
    await k.turn()
    assert a.runs == ["dup", "call_1", "call_2"]
    assert [one[0] for one in results(k)] == a.runs
    sound(k)


async def test_others_run_beside_parts_that_never_wait():
    """A turn in which nothing is awaited, and each round takes longer than others have to wait."""
    rounds = 10

    async def slow(call, sink):
        time.sleep(2 * SHARE_S)  # noqa: ASYNC251 - it is the point that nobody waits
        return "done"

    tools = [Tool("a", slow)]
    k = kernel(*[calls("a")] * rounds, said("x"), tools=tools, max_requests_per_turn=None)
    passes = 0

    async def other():
        nonlocal passes
        while True:
            await anyio.lowlevel.checkpoint()
            passes += 1

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        assert isinstance(await k.turn(), Finished)
        seen = passes
        group.cancel_scope.cancel()
    assert seen >= rounds - 3, "the first answer is quick, and the first pass may come late"
