"""The kernel as an object: how it is made, shown, finished and closed; its stream of events."""

import threading

import anyio
import pytest

from effects.logs.port import LogUnusable
from nachalnik import Config, ContextItem, Kernel, Rules
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.phases import Deciding, Idle
from tests.effects.shell import Model, Tool, calls, kernel, named, names, said, sound


@pytest.mark.accepts(394)
def test_a_new_kernel_announces_itself_and_does_nothing_else():
    k = Kernel(Config(session_name="demo"))
    assert names(k) == ["session.started"]
    assert (k.state(), k.position, k.last_seq(), k.turn_number()) == (Idle(), 1, 1, 0)
    assert (k.provider(), k.model_info(), k.policy()) == (None, None, None)
    assert (k.items(), k.next_id(), k.tool_ids(), k.params()) == ([], 1, [], {})
    assert type(k.projector()).__name__ == "LinearProjector"
    assert type(k.counter()).__name__ == "Calibrating"
    assert (k.undo_len(), k.redo_len(), k.tokens(), k.tokens_withheld()) == (0, 0, 0, 0)
    assert not k.is_turn_open()
    sound(k)


def test_parts_given_to_the_constructor_are_announced_in_order():
    k = kernel(tools=[Tool("b"), Tool("a")])
    assert names(k) == [
        "session.started",
        "model.changed",
        "tools.changed",
        "policy.changed",
        "context.added",
    ]
    assert k.tool_ids() == ["a", "b"]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InvalidInput, match="two tools are named 'a'"):
        Kernel(tools=[Tool("a"), Tool("a")])


def test_nameless_sessions_are_counted_and_named_ones_are_not():
    first, second = Kernel(), Kernel()
    Kernel(Config(session_name="between"))
    third = Kernel()
    numbers = [int(one.session_name()) for one in (first, second, third)]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    assert Kernel(Config(session_name="../etc")).session_name() == "../etc"


@pytest.mark.accepts(314)
def test_the_repr_is_one_line_and_no_dump():
    k = kernel(tools=[Tool("b"), Tool("a")])
    k.push(ContextItem.user("a very long text " * 100))
    assert repr(k) == (
        "Kernel(session='demo', state=idle, model=scripted/m1, tools=[a, b], items=2, "
        f"tokens={k.tokens()})"
    )
    assert "model=None, tools=[], items=0, tokens=0" in repr(Kernel())


def test_two_kernels_share_nothing():
    first, second = kernel(), kernel()
    first.push(ContextItem.user("only here"))
    assert first.log_id != second.log_id
    assert len(second.items()) == 1


@pytest.mark.accepts(188, 394)
@pytest.mark.anyio
async def test_finishing_is_no_shutdown():
    k = kernel(said("x"))
    k.finish()
    assert names(k)[-1] == "session.finished"
    await k.turn()
    k.finish()
    assert names(k)[-1] == "session.finished"
    assert "turn.unfinished" not in names(k)
    sound(k)


@pytest.mark.accepts(188)
@pytest.mark.anyio
async def test_finishing_with_calls_pending_names_them():
    k = kernel(calls("a", "b"), tools=[Tool("a"), Tool("b")], policy=Rules(allow=["a"]))
    assert await k.turn() == Deciding((2,))
    before = k.position
    k.finish()
    assert names(k, since=before, all=False) == ["turn.unfinished", "session.finished"]
    assert named(k, "turn.unfinished")[0]["calls"] == ["c1", "c2"]
    sound(k)


@pytest.mark.accepts(146, 147)
def test_reserved_calls_are_counted_once():
    k = kernel()
    assert k.reserve_calls(["c1", "c2", "c1"]) == 2
    assert k.reserve_calls(["c2", "c3"]) == 1
    before = k.position
    assert k.reserve_calls(["c1"]) == 0
    assert k.reserve_calls([]) == 0
    assert k.position == before
    assert [one["reserved"] for one in named(k, "tool.reserved")] == [2, 1]
    sound(k)


@pytest.mark.anyio
async def test_a_reserved_id_is_repaired_when_the_model_uses_it():
    k = kernel(calls("a"), said("x"), tools=[Tool("a")])
    k.reserve_calls(["c1"])
    await k.turn()
    (repaired,) = named(k, "tool.repaired")
    assert (repaired["was"], repaired["call"]) == ("c1", "call_0")
    assert "session" in repaired["reason"]


def test_a_kernel_is_a_context_manager_and_closes_once():
    with kernel() as k:
        stream = k.subscribe()
        k.push(ContextItem.user("x"))
    k.close()
    with pytest.raises(LogUnusable, match="closed"):
        k.push(ContextItem.user("x"))
    assert len(k.items()) == 2
    assert [one.name for one in stream.drain()] == ["context.added"]


# -- subscriptions -----------------------------------------------------------------------------


def test_a_subscriber_sees_what_comes_in_the_order_of_the_log():
    k = kernel()
    stream = k.subscribe()
    k.push(ContextItem.user("x"))
    k.set_state(2, "excluded")
    k.undo()
    shown = stream.drain()
    assert [one.seq for one in shown] == list(range(k.last_seq() - 2, k.last_seq() + 1))
    assert [one.to_dict() for one in shown] == [one.to_dict() for one in k.history()[-3:]]
    assert stream.drain() == []


@pytest.mark.anyio
async def test_bookkeeping_is_shown_to_those_who_ask():
    k = kernel(said("x"))
    plain, everything = k.subscribe(), k.subscribe(all=True)
    await k.turn()
    names_of = {one.name for one in plain.drain()}
    assert "turn.opened" not in names_of
    shown = everything.drain()
    assert {"turn.opened", "turn.closed"} <= {one.name for one in shown}
    assert [one.seq for one in shown if one.name.startswith("turn.")] == [None, None]


def test_one_that_falls_behind_loses_the_oldest_and_is_told_how_many():
    k = kernel(event_queue_depth=3)
    slow, quick = k.subscribe(), k.subscribe()
    seen = []
    for _ in range(10):
        k.push(ContextItem.user("x"))
        seen.append(quick.next_or_none())
    assert (slow.missed, quick.missed) == (7, 0)
    assert [one.seq for one in slow.drain()] == [one.seq for one in seen[-3:]]
    assert quick.next_or_none() is None


def test_a_depth_of_nothing_is_one():
    k = kernel(event_queue_depth=0)
    stream = k.subscribe()
    k.push(ContextItem.user("x"))
    k.push(ContextItem.user("y"))
    assert ([one["id"] for one in stream.drain()], stream.missed) == ([3], 1)


@pytest.mark.anyio
async def test_a_stream_is_read_while_the_turn_runs():
    k = kernel(calls("a"), said("x"), tools=[Tool("a")])
    stream = k.subscribe()
    seen = []

    async def read():
        seen.extend([event.name async for event in stream])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await k.turn()
        stream.close()
    assert seen[0] == "state.changed"
    assert seen[-1] == "state.changed"
    assert seen == [one.name for one in k.history()][-len(seen) :]


@pytest.mark.anyio
async def test_a_stream_is_read_in_one_thread_and_fed_in_others():
    k = kernel()
    stream = k.subscribe()
    seen = []

    def feed():
        for _ in range(25):
            k.push(ContextItem.user("x"))

    async def read():
        async for event in stream:
            seen.append(event.seq)
            if len(seen) == 100:
                return

    threads = [threading.Thread(target=feed) for _ in range(4)]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            for thread in threads:
                thread.start()
    assert seen == list(range(k.last_seq() - 99, k.last_seq() + 1))
    for thread in threads:
        thread.join()


@pytest.mark.anyio
async def test_closing_from_another_thread_ends_a_waiting_reader():
    k = kernel()
    stream = k.subscribe()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def read():
                async for _ in stream:
                    raise AssertionError("nothing was said")

            group.start_soon(read)
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(stream.close)
    k.push(ContextItem.user("x"))
    assert stream.drain() == []


def test_a_reader_whose_loop_is_gone_hinders_nobody():
    k = kernel()
    stream = k.subscribe()

    async def read_and_leave():
        async with anyio.create_task_group() as group:
            group.start_soon(stream.__anext__)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    thread = threading.Thread(target=anyio.run, args=(read_and_leave,))
    thread.start()
    thread.join()
    k.push(ContextItem.user("x"))
    assert len(stream.drain()) == 1


@pytest.mark.accepts(79, 80)
def test_threads_that_swap_the_provider_are_told_in_the_order_of_the_log():
    k = kernel()
    stream = k.subscribe()

    def swap(name):
        from nachalnik import ModelInfo

        for _ in range(20):
            k.set_provider(Model(info=ModelInfo("scripted", name)))

    threads = [threading.Thread(target=swap, args=(name,)) for name in ("m2", "m3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = [one.event for one in stream.drain()]
    last = "m1"
    for change in changes:
        assert change["from"]["model"] == last
        last = change["to"]["model"]
    assert k.provider().described.model == last
