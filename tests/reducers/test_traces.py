"""The golden traces: what each input makes the loop record, in this order and no other.

One row is one commit: the input, then its events; bookkeeping in brackets; `o` opens an undo point,
`j` joins one. From rulings section 2 and kernel.md 2.5, 2.8 and 2.14.
"""

from textwrap import dedent

import pytest
from msgspec.structs import replace

from reducers import outstanding
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Text
from reducers.vocabulary.models import ModelResponse, Usage
from reducers.vocabulary.phases import Finished
from reducers.vocabulary.policies import PolicyInfo
from reducers.vocabulary.tools import ToolOutput
from tests.reducers.driving import (
    ADD,
    ALLOW_ADD,
    ALLOW_ALL,
    NOTE,
    Core,
    call,
    recorded,
    started,
)

FINISHED = Finished(6, "end_turn")
TURN = i.RunTurn()
IDEMPOTENT = replace(ADD, idempotent=True)
RECONCILES = replace(ADD, reconciles=True)


def rows(text: str) -> list[str]:
    """A table as written, with its wrapped rows joined."""
    joined: list[str] = []
    for row in dedent(text).strip("\n").splitlines():
        if row.startswith(" "):
            joined[-1] += f" {row}"
        else:
            joined.append(row)
    return [" ".join(row.split()) for row in joined]


def same(core: Core, text: str, since: int = 1) -> None:
    """The whole trace but the opening, or from a commit on."""
    assert [" ".join(row.split()) for row in core.told(since)] == rows(text)


def asked(*calls, run=TURN, policy=ALLOW_ALL, tools=(ADD, NOTE), **config) -> Core:
    """A session whose model has just asked for these calls."""
    core = started(policy, tools=tools, **config)
    core.push("go")
    core.feed(run)
    core.ask(*calls)
    return core


# -- whole exchanges ---------------------------------------------------------------------------


def test_serial_calls_by_turn():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    core.ask("c1", "c2", usage=Usage(20, 5))
    core.result("c1")
    core.result("c2")
    core.say("done", Usage(30, 2))
    same(
        core,
        """
        context.push   context.added 1 o
        turn.run       [turn.opened 1] · >requesting · model.requested
        model.settled  [counter.observed] · context.added 2 o · model.finished 2 ·
                       tool.requested c1 · tool.requested c2 ·
                       permission.decided 1 c1 allow/policy · permission.decided 2 c2 allow/policy ·
                       >ready{c1,c2} · >executing{c1,c2} · tool.started c1
        tool.settled   context.added 3 o · tool.finished c1 · tool.started c2
        tool.settled   context.added 4 j · tool.finished c2 · >idle · >requesting · model.requested
        model.settled  [counter.observed] · context.added 5 o · model.finished 5 ·
                       >finished{5 end_turn} · [turn.closed 1 finished]
        """,
    )


def test_serial_calls_by_step():
    core = asked("c1", "c2", run=i.RunStep())
    same(
        core,
        """
        step.run       [turn.opened 1] · >requesting · model.requested
        model.settled  context.added 2 o · model.finished 2 ·
                       tool.requested c1 · tool.requested c2 ·
                       permission.decided 1 c1 allow/policy · permission.decided 2 c2 allow/policy ·
                       >ready{c1,c2}
        """,
        since=2,
    )
    core.feed(i.RunStep())
    core.result("c1")
    core.result("c2")
    core.feed(i.RunStep())
    core.say("done")
    same(
        core,
        """
        step.run       >executing{c1,c2} · tool.started c1
        tool.settled   context.added 3 o · tool.finished c1 · tool.started c2
        tool.settled   context.added 4 j · tool.finished c2 · >idle
        step.run       >requesting · model.requested
        model.settled  context.added 5 o · model.finished 5 · >finished{5 end_turn} ·
                       [turn.closed 1 finished]
        """,
        since=4,
    )


@pytest.mark.parametrize("parallel", [False, True], ids=["serial", "parallel"])
@pytest.mark.parametrize("policy", [ALLOW_ALL, ALLOW_ADD], ids=["allowed", "one asked"])
def test_steps_and_a_turn_record_the_same_in_the_same_order(parallel, policy):
    """What drives the loop decides where commits end, and nothing else."""

    def drive(run):
        core = started(policy, parallel_tool_calls=parallel)
        core.push("go")
        core.feed(run)
        core.ask("c1", call("c2", "note", "{}"), call("c3", "nonsense"))
        while core.state.loop.phase != FINISHED:
            if core.state.questions.open:
                core.feed(i.DecidePermission(core.state.questions.open[0].id, "allow"))
            elif core.state.requests.in_flight:
                core.say("done")
            elif running := [one.id for one in core.state.calls.batch if one.status == "running"]:
                core.result(running[-1], "3")
            else:
                core.feed(run)
        return recorded(core.commits)

    by_step, by_turn = drive(i.RunStep()), drive(i.RunTurn())
    assert by_step == by_turn
    assert by_turn[-1] == ">finished{6 end_turn}"


@pytest.mark.accepts(66)
def test_parallel_calls_answer_in_any_order_and_are_recorded_in_the_models():
    core = asked("c1", "c2", parallel_tool_calls=True)
    core.result("c2", "two")
    core.result("c1", "one")
    same(
        core,
        """
        model.settled  context.added 2 o · model.finished 2 ·
                       tool.requested c1 · tool.requested c2 ·
                       permission.decided 1 c1 allow/policy · permission.decided 2 c2 allow/policy ·
                       >ready{c1,c2} · >executing{c1,c2} · tool.started c1 · tool.started c2
        tool.settled   [call.answered c2]
        tool.settled   context.added 3 o · tool.finished c1 · context.added 4 j · tool.finished c2 ·
                       >idle · >requesting · model.requested
        """,
        since=3,
    )
    contents = [item.content for item in core.state.context.items]
    assert contents[2:] == [Text("one"), Text("two")]


@pytest.mark.accepts(191, 393)
def test_the_reference_exchange_of_kernel_2_14():
    core = asked("c1")
    core.result("c1", "3")
    core.say("It is 3.")
    names = [words.split(" ")[0].split("{")[0] for words in recorded(core.commits[1:])]
    assert names == [
        "context.added", ">requesting", "model.requested", "context.added", "model.finished",
        "tool.requested", "permission.decided", ">ready", ">executing", "tool.started",
        "context.added", "tool.finished", ">idle", ">requesting", "model.requested",
        "context.added", "model.finished", ">finished",
    ]  # fmt: skip


# -- people in between -------------------------------------------------------------------------


def test_an_interrupt_during_the_first_of_three_serial_calls():
    core = asked("c1", "c2", "c3")
    core.feed(i.InterruptTurn())
    core.result("c1")
    same(
        core,
        """
        turn.interrupt turn.interrupted
        tool.settled   context.added 3 o · tool.finished c1 ·
                       context.added 4 j · tool.finished c2 error ·
                       context.added 5 j · tool.finished c3 error · >idle · [interrupt.spent]
        """,
        since=4,
    )
    assert core.state.loop.is_open
    assert not core.state.loop.is_interrupted


def test_an_interrupt_during_serial_calls_driven_by_step_stays_up_for_the_next_step():
    core = asked("c1", "c2", run=i.RunStep())
    core.feed(i.RunStep())
    core.feed(i.InterruptTurn())
    core.result("c1")
    core.feed(i.RunStep())
    core.feed(i.RunStep())
    same(
        core,
        """
        turn.interrupt turn.interrupted
        tool.settled   context.added 3 o · tool.finished c1 ·
                       context.added 4 j · tool.finished c2 error · >idle
        step.run       [interrupt.spent]
        step.run       >requesting · model.requested
        """,
        since=5,
    )


def test_a_refused_call_met_by_the_flag_says_interrupted():
    """The flag is looked at before the grant (kernel.md 2.8)."""
    core = asked("c1", "c2", policy=PolicyInfo("Rules", ()))
    core.feed(i.DecidePermission(1, "allow"))
    core.feed(i.DecidePermission(2, "deny"))
    core.feed(i.RunStep())
    core.feed(i.InterruptTurn())
    core.result("c1")
    refused = core.state.context.items[3]
    assert "Interrupted" in refused.content.text
    assert "Not permitted" not in refused.content.text


@pytest.mark.accepts(83, 84)
def test_cancelling_the_calls_that_wait():
    core = asked("c1", call("c2", "note", "{}"), policy=ALLOW_ADD)
    core.feed(i.CancelCalls("not now"))
    same(
        core,
        """
        model.settled  context.added 2 o · model.finished 2 ·
                       tool.requested c1 · tool.requested c2 ·
                       permission.decided 1 c1 allow/policy · permission.requested 2 c2 ·
                       >deciding{2}
        calls.cancel   permission.decided 1 c1 deny/cancellation ·
                       permission.decided 2 c2 deny/cancellation · >executing{c1,c2} ·
                       context.added 3 o · tool.finished c1 error ·
                       context.added 4 j · tool.finished c2 error · >idle
        """,
        since=3,
    )
    assert core.state.loop.is_open, "cancelling calls does not close the turn"
    assert all("not now" in item.content.text for item in core.state.context.items.slice(2))


def test_cancelling_from_ready():
    core = asked("c1", run=i.RunStep())
    core.feed(i.CancelCalls())
    same(
        core,
        """
        calls.cancel   permission.decided 1 c1 deny/cancellation · >executing{c1} ·
                       context.added 3 o · tool.finished c1 error · >idle
        """,
        since=4,
    )


def test_cancelling_a_turn_while_its_request_is_out():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    effect = core.effect()
    core.feed(i.CancelTurn())
    assert core.feed(i.ModelSettled(effect, ModelResponse.of_text("late"))).events == ()
    same(
        core,
        "turn.cancel [request.abandoned stop] · >idle · [turn.closed 1 cancelled]",
        since=3,
    )


def test_cancelling_a_turn_while_its_calls_run():
    core = asked("c1", "c2")
    effect = core.effect("c1")
    core.feed(i.CancelTurn(reason="enough"))
    core.feed(i.ToolSettled(effect, ToolOutput(Text("did it"))))
    core.feed(i.ToolSettled(effect, ToolOutput(Text("did it"))))
    same(
        core,
        """
        turn.cancel    context.added 3 o · tool.finished c1 error stop ·
                       context.added 4 j · tool.finished c2 error · >idle ·
                       [turn.closed 1 cancelled]
        tool.settled   [tool.late c1]
        """,
        since=4,
    )


def test_cancelling_a_turn_that_asks():
    core = asked("c1", policy=PolicyInfo("Rules", ()))
    core.feed(i.CancelTurn())
    same(
        core,
        """
        turn.cancel    permission.decided 1 c1 deny/cancellation · >executing{c1} ·
                       context.added 3 o · tool.finished c1 error · >idle ·
                       [turn.closed 1 cancelled]
        """,
        since=4,
    )


def test_the_driver_leaves_a_running_call_and_it_is_answered_before_the_next_request():
    core = asked("c1", "c2")
    effect = core.effect("c1")
    core.feed(i.DriverLeft())
    core.feed(i.RunTurn())
    core.feed(i.ToolSettled(effect, ToolOutput(Text("3"))))
    same(
        core,
        """
        driver.left    >idle
        turn.run       >requesting · context.added 3 o · tool.finished c1 error ·
                       context.added 4 j · tool.finished c2 error · model.requested
        tool.settled   [tool.late c1]
        """,
        since=4,
    )
    unknown, never = (item.content.text for item in core.state.context.items.slice(2))
    assert "unknown" in unknown
    assert "not run" in never


def test_an_answer_that_comes_after_the_driver_left_and_before_the_next_request_counts():
    core = asked("c1")
    effect = core.effect("c1")
    core.feed(i.DriverLeft())
    core.feed(i.ToolSettled(effect, ToolOutput(Text("3"))))
    same(
        core,
        """
        driver.left    >idle
        tool.settled   context.added 3 o · tool.finished c1
        """,
        since=4,
    )


# -- crashes -----------------------------------------------------------------------------------


def test_a_crash_with_a_started_call_is_settled_by_a_person():
    core = asked("c1")
    core.reopen()
    core.feed(i.SettleOutcome("c1", ToolOutput(Text("3"))))
    core.feed(i.RunTurn())
    same(
        core,
        """
        session.opened [session.opened] · [question.opened 2 outcome c1] · >deciding{2}
        outcome.settle [question.answered 2 settled] · context.added 3 o · tool.finished c1 · >idle
        turn.run       >requesting · model.requested
        """,
        since=4,
    )
    assert core.state.loop.turn == 1
    assert core.state.loop.requests == 1, "the count starts again from idle"


def test_a_crash_in_the_middle_of_three_serial_calls():
    core = asked("c1", "c2", "c3")
    core.result("c1")
    core.reopen()
    core.feed(i.SettleOutcome("c2", ToolOutput(Text("3"))))
    core.feed(i.RunTurn())
    same(
        core,
        """
        session.opened [session.opened] · [question.opened 4 outcome c2] · >deciding{4}
        outcome.settle [question.answered 4 settled] · context.added 4 j · tool.finished c2 ·
                       >ready{c3}
        turn.run       >executing{c3} · tool.started c3
        """,
        since=5,
    )
    core.result("c3")
    assert core.told()[-1].startswith("tool.settled    context.added 5 j")


def test_a_crash_is_reconciled_by_the_tool():
    core = asked("c1", tools=[RECONCILES])
    core.reopen([RECONCILES])
    core.feed(i.OutcomeReconciled(core.reconciling("c1"), ToolOutput(Text("3"))))
    same(
        core,
        """
        session.opened     [session.opened] · [question.opened 2 outcome c1 ?] · >deciding{2}
        outcome.reconciled [question.answered 2 reconciled] · context.added 3 o ·
                           tool.finished c1 · >idle
        """,
        since=4,
    )


def test_a_tool_that_cannot_tell_leaves_the_question_to_people():
    core = asked("c1", tools=[RECONCILES])
    core.reopen([RECONCILES])
    core.feed(i.OutcomeReconciled(core.reconciling("c1")))
    assert outstanding(core.state) == (), "it is asked once"
    core.feed(i.RetryOutcome("c1"))
    core.feed(i.RunTurn())
    same(
        core,
        """
        outcome.reconciled [question.left 2]
        outcome.retry      [question.answered 2 retried] · [tool.retried c1] · >ready{c1}
        turn.run           >executing{c1} · tool.started c1 #2
        """,
        since=5,
    )


def test_an_idempotent_call_is_ready_again_with_its_key():
    core = asked("c1", tools=[IDEMPOTENT])
    key = core.state.calls.batch[0].key
    core.reopen([IDEMPOTENT])
    core.feed(i.RunTurn())
    same(
        core,
        """
        session.opened [session.opened] · [tool.retried c1] · >ready{c1}
        turn.run       >executing{c1} · tool.started c1 #2
        """,
        since=4,
    )
    running = core.state.calls.batch[0]
    assert (running.key, running.effect) == (key, "6.0")
    assert key == "4.0"


def test_a_crash_while_a_request_is_out_abandons_it():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    core.reopen()
    same(core, "session.opened [session.opened] · [request.abandoned] · >idle", since=3)


def test_a_parallel_batch_keeps_what_had_come_when_it_crashed():
    core = asked("c1", "c2", parallel_tool_calls=True)
    core.result("c2", "two")
    core.reopen()
    core.feed(i.SettleOutcome("c1", ToolOutput(Text("gone"), is_error=True)))
    same(
        core,
        """
        session.opened [session.opened] · context.added 3 o · tool.finished c2 ·
                       [question.opened 3 outcome c1] · >deciding{3}
        outcome.settle [question.answered 3 failed] · context.added 4 j ·
                       tool.finished c1 error · >idle
        """,
        since=5,
    )
    assert core.state.context.items[2].content == Text("two")


def test_an_opening_finds_a_judgement_that_nobody_heard():
    core = asked("c1", policy=PolicyInfo("Code"))
    core.reopen()
    same(
        core,
        """
        model.settled  context.added 2 o · model.finished 2 · tool.requested c1 ?
        session.opened [session.opened] · policy.changed · permission.decided 1 c1 allow/policy ·
                       >ready{c1}
        """,
        since=3,
    )
