"""CANC: cancel and interrupt races."""

import anyio
import anyio.lowlevel
import pytest

from nachalnik import ContextItem, Rules
from reducers.vocabulary.phases import Finished, Idle
from tests.effects.shell import Gate, Tool, calls, kernel, model, named, names, said, sound, until

pytestmark = pytest.mark.anyio


async def _streamed(request, deltas):
    for word in ("do", "ne"):
        deltas.text(word)
        await anyio.lowlevel.checkpoint()
    return said("done")


@pytest.mark.parametrize("point", range(10))
async def test_canc_01_a_cancel_at_each_await_point(point):
    """Cancelled or finished, once, never both; the next turn is untouched; no flag stays up."""
    k = kernel(_streamed, said("ok"))
    answers = []

    async def cancel_late():
        for _ in range(point):
            await anyio.lowlevel.checkpoint()
        answers.append(k.cancel(1))

    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        group.start_soon(cancel_late)
    closed = [one["reason"] for one in named(k, "turn.closed")]
    if answers == [True]:
        assert closed == ["cancelled"]
        assert k.state() == Idle()
        assert [item.id for item in k.items()] == [1]
    else:
        assert closed in (["finished"], [])  # [] when the cancel came before the turn was opened
        k.cancel()
    assert not k.is_interrupted()
    if closed == []:
        return
    if model(k).replies and len(model(k).replies) == 2:
        model(k).replies.pop(0)
    k.push(ContextItem.user("next"))
    assert isinstance(await k.turn(), Finished)
    assert named(k, "turn.closed")[-1]["reason"] == "finished"
    assert named(k, "turn.closed")[-1]["turn"] == 2
    sound(k)


async def test_canc_01_both_ends_are_met():
    """The schedule above reaches a cancelled turn and a finished one."""
    seen = set()
    for point in range(10):
        k = kernel(_streamed)

        async def cancel_late(k=k, point=point):
            for _ in range(point):
                await anyio.lowlevel.checkpoint()
            seen.add(k.cancel(1))

        async with anyio.create_task_group() as group:
            group.start_soon(k.turn)
            group.start_soon(cancel_late)
    assert seen == {True, False}


def _streaming():
    gate = Gate(said("never"))
    return kernel(gate), gate


def _running():
    gate = Gate()
    return kernel(calls("slow", "slow"), tools=[Tool("slow", gate)]), gate


def _deciding():
    return kernel(calls("note"), tools=[Tool("note")], policy=Rules(ask=["*"])), None


@pytest.mark.parametrize("row", [_streaming, _running, _deciding])
async def test_canc_03_the_end_is_the_same_in_log_state_and_stream(row):
    k, gate = row()
    stream = k.subscribe(all=True)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        if gate is not None:
            await gate.began.wait()
        else:
            await until(k.pending_permissions)
        assert k.cancel(1, "enough")
        assert not k.cancel(1)
    told = [one.name for one in stream.drain()]
    assert told[-1] == "turn.closed"
    assert told == names(k)[-len(told) :]
    assert [one["reason"] for one in named(k, "turn.closed")] == ["cancelled"]
    assert k.state() == Idle()
    assert not k.pending_questions()
    assert not k.unanswered_calls()
    assert gate is None or gate.was_cancelled
    k.close()
    assert stream.drain() == []
    assert [one async for one in stream] == []
