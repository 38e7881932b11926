"""`Kernel.open`: a new path, a log, a log after a crash, with a cache and without (RESU, ONCE)."""

import errno
import os
import pathlib
from itertools import pairwise

import anyio
import pytest

import nachalnik.kernel
from effects.logs.port import LogDamaged, LogUnreadable, LogWriteFailed, NotALog, SessionOwned
from effects.replay import restore
from effects.tools.function import tool
from nachalnik import Config, ContextItem, Kernel, ModelInfo, Rules
from reducers.statecodec import encode_state
from reducers.vocabulary.errors import InvalidInput, NoProvider, NoTool
from reducers.vocabulary.phases import Deciding, Finished, Idle, Ready
from tests.effects.shell import Gate, Model, Policy, Tool, calls, named, names, results, said, sound

pytestmark = pytest.mark.anyio
ALLOW = Rules(allow=["*"])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.jsonl"


def opened(path, *replies, **options):
    options.setdefault("provider", Model(*replies))
    return Kernel.open(path, durability="memory", **options)


def log_file(k):
    return pathlib.Path(k._log.path)


async def killed(k, *gates):
    """As if the process died while these waited: nothing more is written, the lock falls."""
    file, lines = log_file(k), b""
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        for gate in gates:
            await gate.began.wait()
        lines = file.read_bytes()
        group.cancel_scope.cancel()
    k.close()
    file.write_bytes(lines)


# -- paths -------------------------------------------------------------------------------------


async def test_a_new_path_begins_a_session_named_after_it(path):
    with opened(path) as k:
        assert k.session_name() == "demo"
        assert names(k) == ["session.started", "model.changed"]
    assert oct(path.stat().st_mode)[-3:] == "600"


async def test_the_configured_name_wins_on_a_new_path_only(path):
    with opened(path, config=Config(session_name="mine")) as k:
        assert k.session_name() == "mine"
    with opened(path, config=Config(session_name="other")) as k:
        assert k.session_name() == "mine"


async def test_a_name_that_is_no_text_names_the_file_and_mended_the_session(tmp_path):
    name = os.fsdecode(b"caf\xe9.jsonl")
    with opened(tmp_path / name) as k:
        assert k.session_name() == "caf\ufffd"
    with opened(tmp_path / name) as k:
        assert k.session_name() == "caf\ufffd"
    assert sorted(os.listdir(tmp_path)) == [name, f"{name}.lock"]


async def test_a_path_with_dots_is_a_path_and_no_name_becomes_one(tmp_path):
    (tmp_path / "a").mkdir()
    with opened(tmp_path / "a" / ".." / "b.jsonl", config=Config(session_name="../../c")) as k:
        assert k.session_name() == "../../c"
        k.push(ContextItem.user("x"))
    assert sorted(os.listdir(tmp_path)) == ["a", "b.jsonl", "b.jsonl.lock"]
    assert not (tmp_path.parent.parent / "c").exists()
    assert not (tmp_path / "a").joinpath("..", "..", "c").exists()


@pytest.mark.parametrize("start", [b"", b'{"nachalnik":1,"ch'])
async def test_what_a_crash_left_of_a_creation_is_begun_anew(path, start):
    path.write_bytes(start)
    with opened(path) as k:
        assert names(k)[0] == "session.started"
        sound(k)


async def test_a_log_that_holds_its_header_alone_is_begun(path):
    with opened(path) as k:
        log_id = k.log_id
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    with opened(path, config=Config(max_requests_per_turn=3)) as k:
        assert (k.log_id, k.session_name()) == (log_id, "demo")
        assert names(k) == ["session.started", "model.changed"]
        assert k.config.max_requests_per_turn == 3
        sound(k)


async def test_what_is_no_log_is_left_as_it_is(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("shopping: milk\n")
    with pytest.raises(NotALog, match=r"notes.txt"):
        opened(text)
    assert text.read_text() == "shopping: milk\n"
    with pytest.raises((NotALog, LogUnreadable)):
        opened(tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]


async def test_a_damaged_log_is_not_opened_and_nothing_is_written(path):
    with opened(path) as k:
        k.push(ContextItem.user("hello"))
    damaged = path.read_bytes().replace(b"hello", b"hallo")
    path.write_bytes(damaged)
    with pytest.raises(LogDamaged, match="line 4"):
        opened(path)
    assert path.read_bytes() == damaged


async def test_two_kernels_on_one_log(path):
    with opened(path) as k:
        with pytest.raises(SessionOwned, match=str(os.getpid())):
            opened(path)
        k.push(ContextItem.user("x"))
    with opened(path) as k:
        assert len(k.items()) == 1


@pytest.mark.parametrize("part", ["provider", "tool", "policy", "seam"])
@pytest.mark.parametrize("is_new", [True, False])
async def test_a_part_that_fails_lets_the_log_go(path, part, is_new):
    if not is_new:
        opened(path).close()

    class Broken(Tool):
        def info(self):
            raise LookupError("no info")

        spec = info

    parts = {
        "provider": {"provider": Broken("a")},
        "tool": {"tools": [Broken("a")]},
        "policy": {"policy": Broken("a")},
        "seam": {"counter": lambda: None},
    }[part]
    with pytest.raises((LookupError, InvalidInput, AttributeError)):
        opened(path, **parts)
    with opened(path) as k:
        k.push(ContextItem.user("x"))
        sound(k)


# -- again -------------------------------------------------------------------------------------


async def test_everything_is_there_again(path):
    config = Config(context_undo_depth=5)
    tools, policy = [Tool("a")], Policy(a="ask")
    with opened(path, calls("a"), tools=tools, policy=policy, config=config) as k:
        k.push(ContextItem.user("go"))
        k.set_params({"temperature": 0})
        assert await k.turn() == Deciding((1,))
        before = k._writer.state
        items, questions = k.items(), k.pending_questions()
    with opened(path, tools=tools, policy=policy) as k:
        assert k.state() == Deciding((1,))
        assert (k.items(), k.pending_questions()) == (items, questions)
        assert k.config == config
        assert k.params() == {"temperature": 0}
        assert k.undo_len() == len(before.context.undo)
        assert names(k, since=before.position) == ["session.opened"]
        sound(k)


async def test_resu_01_an_open_question_survives_with_its_id(path):
    a = Tool("a")
    k = opened(path, calls("a"), tools=[a])
    k.push(ContextItem.user("go"))
    await k.turn()
    (question,) = k.pending_permissions()
    k.close()
    k = opened(path, said("x"), tools=[a])
    assert k.pending_permissions() == [question]
    assert a.runs == []
    assert k.decide(question.id, "allow", args=question.args_digest) == Ready(("c1",))
    assert await k.turn() == Finished(4, "end_turn")
    assert a.runs == ["c1"]
    sound(k)
    k.close()


async def test_once_01_what_was_done_before_the_question_is_not_done_again(path):
    a, b = Tool("a", "1"), Tool("b", "2")
    k = opened(path, calls("a"), calls("b"), tools=[a, b], policy=Rules(allow=["a"]))
    k.push(ContextItem.user("go"))
    await k.turn()
    (question,) = k.pending_permissions()
    k.close()
    k = opened(path, said("x"), tools=[a, b], policy=Rules(allow=["a"]))
    k.decide(question.id, "allow")
    assert isinstance(await k.turn(), Finished)
    assert (len(a.runs), len(b.runs)) == (1, 1)
    assert [text for _, text, _ in results(k)] == ["1", "2"]
    k.close()


async def test_resu_05_openings_without_input_add_one_commit_each(path):
    with opened(path, said("x")) as k:
        k.push(ContextItem.user("go"))
        await k.turn()
    provider, sizes = Model(), []
    for _ in range(6):
        with opened(path, provider=provider) as k:
            assert k.unanswered_calls() == k.pending_questions() == []
            assert names(k)[-1] == "session.opened"
        sizes.append(path.stat().st_size)
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) - min(grown) <= 1  # a digit more of the position
    assert max(grown) < 300
    assert provider.requests == []


# -- parts -------------------------------------------------------------------------------------


async def test_equal_parts_are_silence_and_others_are_told(path):
    tools, policy = [Tool("a")], ALLOW
    opened(path, tools=tools, policy=policy).close()
    with opened(path, tools=tools, policy=policy) as k:
        assert names(k)[-1] == "session.opened"
        before = k.position
    with opened(
        path,
        provider=Model(info=ModelInfo("scripted", "m2")),
        tools=[Tool("b")],
        policy=Rules(deny=["*"]),
    ) as k:
        assert names(k, since=before) == [
            "session.opened",
            "model.changed",
            "tools.changed",
            "policy.changed",
        ]
        sound(k)


async def test_parts_that_are_not_given_are_absent(path):
    a = Tool("a")
    with opened(path, tools=[a], policy=ALLOW) as k:
        k.push(ContextItem.user("go"))
    with Kernel.open(path, durability="memory") as k:
        before = k.position
        assert (k.model_info(), k.tool_ids(), k.policy()) == (None, [], None)
        with pytest.raises(NoProvider):
            await k.turn()
        assert k.position == before
        assert k.preview_request().tools == ()
        k.set_provider(Model(calls("a"), said("x")))
        k.add_tool(a)
        assert await k.turn() == Deciding((1,))  # nobody brought the policy that allowed it
        k.decide(1, "allow")
        assert await k.turn() == Finished(4, "end_turn")
        sound(k)


async def test_another_configuration_is_taken_and_none_leaves_it(path):
    with opened(path, config=Config(context_undo_depth=3)) as k:
        k.push(ContextItem.user("x"))
    with opened(path) as k:
        assert k.config.context_undo_depth == 3
    with opened(path, config=Config(context_undo_depth=7)) as k:
        assert k.config.context_undo_depth == 7
        sound(k)


# -- after a crash -----------------------------------------------------------------------------


async def test_a_request_that_was_out_is_given_up(path):
    gate = Gate()
    k = opened(path, gate)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x")) as k:
        assert k.state() == Idle()
        assert names(k)[-3:] == ["session.opened", "request.abandoned", "state.changed"]
        assert await k.turn() == Finished(2, "end_turn")
        assert k.turn_number() == 1
        sound(k)


async def test_a_started_call_is_asked_about(path):
    gate = Gate()
    tools = [Tool("a"), Tool("b", gate), Tool("c")]
    k = opened(path, calls("a", "b", "c"), tools=tools, policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x"), tools=tools, policy=ALLOW) as k:
        (question,) = k.pending_questions()
        assert k.state() == Deciding((question.id,))
        assert (question.call, question.tool) == ("c2", "b")
        assert k.pending_permissions() == []
        assert await k.turn() == Deciding((question.id,))
        assert [(one.call, one.was_started) for one in k.unanswered_calls()] == [("c2", True)]
        assert k.settle("c2", "somebody looked") == Ready(("c3",))
        assert await k.turn() == Finished(6, "end_turn")
        assert [text for _, text, _ in results(k)] == ["done", "somebody looked", "done"]
        assert (len(tools[0].runs), len(tools[1].runs), len(tools[2].runs)) == (1, 1, 1)
        sound(k)


async def test_a_started_call_is_run_again_on_order_under_its_key(path):
    gate = Gate()
    b = Tool("b", gate)
    k = opened(path, calls("b"), tools=[b], policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    b.act = "the second time"
    with opened(path, said("x"), tools=[b], policy=ALLOW) as k:
        assert k.retry("c1") == Ready(("c1",))
        assert await k.turn() == Finished(4, "end_turn")
        first, second = b.sinks
        assert (first.attempt, second.attempt) == (1, 2)
        assert first.key == second.key
        assert results(k) == [("c1", "the second time", False)]
        sound(k)


async def test_an_idempotent_call_is_ready_again_under_its_key(path):
    gate = Gate()
    b = Tool("b", gate, idempotent=True)
    k = opened(path, calls("b"), tools=[b], policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    b.act = "done"
    with opened(path, said("x"), tools=[b], policy=ALLOW) as k:
        assert k.state() == Ready(("c1",))
        assert k.pending_questions() == []
        assert b.runs == ["c1"]  # nothing is started by an opening
        assert await k.turn() == Finished(4, "end_turn")
        assert b.sinks[0].key == b.sinks[1].key
        sound(k)


@pytest.mark.parametrize("can_tell", [True, False])
async def test_a_tool_that_can_tell_is_asked_before_anybody(path, can_tell):
    gate = Gate()
    asked = []

    class Telling(Tool):
        async def reconcile(self, call, key):
            asked.append((call.id, key))
            return "it took effect" if can_tell else None

    b = Telling("b", gate)
    k = opened(path, calls("b"), tools=[b], policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x"), tools=[b], policy=ALLOW) as k:
        assert len(k.pending_questions()) == 1
        assert asked == []
        phase = await k.turn()
        assert asked == [("c1", b.sinks[0].key)]
        if can_tell:
            assert phase == Finished(4, "end_turn")
            assert results(k) == [("c1", "it took effect", False)]
            assert named(k, "question.answered")[0]["how"] == "reconciled"
        else:
            assert phase == Deciding((k.pending_questions()[0].id,))
            await k.turn()
            assert len(asked) == 1
        sound(k)
    assert len(b.runs) == 1


class Asked(Tool):
    """A tool that can tell, and waits at a gate before it does."""

    def __init__(self, id, act, gate):
        super().__init__(id, act)
        self.gate = gate
        self.asked = []

    async def reconcile(self, call, key):
        self.asked.append(key)
        return await self.gate(call)


async def test_two_drivers_ask_a_tool_that_can_tell_once(path):
    gate, told = Gate(), Gate("it took effect")
    b = Asked("b", gate, told)
    k = opened(path, calls("b"), tools=[b], policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x"), tools=[b], policy=ALLOW) as k:
        async with anyio.create_task_group() as group:
            group.start_soon(k.turn)
            await told.began.wait()
            assert isinstance(await k.turn(), Deciding), "the other one is being told"
            told.opened.set()
        assert len(b.asked) == 1
        assert isinstance(k.state(), Finished)
        sound(k)


async def test_a_cancel_while_a_tool_is_asked_ends_the_turn_and_sends_nothing(path):
    gate, told = Gate(), Gate("it took effect")
    b = Asked("b", gate, told)
    k = opened(path, calls("b"), tools=[b], policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    model = Model(said("x"))
    with opened(path, provider=model, tools=[b], policy=ALLOW) as k:
        phases = []
        async with anyio.create_task_group() as group:

            async def drive():
                phases.append(await k.turn())

            group.start_soon(drive)
            await told.began.wait()
            assert k.cancel()
        assert told.was_cancelled
        assert phases == [Idle()]
        assert model.requests == []
        assert [one["reason"] for one in named(k, "turn.closed")] == ["cancelled"]
        sound(k)


async def test_an_answer_a_full_disk_refused_is_written_at_the_latest_by_close(path):
    k = opened(path, calls("b"), said("x"), tools=[Tool("b")], policy=ALLOW)
    k.push(ContextItem.user("go"))
    write, tried = k._log._write, []

    def full(fd, data):
        if b'"tool.settled"' in data or tried:
            tried.append(data)
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    k._log._write = full
    for _ in range(3):
        with pytest.raises(LogWriteFailed):
            await k.turn()
    k._log._write = write
    k.close()
    with opened(path, said("x"), tools=[Tool("b")], policy=ALLOW) as k:
        assert results(k) == [("c1", "done", False)]
        assert k.pending_questions() == []
        assert isinstance(await k.turn(), Finished)
        sound(k)


async def test_a_tool_that_can_tell_may_come_later_and_may_fail(path):
    gate = Gate()

    @tool(thread=False)
    def pay() -> str:
        """Pay."""
        return "paid"

    @pay.reconciler
    def paid(key):
        raise LookupError("the bank is closed")

    b = Tool("pay", gate)
    b.reconcile = pay.reconcile
    k = opened(path, calls("pay"), tools=[b], policy=ALLOW)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x"), policy=ALLOW) as k:
        (question,) = k.pending_questions()
        assert await k.turn() == Deciding((question.id,))
        k.add_tool(pay)
        assert await k.turn() == Deciding((question.id,))  # asked, and it could not say
        assert len(named(k, "question.left")) == 1
        assert k.fail("c1", "nobody knows") == Idle()
        assert await k.turn() == Finished(4, "end_turn")
        sound(k)


async def test_a_judgement_nobody_heard_is_asked_of_people(path):
    gate = Gate("allow")
    a = Tool("a")
    k = opened(path, calls("a"), tools=[a], policy=Policy(a=gate))
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x"), tools=[a], policy=Policy(a="allow")) as k:
        (question,) = k.pending_permissions()
        assert k.state() == Deciding((question.id,))
        k.decide(question.id, "allow")
        assert await k.turn() == Finished(4, "end_turn")
        sound(k)


async def test_answers_that_waited_for_their_neighbours_are_results(path):
    gate = Gate()
    tools = [Tool("a", "quick"), Tool("b", gate)]
    config = Config(parallel_tool_calls=True)
    k = opened(path, calls("a", "b"), tools=tools, policy=ALLOW, config=config)
    k.push(ContextItem.user("go"))
    await killed(k, gate)
    with opened(path, said("x"), tools=tools, policy=ALLOW) as k:
        assert results(k) == [("c1", "quick", False)]
        assert [one.call for one in k.unanswered_calls()] == ["c2"]
        k.settle("c2", "looked")
        assert await k.turn() == Finished(5, "end_turn")
        assert len(tools[0].runs) == 1
        sound(k)


async def test_what_its_driver_left_does_not_block_after_an_opening(path):
    """R15: outcome unknown blocks after a crash, and not after the driver left."""
    gate = Gate()
    k = opened(path, calls("a"), tools=[Tool("a", gate)], policy=ALLOW)
    k.push(ContextItem.user("go"))
    async with anyio.create_task_group() as group:
        group.start_soon(k.turn)
        await gate.began.wait()
        group.cancel_scope.cancel()
    k.close()
    with opened(path, said("x"), tools=[Tool("a")], policy=ALLOW) as k:
        assert k.state() == Idle()
        assert [one.call for one in k.unanswered_calls()] == ["c1"]
        assert await k.turn() == Finished(4, "end_turn")
        assert "result was never received" in results(k)[0][1]
        sound(k)


# -- the state cache ---------------------------------------------------------------------------


@pytest.fixture
def cached_often(monkeypatch):
    monkeypatch.setattr(nachalnik.kernel, "CACHE_EVERY", 5)


def cache_of(path):
    return path.with_name(path.name + ".state")


async def test_with_a_cache_and_without_it_is_the_same_session(path, cached_often):
    with opened(path, calls("a"), said("x"), tools=[Tool("a")], policy=ALLOW) as k:
        k.push(ContextItem.user("go"))
        await k.turn()
        k.push(ContextItem.user("more"))
        k.undo()
        state = encode_state(k._writer.state)
    assert cache_of(path).exists()
    with opened(path) as k:
        assert k._log.cached_position > 0
        assert encode_state(k.state_at(k.position - 1)) == state
        assert encode_state(restore(k._log)) == encode_state(k._writer.state)
        with_cache = [one.to_dict() for one in k.history(all=True)][:-1]
        sound(k)
    cache_of(path).unlink()
    with opened(path) as k:
        assert k._log.cached_position == 0
        assert [one.to_dict() for one in k.history(all=True)][:-2] == with_cache
        sound(k)


async def test_short_sessions_get_their_cache_too(path, cached_often):
    """What counts is how far the last cache is behind, not how long this process lived."""
    opened(path).close()
    for _ in range(6):
        with opened(path) as k:
            k.push(ContextItem.user("x"))
    assert cache_of(path).exists()
    with opened(path) as k:
        assert 0 < k._log.cached_position < k.position


async def test_a_cache_that_is_none_is_no_harm(path, cached_often):
    with opened(path) as k:
        for _ in range(10):
            k.push(ContextItem.user("x"))
    whole = cache_of(path).read_bytes()
    for wrong in (b"", b"nonsense", whole[:-5], whole.replace(b'"x"', b'"y"', 1)):
        cache_of(path).write_bytes(wrong)
        with opened(path) as k:
            assert k._log.cached_position == 0
            assert k._log.cache_problem
            assert len(k.items()) == 10
            sound(k)


async def test_closing_twice_and_using_it_after(path):
    k = opened(path)
    k.push(ContextItem.user("x"))
    k.close()
    k.close()
    assert len(k.items()) == 1
    assert [one.name for one in k.history()][-1] == "context.added"
    assert k.state_at(1).position == 1


async def test_a_ready_call_waits_for_its_tool_whoever_opens_the_log(path):
    with opened(path, calls("a"), tools=[Tool("a")]) as k:
        k.push(ContextItem.user("go"))
        await k.turn()
        k.decide(1, "allow")
    with opened(path, said("done"), tools=[Tool("b")]) as k:
        before = k.position
        with pytest.raises(NoTool, match=r"'c1' .* no tool 'a'"):
            await k.turn()
        assert (k.position, k.state()) == (before, Ready(("c1",)))
        k.interrupt()
        assert isinstance(await k.turn(), Ready), "an interrupt comes first"
        k.add_tool(Tool("a"))
        assert isinstance(await k.turn(), Finished)
        assert results(k) == [("c1", "done", False)]


async def test_only_calls_that_may_run_need_their_tool(path):
    with opened(path, calls("a"), tools=[Tool("a")]) as k:
        k.push(ContextItem.user("go"))
        await k.turn()
        k.decide(1, "deny")
    with opened(path, said("done")) as k:
        assert isinstance(await k.turn(), Finished)
        assert results(k)[0][2]
