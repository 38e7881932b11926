"""ONCE: a tool runs twice after a resume or a retry."""

import threading

import anyio
import anyio.lowlevel
import pytest

from effects.logs.scan import read_log
from nachalnik import Kernel, Rules
from reducers.vocabulary.errors import AlreadyResolved
from reducers.vocabulary.phases import Finished
from tests.cases.peers import outside, peers
from tests.effects.shell import Gate, Tool, calls, kernel, named, results, said, sound


def test_once_03_a_second_process_is_refused_while_the_tool_runs(tmp_path):
    path = tmp_path / "log.jsonl"
    script = 'model> call c slow{"s":20} [tool]\nmodel> "done"'
    with peers(2) as (owner, other):
        owner.ask("open", path=str(path), replies=script)
        owner.send("turn", text="go")
        assert owner.answer() == {"running": True}
        refused = other.ask("open", path=str(path), replies=script)
        assert refused["error"] == "SessionOwned"
        assert f"process {owner.process.pid} on " in refused["said"]
        with read_log(path) as view:  # reading is allowed, and takes nothing from the owner
            assert len(list(view.commits)) > 5
        owner.send("go")
        assert owner.answer() == {"state": "Finished"}
        owner.ask("close")
        assert "opened" in other.ask("open", path=str(path), replies='model> "later"')
        other.ask("close")
    assert outside(path).count("slow") == 1
    with Kernel.open(path) as reopened:
        assert results(reopened) == [("c", "slept 20 s", False)]


def _asked():
    """A kernel that waits for the answer to one question, and the tool it is about."""
    note = Tool("note", Gate("noted"))
    note.act.opened.set()
    return kernel(calls("note"), said("done"), tools=[note], policy=Rules(ask=["note"])), note


async def _until_asked(asked):
    await asked.turn()
    return asked.pending_permissions()[0].id


def _granted_once(asked, note):
    assert note.runs == ["c1"]
    decided = named(asked, "permission.decided")
    assert [(one["grant"], one["source"]) for one in decided] == [("allow", "user")]
    assert results(asked) == [("c1", "noted", False)]
    sound(asked)


@pytest.mark.parametrize("trial", range(8))
def test_once_05_of_two_threads_one_grants(trial):
    asked, note = _asked()
    question = anyio.run(_until_asked, asked)
    together = threading.Barrier(2)
    outcomes = []

    def grant():
        together.wait()
        try:
            asked.decide(question, "allow")
            outcomes.append("granted")
        except AlreadyResolved as error:
            outcomes.append(error.how)

    threads = [threading.Thread(target=grant) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["granted", "granted"]
    assert isinstance(anyio.run(asked.turn), Finished)
    _granted_once(asked, note)


@pytest.mark.anyio
@pytest.mark.parametrize("point", range(12))
async def test_once_05_a_second_grant_at_each_await_point(point):
    """The second client comes `point` turns of the event loop after the first, or before it."""
    asked, note = _asked()
    question = await _until_asked(asked)
    refused = []

    async def second():
        for _ in range(point):
            await anyio.lowlevel.checkpoint()
        try:
            asked.decide(question, "allow")
        except AlreadyResolved as error:
            refused.append(error.how)

    async def first():
        await anyio.lowlevel.checkpoint()
        try:
            asked.decide(question, "allow")
        except AlreadyResolved as error:
            refused.append(error.how)
        assert isinstance(await asked.turn(), Finished)

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        group.start_soon(second)
    assert refused == ["granted"]
    _granted_once(asked, note)
