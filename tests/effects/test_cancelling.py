"""`cancel(turn)` at every moment, from this task, another and another thread (CANC, R13)."""

import threading

import anyio
import pytest

from effects.ports import OutputSink
from effects.tools.function import tool
from nachalnik import ContextItem, Kernel, Rules
from reducers.vocabulary.phases import Deciding, Finished, Idle, Ready, is_busy
from tests.effects.shell import (
    Deaf,
    Gate,
    Model,
    Policy,
    Tool,
    calls,
    kernel,
    model,
    named,
    names,
    results,
    said,
    sound,
    until,
)

pytestmark = pytest.mark.anyio

UNKNOWN = "Whether it took effect is unknown"


async def here(k):
    assert k.cancel(reason="enough")


async def in_a_thread(k):
    assert await anyio.to_thread.run_sync(lambda: k.cancel(reason="enough"))


both = pytest.mark.parametrize("cancel", [here, in_a_thread])


@both
async def test_while_the_model_is_awaited(cancel):
    gate = Gate()
    k = kernel(gate, said("hello"))
    stream = k.subscribe(all=True)
    phases = []
    async with anyio.create_task_group() as group:

        async def drive():
            phases.append(await k.turn())

        group.start_soon(drive)
        await gate.began.wait()
        await cancel(k)
        assert k.state() == Idle()
    assert phases == [Idle()]
    assert gate.was_cancelled
    assert names(k)[-3:] == ["request.abandoned", "state.changed", "turn.closed"]
    assert named(k, "turn.closed") == [{"event": "turn.closed", "turn": 1, "reason": "cancelled"}]
    assert stream.drain()[-1].name == "turn.closed"
    assert not k.is_turn_open()
    assert await k.turn() == Finished(2, "end_turn")
    assert k.turn_number() == 2
    sound(k)


@both
async def test_while_a_serial_tool_runs(cancel):
    gate, b = Gate(), Tool("b")
    k = kernel(calls("a", "b"), said("hello"), tools=[Tool("a", gate), b])
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        await cancel(k)
    assert gate.was_cancelled
    assert b.runs == []
    first, second = results(k)
    assert UNKNOWN in first[1]
    assert "enough" in first[1]
    assert second[1] == "Cancelled before it ran: enough."
    assert k.state() == Idle()
    assert k.unanswered_calls() == []
    assert await k.turn() == Finished(5, "end_turn")
    sound(k)


@both
async def test_while_parallel_tools_run(cancel):
    gates = [Gate(), Gate(), Gate()]
    tools = [Tool(name, gate) for name, gate in zip("abc", gates, strict=True)]
    k = kernel(calls("a", "b", "c"), said("hello"), tools=tools, parallel_tool_calls=True)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        for gate in gates:
            await gate.began.wait()
        gates[1].opened.set()
        await anyio.wait_all_tasks_blocked()
        await cancel(k)
    assert [gate.was_cancelled for gate in gates] == [True, False, True]
    first, second, third = results(k)
    assert UNKNOWN in first[1]
    assert second == ("c2", "done", False)
    assert UNKNOWN in third[1]
    assert await k.turn() == Finished(6, "end_turn")
    sound(k)


@both
async def test_while_a_policy_is_awaited(cancel):
    """Nothing of the turn is left running, the judge included."""
    gate = Gate("allow")
    k = kernel(calls("a", "b"), said("hello"), tools=[Tool("a"), Tool("b")], policy=Policy(a=gate))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(k.turn)
            await gate.began.wait()
            await cancel(k)
    assert gate.was_cancelled
    assert [text for _, text, _ in results(k)] == ["Cancelled before it ran: enough."] * 2
    assert await k.turn() == Finished(5, "end_turn")
    sound(k)


async def test_in_deciding_and_in_ready():
    for policy, rest in ((None, Deciding((1,))), (Rules(allow=["a"]), Ready(("c1",)))):
        k = kernel(calls("a"), said("hello"), tools=[Tool("a")], policy=policy)
        assert await k.step() == rest
        assert k.cancel(reason="enough")
        assert k.state() == Idle()
        assert names(k)[-1] == "turn.closed"
        assert results(k) == [("c1", "Cancelled before it ran: enough.", True)]
        assert await k.turn() == Finished(4, "end_turn")
        assert k.turn_number() == 2
        sound(k)


async def test_a_late_cancel_is_answered_and_touches_nothing():
    """CANC-01: a finished turn stays finished, and no flag waits for the next."""
    k = kernel(said("done"), said("ok"))
    await k.turn()
    before = k.position
    assert not k.cancel()
    assert not k.cancel(1)
    assert (k.position, k.is_interrupted()) == (before, False)
    k.push(ContextItem.user("next"))
    assert await k.turn() == Finished(4, "end_turn")
    assert [one["reason"] for one in named(k, "turn.closed")] == ["finished", "finished"]


async def test_a_cancel_at_each_moment_leaves_one_terminal_state():
    """CANC-01, scheduled: from the last fragment to the finished event."""
    reasons = set()
    for moments in range(6):
        k = kernel(_streamed, said("ok"))
        async with anyio.create_task_group() as group:
            group.start_soon(k.turn)
            for _ in range(moments):
                await anyio.lowlevel.checkpoint()
            was_cancelled = k.cancel()
        (closed,) = named(k, "turn.closed") or [{"reason": "none"}]
        assert (closed["reason"] == "cancelled") == was_cancelled
        reasons.add(closed["reason"])
        k.push(ContextItem.user("next"))
        await k.turn()
        assert isinstance(k.state(), Finished)
        sound(k)
    assert reasons >= {"cancelled", "finished"}


async def _streamed(request, sink):
    for word in ("do", "ne"):
        sink.text(word)
        await anyio.lowlevel.checkpoint()
    return said("done")


async def test_another_turns_number_is_not_in_flight():
    gate = Gate(said("hello"))
    k = kernel(gate)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        assert not k.cancel(2)
        assert not k.cancel(7)
        gate.opened.set()
    assert k.state() == Finished(2, "end_turn")


async def test_a_deaf_tool_of_a_cancelled_turn_is_late_and_touches_no_other_turn():
    """CANC-05: T2 starts at once; what comes late is a fact about its own call."""
    gate, second = Deaf("after all"), Gate(said("hello"))
    k = kernel(calls("a"), second, tools=[Tool("a", gate)])
    phases = {}
    async with anyio.create_task_group() as group:

        async def drive(name):
            phases[name] = await k.turn()

        group.start_soon(drive, "T1")
        await gate.began.wait()
        assert k.cancel()
        k.push(ContextItem.user("new"))
        group.start_soon(drive, "T2")
        await second.began.wait()
        before = [(item.id, item.content) for item in k.items()]
        gate.opened.set()
        await anyio.wait_all_tasks_blocked()
        assert phases == {"T1": Idle()}
        assert [(item.id, item.content) for item in k.items()] == before
        second.opened.set()
    assert phases == {"T1": Idle(), "T2": Finished(5, "end_turn")}
    (late,) = named(k, "tool.late")
    assert (late["call"], late["output"]["content"]) == ("c1", {"text": "after all"})
    assert "after all" not in str(model(k).requests)
    sound(k)


async def test_a_thread_of_a_cancelled_turn_is_late_exactly_once_and_told_to_stop():
    began, stopped = threading.Event(), threading.Event()

    @tool
    def slow(sink: OutputSink) -> str:
        """Work until told to stop."""
        began.set()
        while not sink.is_interrupted():
            stopped.wait(0.001)
        stopped.set()
        return "stopped in the middle"

    k = kernel(calls("slow"), said("hello"), tools=[slow])
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await until(began.is_set)
        assert k.cancel()
    await until(stopped.is_set)
    await until(lambda: named(k, "tool.late"))
    await k.turn()
    assert len(named(k, "tool.late")) == 1
    assert UNKNOWN in results(k)[0][1]
    sound(k)


def cancelled_between(monkeypatch, k, name, count):
    """Cancel the turn between the commit with the `count`-th event of a name and its effect."""
    cancels = []

    def cancelling(checkpoint):
        async def cancel_then_checkpoint():
            if not cancels and len(named(k, name)) == count:
                cancels.append(k.cancel())
            await checkpoint()

        return cancel_then_checkpoint

    for word in ("checkpoint", "checkpoint_if_cancelled"):
        monkeypatch.setattr(anyio.lowlevel, word, cancelling(getattr(anyio.lowlevel, word)))
    return cancels


async def test_a_call_cancelled_before_it_began_never_begins(monkeypatch):
    b = Tool("b")
    k = kernel(calls("a", "b"), said("hello"), tools=[Tool("a"), b])
    cancels = cancelled_between(monkeypatch, k, "tool.started", 2)
    assert await k.turn() == Idle()
    assert cancels == [True]
    assert b.runs == []
    assert UNKNOWN in results(k)[1][1]
    sound(k)


async def test_a_request_cancelled_before_it_began_is_not_sent(monkeypatch):
    k = kernel(calls("a"), said("hello"), tools=[Tool("a")])
    cancels = cancelled_between(monkeypatch, k, "model.requested", 2)
    assert await k.turn() == Idle()
    assert cancels == [True]
    assert len(model(k).requests) == 1
    sound(k)


async def test_a_tool_may_cancel_its_own_turn():
    k = kernel(calls("a", "b"), said("hello"), tools=[Tool("b")])

    async def cancel(call, sink):
        assert k.cancel(reason="by itself")
        await anyio.sleep(5)

    k.add_tool(Tool("a", cancel))
    assert await k.turn() == Idle()
    assert "by itself" in results(k)[0][1]
    assert names(k)[-1] == "turn.closed"
    sound(k)


@pytest.mark.accepts(82, 83, 84)
async def test_cancel_pending_calls_answers_them_and_keeps_the_turn_open():
    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a"), Tool("b")], policy=Rules(allow=["a"]))
    assert await k.turn() == Deciding((2,))
    before = k.position
    assert k.cancel_pending_calls("no time") == 2
    assert names(k, since=before, all=False) == [
        "permission.decided",
        "permission.decided",
        "state.changed",
        "context.added",
        "tool.finished",
        "context.added",
        "tool.finished",
        "state.changed",
    ]
    sources = {(one["grant"], one["source"]) for one in named(k, "permission.decided")[-2:]}
    assert sources == {("deny", "cancellation")}
    assert k.is_turn_open()
    assert all("no time" in text for _, text, _ in results(k))
    assert k.cancel_pending_calls("again") == 0
    assert k.undo()
    assert results(k) == []
    sound(k)


# -- a cancel that has nothing to cancel, or comes just in time ---------------------------------


def in_between(k, is_due, act):
    """Have another thread act as soon as an answer for which this holds was committed, while its
    effect is still being put away."""
    shell = k._interpreter
    settle = shell._settle

    def settled(input):
        applied = settle(input)
        if is_due(input):
            thread = threading.Thread(target=act)
            thread.start()
            thread.join()
        return applied

    shell._settle = settled


async def test_a_cancel_of_another_turn_stops_nothing_of_this_one():
    given = []
    k = kernel(calls("a"), said("hello"), tools=[Tool("a")])
    in_between(k, lambda input: True, lambda: given.append(k.cancel(999)))
    assert await k.turn() == Finished(4, "end_turn")
    assert given == [False, False, False]
    assert named(k, "request.abandoned") == []
    sound(k)


async def test_a_cancel_behind_the_end_of_a_turn_changes_nothing_it_says():
    given = []
    k = kernel(said("hello"))
    in_between(k, lambda input: True, lambda: given.append(k.cancel()))
    assert await k.turn() == Finished(2, "end_turn") == k.state()
    assert given == [False]


async def test_a_call_that_is_cancelled_while_the_disk_is_waited_for_is_not_started(tmp_path):
    a = Tool("a")
    k = Kernel.open(
        tmp_path / "s.jsonl", provider=Model(calls("a")), tools=[a], policy=Rules(allow=["*"])
    )
    k.push(ContextItem.user("go"))
    sync = k._writer.sync

    def slowly():
        sync()
        if is_busy(k.state()) and k._writer.state.calls.batch:
            thread = threading.Thread(target=k.cancel)
            thread.start()
            thread.join()

    k._writer.sync = slowly
    assert await k.turn() == Idle()
    assert a.runs == []
    assert named(k, "turn.closed")[0]["reason"] == "cancelled"
    sound(k)
    k.close()
