"""The driver's task is cancelled while it waits (kernel.md 2.13, rulings R15)."""

import os
import signal
import threading
import time

import anyio
import anyio.lowlevel
import pytest

import effects.writer
from effects.interpreter import soon
from effects.ports import OutputSink
from effects.tools.function import tool
from nachalnik import ContextItem
from reducers.vocabulary.errors import AlreadyResolved
from reducers.vocabulary.inputs import ToolSettled
from reducers.vocabulary.phases import Deciding, Finished, Idle
from tests.effects.shell import (
    Deaf,
    Gate,
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

UNKNOWN = "started and its result was never received"


class Sleeper:
    """A tool in a thread, which nothing can stop: it ends when the test says so."""

    def __init__(self):
        self.began, self.go = threading.Event(), threading.Event()

        @tool
        def slow(sink: OutputSink) -> str:
            """Wait for the test."""
            self.sink = sink
            self.began.set()
            self.go.wait(5)
            return "slept"

        self.tool = slow


async def left(k, *began):
    """Drive a turn, and cancel its task once everything has begun."""
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        for gate in began:
            await gate.began.wait()
        group.cancel_scope.cancel()


@pytest.mark.accepts(202, 203)
async def test_while_the_model_is_awaited():
    gate = Gate()
    k = kernel(gate, said("hello"))
    start = k.position
    await left(k, gate)
    assert gate.was_cancelled
    assert names(k, since=start)[-2:] == ["request.abandoned", "state.changed"]
    assert k.state() == Idle()
    assert len(k.items()) == 1
    assert await k.turn() == Finished(2, "end_turn")
    assert len(named(k, "turn.opened")) == 1
    sound(k)


@pytest.mark.accepts(94)
async def test_while_a_serial_tool_is_awaited():
    a, gate, c = Tool("a"), Gate(), Tool("c")
    k = kernel(calls("a", "b", "c"), said("x"), tools=[a, Tool("b", gate), c])
    await left(k, gate)
    assert k.state() == Idle()
    assert [(one.call, one.was_started) for one in k.unanswered_calls()] == [
        ("c2", True),
        ("c3", False),
    ]
    assert results(k) == [("c1", "done", False)]
    before = k.position
    assert await k.turn() == Finished(6, "end_turn")
    assert names(k, since=before)[:6] == [
        "state.changed",
        "context.added",
        "tool.finished",
        "context.added",
        "tool.finished",
        "model.requested",
    ]
    (_, second, third) = results(k)
    assert (second[0], UNKNOWN in second[1], second[2]) == ("c2", True, True)
    assert (third[0], "was not run" in third[1], third[2]) == ("c3", True, True)
    assert c.runs == []
    assert k.unanswered_calls() == []
    sound(k)


async def test_the_answers_of_left_calls_are_one_undo():
    gate = Gate()
    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a", gate), Tool("b")])
    await left(k, gate)
    await k.turn()
    assert k.undo()
    assert len(results(k)) == 2
    assert k.undo()
    assert results(k) == []


async def test_while_parallel_tools_are_awaited_what_came_is_kept():
    quick, slow = Tool("a", "quick"), Gate()
    k = kernel(calls("a", "b"), said("x"), tools=[quick, Tool("b", slow)], parallel_tool_calls=True)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await slow.began.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert slow.was_cancelled
    assert results(k) == [("c1", "quick", False)]
    assert [one.call for one in k.unanswered_calls()] == ["c2"]
    assert await k.turn() == Finished(5, "end_turn")
    assert UNKNOWN in results(k)[1][1]
    sound(k)


async def test_while_a_policy_is_awaited():
    gate = Gate("allow")
    b = Tool("b")
    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a"), b], policy=Policy(a=gate))
    await left(k, gate)
    assert k.state() == Idle()
    assert [(one.call, one.was_started) for one in k.unanswered_calls()] == [
        ("c1", False),
        ("c2", False),
    ]
    assert await k.turn() == Finished(5, "end_turn")
    assert [("was not run" in text, error) for _, text, error in results(k)] == [(True, True)] * 2
    assert b.runs == []
    sound(k)


async def test_an_idempotent_tool_is_not_run_again():
    gate = Gate()
    a = Tool("a", gate, idempotent=True)
    k = kernel(calls("a"), said("x"), tools=[a])
    await left(k, gate)
    await k.turn()
    assert a.runs == ["c1"]
    assert UNKNOWN in results(k)[0][1]


async def test_a_left_call_can_be_settled_failed_or_retried():
    gates = [Gate(), Gate(), Gate()]
    k = kernel(
        calls("a"),
        calls("a"),
        calls("a"),
        said("x"),
        tools=[Tool("a", lambda call, sink: gates.pop(0)(call) if gates else Gate.value)],
    )
    first, second, third = gates
    await left(k, first)
    assert k.settle("c1", "it did") == Idle()
    assert results(k) == [("c1", "it did", False)]
    await left(k, second)
    (again,) = k.unanswered_calls()
    assert k.fail(again.call, "it did not") == Idle()
    with pytest.raises(AlreadyResolved, match=again.call):
        k.settle(again.call, "after all")
    await left(k, third)
    (last,) = k.unanswered_calls()
    key = last.key
    assert k.retry(last.call).calls == (last.call,)
    gate = Gate("the second time")
    gates.append(gate)
    gate.opened.set()
    assert await k.turn() == Finished(8, "end_turn")
    sinks = k.tool("a").sinks
    assert [sink.attempt for sink in sinks] == [1, 1, 1, 2]
    assert sinks[3].key == sinks[2].key == key
    assert results(k)[2][1] == "the second time"
    sound(k)


async def test_a_deaf_tool_that_answers_its_cancelled_driver_has_answered():
    """The answer came while the call had no result: it is the result."""
    gate = Deaf("after all")
    k = kernel(calls("a"), said("x"), tools=[Tool("a", gate)])
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        group.cancel_scope.cancel()
        gate.opened.set()
    assert results(k) == [("c1", "after all", False)]
    assert k.unanswered_calls() == []
    assert len(model(k).requests) == 1
    sound(k)


async def test_a_thread_that_ends_after_its_driver_left_gives_the_result():
    slow = Sleeper()

    k = kernel(calls("slow", "b"), said("x"), tools=[slow.tool, Tool("b")])
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await until(slow.began.is_set)
        group.cancel_scope.cancel()
    assert [one.call for one in k.unanswered_calls()] == ["c1", "c2"]
    slow.go.set()
    await until(lambda: [one.call for one in k.unanswered_calls()] == ["c2"])
    assert results(k) == [("c1", "slept", False)]
    assert k.state() == Idle()
    assert k.tool("b").runs == []
    await k.turn()
    sound(k)


async def test_a_thread_that_ends_while_its_driver_leaves_starts_nothing():
    """Its answer must wait for the driver to have left: else it would start the next call."""
    slow = Sleeper()
    told = threading.Event()

    b = Tool("b")
    k = kernel(calls("slow", "b"), said("x"), tools=[slow.tool, b])
    shell = k._interpreter
    leave, late = shell._leave, shell._settle_late

    def slowly(drive):
        slow.go.set()
        assert told.wait(5)
        leave(drive)

    def noted(input):
        late(input)
        told.set()

    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await until(slow.began.is_set)
        shell._leave, shell._settle_late = slowly, noted
        group.cancel_scope.cancel()
    shell._leave = leave
    assert results(k) == [("c1", "slept", False)]
    assert [(one.call, one.was_started) for one in k.unanswered_calls()] == [("c2", False)]
    await k.turn()
    assert b.runs == []
    sound(k)


async def test_a_later_answer_is_late_once_and_changes_nothing():
    slow = Sleeper()

    k = kernel(calls("slow"), said("x"), said("y"), tools=[slow.tool])
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await until(slow.began.is_set)
        group.cancel_scope.cancel()
    await k.turn()
    before = [(item.id, item.content) for item in k.items()]
    slow.go.set()
    await until(lambda: named(k, "tool.late"))
    assert [one["call"] for one in named(k, "tool.late")] == ["c1"]
    assert [(item.id, item.content) for item in k.items()] == before
    k.push(ContextItem.user("again"))
    await k.turn()
    assert len(named(k, "tool.late")) == 1
    sound(k)


async def test_deciding_is_not_left_by_cancelling_its_driver():
    k = kernel(calls("a"), tools=[Tool("a")], policy=None)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await k.turn()
    assert k.state() in (Idle(), Deciding((1,)))
    await k.turn()
    assert k.pending_permissions()[0].call == "c1"
    sound(k)


async def test_a_coroutine_that_is_closed_leaves():
    """Dropping the future: nobody awaits, nobody is cancelled."""
    gate = Gate()
    k = kernel(gate, said("hello"))

    async def drop():
        turn = k.turn()
        async with anyio.create_task_group() as group:

            async def drive():
                await turn

            group.start_soon(drive)
            await gate.began.wait()
            group.cancel_scope.cancel()
        turn.close()

    await drop()
    assert k.state() == Idle()
    assert await k.turn() == Finished(2, "end_turn")


async def test_an_answer_is_not_lost_to_ctrl_c_while_it_is_judged(monkeypatch):
    """Whatever comes between a tool's return and its commit: the tool has run."""
    judge = effects.writer.step

    def interrupted(state, input, reducer=None):
        if isinstance(input, ToolSettled):
            monkeypatch.setattr(effects.writer, "step", judge)
            raise KeyboardInterrupt
        return judge(state, input, reducer)

    k = kernel(calls("a"), said("x"), tools=[Tool("a", "done")])
    monkeypatch.setattr(effects.writer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        await k.turn()
    assert results(k) == [("c1", "done", False)]
    assert k.unanswered_calls() == []
    sound(k)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_tells_a_thread_to_stop_and_its_end_is_recorded(backend):
    """On trio it is raised in the task that awaits the thread; on asyncio it cancels that task."""
    slow = Sleeper()
    k = kernel(calls("slow"), tools=[slow.tool])

    tokens = []

    async def main():
        tokens.append(anyio.lowlevel.current_token())
        await k.turn()

    def ctrl_c():
        slow.began.wait(5)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        soon(tokens[0], int)  # a signal just before asyncio sleeps is seen when it wakes

    thread = threading.Thread(target=ctrl_c)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=backend)
    thread.join()
    assert [one.call for one in k.unanswered_calls()] == ["c1"]
    assert slow.sink.is_interrupted()
    slow.go.set()
    for _ in range(500):
        if not k.unanswered_calls():
            break
        time.sleep(0.01)
    assert results(k) == [("c1", "slept", False)]
    sound(k)
