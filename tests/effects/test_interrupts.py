"""The stop flag: where it lands, and who spends it (kernel.md 2.6)."""

import anyio
import pytest

from reducers.vocabulary.errors import Busy, ProviderError
from reducers.vocabulary.phases import Finished, Idle, Ready
from tests.effects.shell import (
    Gate,
    Tool,
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


@pytest.mark.accepts(88, 224, 225)
async def test_between_transitions_the_next_drive_spends_it():
    for drive in ("step", "turn"):
        k = kernel(said("x"))
        assert not k.interrupt()
        assert k.interrupt()
        assert len(named(k, "turn.interrupted")) == 1
        assert await getattr(k, drive)() == Idle()
        assert not k.is_interrupted()
        assert model(k).requests == []
        assert await k.turn() == Finished(2, "end_turn")
        sound(k)


@pytest.mark.accepts(218)
async def test_during_a_request_that_does_not_look_the_answer_is_recorded():
    gate = Gate(said("hello"))
    k = kernel(gate)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        k.interrupt()
        gate.opened.set()
    assert k.state() == Finished(2, "end_turn")
    assert not k.is_interrupted()
    sound(k)


@pytest.mark.accepts(219, 220, 221)
async def test_a_provider_that_looks_stops_with_what_it_had():
    from nachalnik import ModelResponse, Text

    async def watching(request, sink):
        sink.text("half")
        k.interrupt()
        assert sink.is_interrupted()
        return ModelResponse(content=Text("half"), stop="stopped by the user")

    k = kernel(watching, said("whole"))
    assert await k.turn() == Finished(2, "stopped by the user")
    assert k.item(2).content == Text("half")
    assert not k.is_interrupted()
    assert await k.turn() == Finished(3, "end_turn")


async def test_an_answer_with_calls_leaves_the_flag_for_the_next_drive():
    async def asking(request, sink):
        k.interrupt()
        return calls("a")

    a = Tool("a")
    k = kernel(asking, said("x"), tools=[a])
    assert await k.turn() == Ready(("c1",))
    assert (a.runs, k.is_interrupted()) == ([], False)
    assert [one.call for one in k.pending_calls()] == ["c1"]
    assert await k.turn() == Finished(4, "end_turn")


@pytest.mark.accepts(206, 207)
async def test_a_failing_provider_lowers_it():
    async def failing(request, sink):
        k.interrupt()
        raise RuntimeError("no net")

    k = kernel(failing, said("x"))
    with pytest.raises(ProviderError):
        await k.turn()
    assert not k.is_interrupted()
    assert await k.turn() == Finished(2, "end_turn")


@pytest.mark.accepts(69, 70, 213, 215, 222, 223)
async def test_during_serial_calls_the_queue_is_answered_and_the_running_one_ends():
    async def interrupting(call, sink):
        k.interrupt()
        assert sink.is_interrupted()
        return "finished normally"

    b, c = Tool("b"), Tool("c")
    k = kernel(calls("a", "b", "c"), said("x"), tools=[Tool("a", interrupting), b, c])
    assert await k.turn() == Idle()
    assert results(k)[0] == ("c1", "finished normally", False)
    assert all("Interrupted" in text and error for _, text, error in results(k)[1:])
    assert (b.runs, c.runs) == ([], [])
    assert len(model(k).requests) == 1
    record = names(k)
    assert "tool.started" not in record[record.index("turn.interrupted") :]
    assert not k.is_interrupted()
    assert await k.turn() == Finished(6, "end_turn")
    assert len(named(k, "turn.opened")) == 1
    sound(k)


@pytest.mark.accepts(72)
async def test_during_parallel_calls_all_have_begun():
    gates = [Gate(), Gate(), Gate()]
    tools = [Tool(name, gate) for name, gate in zip("abc", gates, strict=True)]
    k = kernel(calls("a", "b", "c"), said("x"), tools=tools, parallel_tool_calls=True)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        for gate in gates:
            await gate.began.wait()
        k.interrupt()
        for gate in gates:
            gate.opened.set()
    assert [text for _, text, _ in results(k)] == ["done"] * 3
    assert k.state() == Idle()
    sound(k)


@pytest.mark.accepts(200, 201)
async def test_busy_does_not_lower_it():
    gate = Gate(said("hello"))
    k = kernel(gate)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        k.interrupt()
        with pytest.raises(Busy):
            await k.step()
        assert k.is_interrupted()
        gate.opened.set()
    assert not k.is_interrupted()


@pytest.mark.accepts(71)
async def test_no_call_starts_behind_an_interrupt_from_a_thread():
    for moment in range(12):
        tools = [Tool(name, lambda call, sink: anyio.sleep(0.0005)) for name in "abcd"]
        k = kernel(calls("a", "b", "c", "d"), said("x"), tools=tools)
        async with anyio.create_task_group() as group:
            group.start_soon(k.turn)
            await anyio.sleep(moment * 0.0003)
            await anyio.to_thread.run_sync(k.interrupt)
        record = names(k)
        behind = record[record.index("turn.interrupted") :]
        if "interrupt.spent" in behind:
            assert "tool.started" not in behind[: behind.index("interrupt.spent")]
        sound(k)
