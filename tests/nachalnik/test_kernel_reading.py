"""What a kernel answers when it is asked: history, earlier states, budgets and previews."""

import json

import anyio
import pytest

from nachalnik import Config, ContextItem, Kernel, ModelInfo, ModelResponse, Text, Usage
from reducers.statecodec import encode_state
from reducers.vocabulary.errors import EmptyProjection, InvalidInput
from reducers.vocabulary.phases import Finished, Idle
from tests.effects.shell import Model, Tool, call, calls, kernel, named, said, sound

pytestmark = pytest.mark.anyio


async def lived(k):
    await k.turn()
    return k


# -- history -----------------------------------------------------------------------------------


@pytest.mark.accepts(394)
async def test_history_numbers_rise_and_bookkeeping_has_none():
    k = await lived(kernel(calls("a"), said("x"), tools=[Tool("a")]))
    numbers = [one.seq for one in k.history()]
    assert numbers == list(range(1, k.last_seq() + 1))
    everything = k.history(all=True)
    assert [one for one in everything if one.seq is not None] == k.history()
    assert {one.name for one in everything if one.seq is None} == {"turn.opened", "turn.closed"}
    assert [one.position for one in everything] == sorted(one.position for one in everything)


@pytest.mark.accepts(393)
async def test_the_exchange_of_the_reference():
    """kernel.md 2.14, event by event."""

    async def streaming(request, sink):
        sink.text("It is")
        return said("It is 3.")

    k = kernel(calls("a"), streaming, tools=[Tool("a")])
    stream = k.subscribe()
    k.push(ContextItem.user("again"))
    await k.turn()
    assert [one.name for one in stream.drain()] == (
        "context.added state.changed model.requested context.added model.finished tool.requested "
        "permission.decided state.changed state.changed tool.started context.added tool.finished "
        "state.changed state.changed model.requested model.delta context.added model.finished "
        "state.changed"
    ).split()


@pytest.mark.accepts(396)
async def test_history_since(tmp_path):
    k = await lived(kernel(said("x")))
    last = k.last_seq()
    assert k.history_since(last) == []
    assert k.history_since(0) == k.history()
    assert [one.seq for one in k.history_since(last - 2)] == [last - 1, last]
    everything = k.history_since(last - 2, all=True)
    assert [one.seq for one in everything] == [last - 1, last, None]


@pytest.mark.accepts(397)
async def test_a_record_is_a_plain_object_that_json_can_say():
    k = await lived(kernel(calls("a"), said("x"), tools=[Tool("a")], policy=None))
    k.decide(1, "allow")
    await k.turn()
    for record in k.history(all=True):
        shown = record.to_dict()
        assert json.loads(json.dumps(shown)) == shown
        assert shown["event"]["event"] == record.name
        assert record["event"] == record.name
        assert repr(record).startswith(f"Record({record.position}.")
    (requested,) = named(k, "permission.requested")
    assert requested["request"]["args"] == {}
    started = k.history()[0].to_dict()
    assert (started["format"], started["seq"], started["position"]) == (1, 1, 1)
    moved = [(one["from"]["state"], one["to"]["state"]) for one in named(k, "state.changed")]
    assert moved == [
        ("idle", "requesting"),
        ("requesting", "deciding"),
        ("deciding", "ready"),
        ("ready", "executing"),
        ("executing", "idle"),
        ("idle", "requesting"),
        ("requesting", "finished"),
    ]


async def test_history_is_whole_after_an_opening(tmp_path):
    path = tmp_path / "demo.jsonl"
    with Kernel.open(path, provider=Model(said("x")), durability="memory") as k:
        k.push(ContextItem.user("go"))
        await k.turn()
        before = [one.to_dict() for one in k.history(all=True)]
    with Kernel.open(path, durability="memory") as k:
        k.push(ContextItem.user("more"))
        after = [one.to_dict() for one in k.history(all=True)]
    assert after[: len(before)] == before
    assert [one["event"]["event"] for one in after[len(before) :]] == [
        "session.opened",
        "context.added",
    ]


async def test_a_list_of_history_is_the_callers_own():
    k = await lived(kernel(said("x")))
    k.history().clear()
    k.history(all=True).clear()
    assert k.last_seq() == len(k.history())


# -- earlier states ----------------------------------------------------------------------------


async def test_state_at_every_position(tmp_path):
    with Kernel.open(tmp_path / "demo.jsonl", durability="memory", tools=[Tool("a")]) as k:
        k.set_provider(Model(calls("a"), said("x")))
        seen = {k.position: encode_state(k._writer.state)}
        stream = k.subscribe(all=True)
        k.push(ContextItem.user("go"))
        seen[k.position] = encode_state(k._writer.state)
        await k.turn()
        k.decide(1, "allow")
        await k.turn()
        seen[k.position] = encode_state(k._writer.state)
        assert stream.missed == 0
        for position, state in seen.items():
            assert encode_state(k.state_at(position)) == state
        assert k.state_at(0).position == 0
        assert k.state_at(1).session.name == "demo"
        for wrong in (-1, k.position + 1):
            with pytest.raises(InvalidInput, match="position"):
                k.state_at(wrong)


# -- budgets and previews ----------------------------------------------------------------------


@pytest.mark.accepts(320, 434)
async def test_the_budget_is_what_the_next_request_costs():
    reply = ModelResponse(content=Text("x"), usage=Usage(44, 12))
    k = kernel(reply, tools=[Tool("a")])
    budget = k.budget()
    assert budget.reported is None
    assert budget.limit == 8000
    assert budget.used() == budget.context_tokens + budget.tool_tokens
    assert budget.fraction_used() == budget.used() / 8000
    assert budget.fully_counted()
    await k.turn()
    assert named(k, "model.requested")[0]["tokens"] == budget.used()
    assert k.budget().reported == Usage(44, 12)
    k.set_provider(Model(info=ModelInfo("scripted", "unknown")))
    assert k.budget().fraction_used() is None
    assert k.budget().tool_tokens > 0
    k.clear_provider()
    assert k.budget().limit is None


@pytest.mark.accepts(433)
async def test_what_a_preview_shows_is_what_is_sent():
    sent = []

    async def keeping(request, sink):
        sent.append(request)
        return said("x")

    k = kernel(keeping, tools=[Tool("b"), Tool("a")])
    k.push(ContextItem.file("a.py", "x = 1").pinned())
    k.set_params({"temperature": 0})
    preview = k.preview_request()
    await k.turn()
    assert list(preview.messages) == list(sent[0].messages)
    assert preview.tools == sent[0].tools == tuple(k.tool_specs())
    assert preview.params == sent[0].params
    assert [spec.id for spec in preview.tools] == ["a", "b"]


async def test_an_empty_context_has_no_preview():
    k = Kernel(Config(session_name="demo"), provider=Model())
    for ask in (k.preview_request, k.preview_payload):
        with pytest.raises(EmptyProjection, match="empty request"):
            ask()
    assert list(k.project().messages) == []
    k.push(ContextItem.user("x"))
    k.exclude(1)
    with pytest.raises(EmptyProjection):
        k.preview_request()


@pytest.mark.accepts(403)
async def test_the_payload_is_the_providers_own():
    class Rendering(Model):
        def render(self, request):
            return json.dumps({"messages": len(request.messages)})

    k = kernel()
    assert k.preview_payload() is None
    k.set_provider(Rendering())
    assert k.preview_payload() == {"messages": 1}


async def test_reading_changes_nothing():
    k = kernel(calls("a"), tools=[Tool("a")], policy=None)
    await k.turn()
    before = k.position
    for ask in (
        k.items,
        k.history,
        k.budget,
        k.project,
        k.preview_request,
        k.pending_questions,
        k.pending_permissions,
        k.pending_calls,
        k.unanswered_calls,
        k.tool_specs,
        k.provider_changed,
        k.params,
        k.model_info,
        lambda: k.state_at(3),
        lambda: repr(k),
    ):
        ask()
    assert k.position == before


async def test_one_may_look_at_a_request_that_is_out():
    from tests.effects.shell import Gate

    gate = Gate(said("x"))
    k = kernel(gate)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        assert k.state().__class__.__name__ == "Requesting"
        k.push(ContextItem.user("in between"))
        assert len(k.preview_request().messages) == 2
        assert len(k.provider().requests[0]) == 1
        gate.opened.set()
    assert k.state() == Finished(3, "end_turn")
    assert [item.id for item in k.items()] == [1, 2, 3]
    sound(k)


async def test_the_number_of_the_turn_and_whether_it_is_open():
    k = kernel(calls("a"), said("x"), said("y"), tools=[Tool("a")], max_requests_per_turn=1)
    seen = [(k.turn_number(), k.is_turn_open())]
    for _ in range(3):
        phase = await k.turn()
        seen.append((k.turn_number(), k.is_turn_open()))
    assert phase == Finished(5, "end_turn")
    assert seen == [(0, False), (1, True), (1, False), (2, False)]


async def test_a_call_with_odd_arguments_is_shown_as_it_came():
    k = kernel(ModelResponse.of_calls(call("c1", "a", "not json")), said("x"), tools=[Tool("a")])
    await k.turn()
    assert named(k, "tool.requested")[0]["args"] == "not json"
    assert k.state() != Idle()
