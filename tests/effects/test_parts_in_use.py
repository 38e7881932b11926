"""Parts that change while they are in use, sinks that outlive their run, calls from inside."""

import threading

import anyio
import pytest

from effects.ports import DeltaSink, OutputSink
from nachalnik import ContextItem, ModelInfo, Rules
from reducers.linear import LinearProjector
from reducers.tokens import BytesPerToken
from reducers.vocabulary.effects import JudgeCall
from reducers.vocabulary.errors import Reentered
from reducers.vocabulary.phases import Deciding, Finished, Ready
from tests.effects.shell import (
    Gate,
    Model,
    Policy,
    Tool,
    calls,
    kernel,
    named,
    results,
    said,
    sound,
)

pytestmark = pytest.mark.anyio


async def test_a_waiting_call_runs_the_tool_it_was_matched_to():
    first, second = Tool("a", "first"), Tool("a", "second")
    k = kernel(calls("a"), said("x"), tools=[first], policy=None)
    assert await k.turn() == Deciding((1,))
    assert k.add_tool(second) is first
    k.decide(1, "allow")
    await k.turn()
    assert (first.runs, second.runs) == (["c1"], [])
    sound(k)


@pytest.mark.accepts(429)
async def test_a_waiting_call_runs_a_tool_that_was_removed_and_keeps_its_label():
    a = Tool("a", capabilities=("fs:read", "fs:write"))
    a.needs = lambda call: ["fs:read"]
    k = kernel(calls("a"), said("x"), tools=[a], policy=None)
    assert await k.turn() == Deciding((1,))
    assert k.remove_tool("a") is a
    k.decide(1, "allow")
    await k.turn()
    assert a.runs == ["c1"]
    assert k.items()[2].label == "a:read"
    sound(k)


async def test_a_tool_that_is_false_is_a_tool():
    class Empty(Tool):
        def __len__(self):
            return 0

    first, second = Empty("a", "first"), Tool("a", "second")
    k = kernel(calls("a"), said("x"), tools=[first], policy=None)
    await k.turn()
    k.add_tool(second)
    k.decide(1, "allow")
    await k.turn()
    assert first.runs == ["c1"]


@pytest.mark.accepts(389)
async def test_a_call_is_judged_by_the_policy_it_was_announced_for():
    gate = Gate("deny")
    old, new = Policy(a=gate, b="deny"), Policy()
    old.why = lambda request: "the old policy says so"
    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a"), Tool("b")], policy=old)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        assert k.set_policy(new) is old
        gate.opened.set()
    assert "the old policy says so" in results(k)[0][1]
    assert [one.call for one in old.requests] == ["c1"]
    assert [one.call for one in new.requests] == ["c2"]
    sound(k)


async def test_a_policy_set_before_it_could_be_asked_is_not_asked(monkeypatch):
    old, new = Policy(a="deny"), Policy(a="allow")
    k = kernel(calls("a"), said("x"), tools=[Tool("a")], policy=old)
    answer = k._interpreter._answer

    async def swapping(effect, work):
        if isinstance(effect, JudgeCall):
            k.set_policy(new)
        return await answer(effect, work)

    monkeypatch.setattr(k._interpreter, "_answer", swapping)
    await k.turn()
    assert (len(old.requests), len(new.requests)) == (1, 0)
    assert results(k)[0][2]
    sound(k)


async def test_rules_that_replace_a_policy_while_it_is_asked_take_the_next_call():
    gate = Gate("allow")
    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a"), Tool("b")], policy=Policy(a=gate))
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        k.set_policy(Rules(deny=["b"]))
        gate.opened.set()
    assert [error for _, _, error in results(k)] == [False, True]
    sound(k)


async def test_a_request_goes_to_the_provider_it_was_announced_for(monkeypatch):
    old, new = Model(said("old")), Model(said("new"))
    k = kernel()
    k.set_provider(old)
    sync = k._writer.sync

    def swap_then_sync():
        if k.provider() is old and named(k, "model.requested"):
            thread = threading.Thread(target=k.set_provider, args=(new,))
            thread.start()
            thread.join()
        sync()

    monkeypatch.setattr(k._writer, "sync", swap_then_sync)
    await k.turn()
    assert (len(old.requests), len(new.requests)) == (1, 0)
    assert k.provider() is new
    sound(k)


@pytest.mark.accepts(370)
async def test_a_provider_that_switched_its_model_is_announced_before_the_request():
    k = kernel(said("x"))
    k.provider().described = ModelInfo("scripted", "m2", 9000)
    await k.turn()
    changed = named(k, "model.changed")
    assert [one["to"]["model"] for one in changed] == ["m1", "m2"]
    assert changed[1]["from"]["model"] == "m1"


async def test_a_tool_whose_spec_changed_is_offered_as_it_is_now():
    a = Tool("a")
    k = kernel(said("x"), tools=[a])
    a.described = Tool("a", capabilities=("fs:read",)).described
    await k.turn()
    assert k._writer.state.parts.tools[0].capabilities == ("fs:read",)
    assert len(named(k, "parts.described")) == 1


async def test_a_policy_whose_rules_changed_judges_by_them():
    class Growing:
        rules = Rules(deny=["a"])

        def info(self):
            return self.rules.info()

    policy = Growing()
    k = kernel(calls("a"), said("x"), tools=[Tool("a")], policy=policy)
    policy.rules = Rules(allow=["a"])
    await k.turn()
    assert results(k) == [("c1", "done", False)]
    sound(k)


# -- sinks -------------------------------------------------------------------------------------


@pytest.mark.accepts(395)
async def test_fragments_are_shown_live_and_not_after_the_answer():
    async def streaming(request, sink):
        sink.reasoning("hm")
        sink.text("he")
        sink.tool_args(0, '{"x"', "c1", "a")
        return said("hello")

    k = kernel(streaming)
    stream = k.subscribe()
    await k.turn()
    (sink,) = k.provider().sinks
    sink.text("too late")
    shown = [one for one in stream.drain() if one.name == "model.delta"]
    assert [(one.delta.kind, one.delta.text) for one in shown] == [
        ("reasoning", "hm"),
        ("text", "he"),
        ("tool_args", '{"x"'),
    ]
    assert {one.effect for one in shown} == {k.history()[-4].raw.effect or shown[0].effect}
    assert not sink.is_connected()
    assert not sink.is_interrupted()
    assert "model.delta" not in [one.name for one in k.history(all=True)]


@pytest.mark.accepts(415)
async def test_progress_is_shown_live_and_not_after_the_result():
    async def working(call, sink):
        sink.push("half")
        return "done"

    a = Tool("a", working)
    k = kernel(calls("a"), said("x"), tools=[a])
    stream = k.subscribe()
    await k.turn()
    a.sinks[0].push("too late")
    shown = [one for one in stream.drain() if one.name == "tool.output"]
    assert [(one.call, one.tool, one.chunk) for one in shown] == [("c1", "a", "half")]
    assert not a.sinks[0].is_connected()
    assert "tool.output" not in [one.name for one in k.history(all=True)]


async def test_a_sink_of_a_given_up_run_is_deaf_and_tells_to_stop():
    gates = [Gate(), Gate()]
    a = Tool("a", gates[1])
    k = kernel(gates[0], calls("a"), tools=[a])
    stream = k.subscribe()
    for gate in gates:
        async with anyio.create_task_group() as group:
            group.start_soon(k.turn)
            await gate.began.wait()
            k.cancel()
    for sink in (k.provider().sinks[0], a.sinks[0]):
        assert sink.is_interrupted()
        assert not sink.is_connected()
    k.provider().sinks[0].text("too late")
    a.sinks[0].push("too late")
    assert {one.name for one in stream.drain()}.isdisjoint({"model.delta", "tool.output"})


async def test_a_deaf_provider_of_a_cancelled_turn_shows_nothing_more():
    told = []

    async def streaming(request, sink):
        k.cancel()
        sink.text("too late")
        told.append(sink.is_interrupted())
        return said("too late")

    k = kernel(streaming)
    stream = k.subscribe()
    await k.turn()
    assert told == [True]
    assert "model.delta" not in [one.name for one in stream.drain()]
    assert len(k.items()) == 1
    sound(k)


async def test_a_disconnected_sink_drops_everything_and_is_never_interrupted():
    for sink in (DeltaSink.disconnected(), OutputSink.disconnected()):
        assert not sink.is_connected()
        assert not sink.is_interrupted()
    DeltaSink.disconnected().text("x")
    OutputSink.disconnected().push("x")
    OutputSink.disconnected().settle_late(None)


# -- calls from inside -------------------------------------------------------------------------


async def test_tools_providers_and_policies_may_edit_the_kernel_they_serve():
    async def editing(*_):
        k.push(ContextItem.memory("note", "from inside"))
        return "done"

    async def answering(request, sink):
        k.push(ContextItem.memory("note", "from the provider"))
        return calls("a")

    async def judging(request):
        k.push(ContextItem.memory("note", "from the policy"))
        return "allow"

    k = kernel(answering, said("x"), tools=[Tool("a", editing)], policy=Policy(a=judging))
    assert await k.turn() == Finished(7, "end_turn")
    assert [item.label for item in k.items()].count("note") == 3
    sound(k)


class Meddling(LinearProjector):
    """A projector that calls its kernel, which it must not."""

    kernel = None

    def project(self, items):
        self.kernel.push(ContextItem.user("from inside"))
        return super().project(items)


class Counting(BytesPerToken):
    kernel = None

    def count_item(self, item):
        if self.kernel is not None:
            self.kernel.interrupt()
        return super().count_item(item)


async def test_a_projector_that_calls_its_kernel_is_told_so_and_nothing_hangs():
    k = kernel(said("x"))
    k.set_projector(Meddling())
    Meddling.kernel = k
    with anyio.fail_after(5):
        with pytest.raises(Reentered, match="inside a commit"):
            await k.turn()
        with pytest.raises(Reentered):
            k.preview_request()
        with pytest.raises(Reentered):
            k.project()
    assert named(k, "step.failed")[0]["error"].startswith("a callback that runs inside a commit")
    assert len(k.items()) == 1
    k.set_projector(LinearProjector())
    assert await k.turn() == Finished(2, "end_turn")


async def test_a_counter_that_calls_its_kernel_is_told_so():
    k = kernel(said("x"))
    k.set_counter(Counting())
    Counting.kernel = k
    try:
        before = k.position
        with pytest.raises(Reentered):
            k.push(ContextItem.user("more"))
        assert (k.position, len(k.items())) == (before, 1)
    finally:
        Counting.kernel = None
    k.push(ContextItem.user("more"))
    sound(k)


async def test_a_clock_that_calls_its_kernel_is_told_so():
    k = kernel(said("x"))
    k._writer._clock = lambda: k.push(ContextItem.user("from inside"))
    with pytest.raises(Reentered):
        k.push(ContextItem.user("more"))
    k._writer._clock = lambda: 1
    assert k.push(ContextItem.user("more")) == 2
    sound(k)


@pytest.mark.accepts(212)
async def test_a_rule_that_answers_ready_is_seen_before_the_calls_run():
    """A client may answer a question the instant it sees it."""
    k = kernel(calls("a", "b"), said("x"), tools=[Tool("a"), Tool("b")], policy=None)
    stream = k.subscribe()
    answered = []

    async def client():
        async for event in stream:
            if event.name == "permission.requested":
                answered.append(k.decide(event["request"]["id"], "allow"))
            if len(answered) == 2:
                return

    async with anyio.create_task_group() as group:
        group.start_soon(client)
        group.start_soon(k.turn)
    assert answered == [Deciding((2,)), Ready(("c1", "c2"))]
    assert await k.turn() == Finished(5, "end_turn")
    sound(k)
