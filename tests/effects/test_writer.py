"""The writer: what is refused, what fails, what interrupts it; memory is never behind silently."""

import threading
from itertools import pairwise

import anyio
import pytest

from effects.border import NotRecordable, admitted
from effects.logs.memory import MemoryLog
from effects.logs.port import LogUnusable, LogWriteFailed
from nachalnik import Config, ContextItem, Kernel, Text
from reducers.vocabulary.errors import Busy
from reducers.vocabulary.inputs import CancelCalls, PushItems, ToolSettled
from reducers.vocabulary.items import UserMessage
from reducers.vocabulary.phases import Finished, Idle, is_busy
from reducers.vocabulary.tools import ToolOutput
from tests.effects.shell import (
    Gate,
    Model,
    Policy,
    Tool,
    calls,
    kernel,
    model,
    named,
    results,
    said,
    sound,
)


@pytest.fixture
def full(monkeypatch):
    """A disk: `full.on()` makes appends fail, `full.off()` makes room again."""

    class Disk:
        is_full = False
        refused = 0

        def on(self):
            self.is_full = True

        def off(self):
            self.is_full = False

    disk = Disk()
    append = MemoryLog.append

    def failing(log, value, contents=()):
        if disk.is_full:
            disk.refused += 1
            raise LogWriteFailed("demo", "no space left on device")
        append(log, value, contents)

    monkeypatch.setattr(MemoryLog, "append", failing)
    return disk


# -- what cannot be written --------------------------------------------------------------------


def test_a_refused_write_changes_nothing_and_can_be_tried_again(full):
    k = kernel()
    before = k._writer.state
    stream = k.subscribe(all=True)
    full.on()
    edits = [
        lambda: k.push(ContextItem.user("more")),
        lambda: k.set_state(1, "excluded"),
        lambda: k.replace(1, "other"),
        lambda: k.annotate(1, {"a": 1}),
        k.undo,
        k.interrupt,
        k.finish,
        lambda: k.set_params({"temperature": 1}),
        lambda: k.reserve_calls(["c1"]),
        k.recount,
    ]
    for edit in edits:
        with pytest.raises(LogWriteFailed, match="no space left"):
            edit()
    assert k._writer.state is before
    assert stream.drain() == []
    full.off()
    assert k.push(ContextItem.user("more")) == 2
    sound(k)


def test_a_part_that_could_not_be_announced_is_not_set(full):
    k = kernel(said("x"), tools=[Tool("a")])
    parts = k.provider(), k.policy(), k.tool("a")
    full.on()
    for change in (
        lambda: k.set_provider(Model()),
        k.clear_provider,
        lambda: k.add_tool(Tool("b")),
        lambda: k.add_tool(Tool("a")),
        lambda: k.remove_tool("a"),
        lambda: k.set_policy(Policy()),
    ):
        with pytest.raises(LogWriteFailed):
            change()
        assert (k.provider(), k.policy(), k.tool("a")) == parts
        assert k.tool_ids() == ["a"]
    full.off()
    sound(k)


@pytest.mark.anyio
async def test_an_effect_whose_commit_failed_is_not_started(full):
    k = kernel(said("hello"))
    full.on()
    with pytest.raises(LogWriteFailed):
        await k.turn()
    assert model(k).requests == []
    assert k.state() == Idle()
    full.off()
    assert await k.turn() == Finished(2, "end_turn")
    sound(k)


@pytest.mark.anyio
async def test_an_answer_of_the_model_that_cannot_be_written_ends_the_request(full):
    async def filling(request, sink):
        full.on()
        return said("lost")

    k = kernel(filling, said("hello"))
    with pytest.raises(LogWriteFailed):
        await k.turn()
    full.off()
    assert await k.turn() == Finished(2, "end_turn")
    assert k.item(2).content == Text("hello")
    assert len(named(k, "request.abandoned")) == 1
    sound(k)


@pytest.mark.anyio
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_result_that_could_not_be_written_is_not_lost(full, parallel):
    """It is written with the next commit the log takes: nobody has to ask how the call ended."""

    async def filling(call, sink):
        full.on()
        return "the only copy"

    b = Tool("b")
    k = kernel(
        calls("a", "b"), said("x"), tools=[Tool("a", filling), b], parallel_tool_calls=parallel
    )
    with pytest.raises(LogWriteFailed):
        await k.turn()
    with pytest.raises(LogWriteFailed):  # still full: nothing goes before what is owed
        k.push(ContextItem.user("more"))
    full.off()
    k.push(ContextItem.user("more"))
    assert k.state() == Idle()
    assert ("c1", "the only copy", False) in results(k)
    assert isinstance(await k.turn(), Finished)
    assert len(results(k)) == 2
    sound(k)


@pytest.mark.anyio
async def test_a_driver_that_could_not_say_that_it_left_has_left(full):
    gate = Gate()
    k = kernel(gate, said("hello"))
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        full.on()
        group.cancel_scope.cancel()
    assert k.state().__class__.__name__ == "Requesting"
    full.off()
    assert await k.turn() == Finished(2, "end_turn")
    assert len(named(k, "request.abandoned")) == 1
    sound(k)


@pytest.mark.anyio
async def test_a_refused_driver_does_not_end_another_drive(full):
    gate = Gate(said("hello"))
    k = kernel(gate)
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        for _ in range(3):
            with pytest.raises(Busy):
                await k.turn()
        gate.opened.set()
    assert named(k, "request.abandoned") == []
    assert k.state() == Finished(2, "end_turn")


# -- interrupted -------------------------------------------------------------------------------


class Interrupted:
    """Raises KeyboardInterrupt at the k-th call of what it wraps: before it, or after it."""

    def __init__(self, wrapped, at, is_after):
        self.wrapped, self.left, self.is_after = wrapped, at, is_after

    def __call__(self, *arguments):
        self.left -= 1
        if self.left == 0 and not self.is_after:
            raise KeyboardInterrupt
        result = self.wrapped(*arguments)
        if self.left == 0:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("place", ["_clock", "_apply", "_publish", "_draw", "append"])
def test_ctrl_c_inside_a_commit_is_never_silent(place, is_after):
    """R25: either nothing happened, or the session says that it has to be opened again."""
    k = kernel()
    writer = k._writer
    if place == "append":
        interrupted = Interrupted(writer.log.append, 1, is_after)
        writer.log.append = interrupted
    else:
        interrupted = Interrupted(getattr(writer, place), 1, is_after)
        setattr(writer, place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        k.push(ContextItem.user("more"))
    if place == "append":
        writer.log.append = interrupted.wrapped
    else:
        setattr(writer, place, interrupted.wrapped)
    if place in ("append", "_apply", "_publish"):
        with pytest.raises(LogUnusable, match=r"KeyboardInterrupt.*open it again"):
            k.push(ContextItem.user("still more"))
    else:
        k.push(ContextItem.user("still more"))
        assert len(k.items()) == (2 if place == "_clock" else 3)
        sound(k)


@pytest.mark.anyio
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", range(1, 6))
async def test_ctrl_c_around_a_commit_of_a_drive_leaves_no_busy_loop(at, is_after):
    k = kernel(calls("a"), said("x"), tools=[Tool("a")])
    shell = k._interpreter
    shell._keep_parts = Interrupted(shell._keep_parts, at, is_after)
    if at < 5:
        with pytest.raises(KeyboardInterrupt):
            await k.turn()
    else:
        await k.turn()
    shell._keep_parts = shell._keep_parts.wrapped
    assert not is_busy(k.state())
    k.provider().replies = [said("again")]
    assert isinstance(await k.turn(), Finished)
    sound(k)


@pytest.mark.anyio
@pytest.mark.parametrize("is_after", [False, True])
async def test_ctrl_c_while_a_driver_leaves_leaves_no_busy_loop(is_after):
    """The second of two: the first one cancelled the driver."""
    gate = Gate()
    k = kernel(gate, said("hello"))
    shell = k._interpreter
    pay = shell._debts.pay
    async with anyio.create_task_group() as group:

        async def drive():
            with pytest.raises(KeyboardInterrupt):
                await k.turn()

        group.start_soon(drive)
        await gate.began.wait()
        shell._debts.pay = Interrupted(pay, 1, is_after)
        group.cancel_scope.cancel()
    shell._debts.pay = pay
    assert await k.turn() == Finished(2, "end_turn")
    assert len(named(k, "request.abandoned")) == 1
    sound(k)


@pytest.mark.anyio
async def test_ctrl_c_before_a_driver_leaves_leaves_no_busy_loop(monkeypatch):
    gate = Gate()
    k = kernel(gate, said("hello"))
    with monkeypatch.context() as patch:
        async with anyio.create_task_group() as group:

            async def drive():
                with pytest.raises(KeyboardInterrupt):
                    await k.turn()

            group.start_soon(drive)
            await gate.began.wait()
            patch.setattr(k._interpreter, "_leave", Interrupted(k._interpreter._leave, 1, False))
            group.cancel_scope.cancel()
    assert is_busy(k.state())
    assert await k.turn() == Finished(2, "end_turn")
    sound(k)


def test_after_an_interruption_no_state_cache_is_written(tmp_path):
    """The state in memory is behind the log then: a cache of it would lose a commit for good."""
    k = Kernel.open(tmp_path / "a.jsonl", durability="memory")
    k._cached_at = -1000
    k._writer._apply = Interrupted(k._writer._apply, 1, False)
    with pytest.raises(KeyboardInterrupt):
        k.push(ContextItem.user("more"))
    k.close()
    assert not (tmp_path / "a.jsonl.state").exists()
    with Kernel.open(tmp_path / "a.jsonl", durability="memory") as k:
        assert len(k.items()) == 1


# -- the border --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": "bare text"}, "context.push"),
        ({"content": Text(5)}, "context.push"),
        ({"content": Text(b"bytes")}, "a text should stand"),
        ({"label": None}, "context.push"),
        ({"source": 7}, "context.push"),
        ({"meta": "{"}, "not JSON"),
        ({"state": "frozen"}, "context.push"),
        ({"kind": "user_message"}, "context.push"),
        ({"kind": object()}, "context.push"),
        ({"tokens": "many"}, "context.push"),
    ],
)
def test_items_that_no_log_could_hold_are_refused(change, words):
    k = kernel()
    before = k.position
    fields = {
        "kind": UserMessage(),
        "source": "user",
        "label": "user",
        "content": Text("x"),
        "state": "active",
        **change,
    }
    with pytest.raises(NotRecordable, match=words):
        k.push(ContextItem(**fields))
    assert k.position == before
    sound(k)


def test_a_list_is_taken_for_a_tuple():
    item = ContextItem.user("x")
    assert admitted(PushItems([item])) == PushItems((item,))


def test_an_input_that_is_well_formed_is_not_touched():
    for input in (PushItems((ContextItem.user("x"),)), CancelCalls("enough")):
        assert admitted(input) is input


def test_repairs_are_counted_over_the_whole_input():
    items = (ContextItem.user("a \ud800"), ContextItem.user("b \udfff\ud800"))
    found = admitted(PushItems(items))
    assert found.mended == 3
    assert [item.content.text for item in found.items] == ["a \ufffd", "b \ufffd\ufffd"]
    settled = admitted(ToolSettled("1.0", ToolOutput(Text("\udc80")), mended=2))
    assert settled.mended == 3


def test_malformed_text_that_is_pushed_is_mended_and_never_refused():
    """R27: user pushes are treated like tool output."""
    k = kernel()
    k.push(ContextItem.user("half \ud800"))
    assert k.item(2).content == Text("half \ufffd")
    assert "1 character(s)" in k.item(2).included_because
    k.push(ContextItem.file("a\udc80b", "x").because("the user opened it"))
    assert k.item(3).label == "a\ufffdb"
    assert k.item(3).included_because.startswith("the user opened it; 1 character(s)")
    sound(k)


# -- threads -----------------------------------------------------------------------------------


def test_writers_from_many_threads_are_applied_in_the_order_they_are_told():
    k = Kernel(Config(session_name="demo"))
    id = k.push(ContextItem.user("x"))
    stream = k.subscribe()

    def flip(state):
        for _ in range(50):
            k.set_state(id, state)

    states = ["active", "excluded", "pinned", "elided"]
    threads = [threading.Thread(target=flip, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = [one.event for one in stream.drain()]
    assert all(one["to"] == other["from"] for one, other in pairwise(changes))
    assert changes[-1]["to"] == k.item(id).state
    sound(k)
