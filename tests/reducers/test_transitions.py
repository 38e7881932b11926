"""Every row of the transition table: kernel.md 2.1, and what rulings R12 and R13 add to it.

A row is a way to get into a state, one input, and where the loop then stands. A row that changes
nothing says so: no event but the ones named.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from attrs import evolve as evolve_attrs
from msgspec.structs import replace

from reducers import Reducer
from reducers.linear import LinearProjector
from reducers.tokens import BytesPerToken
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Text
from reducers.vocabulary.errors import (
    Busy,
    EmptyProjection,
    NoProvider,
    ProviderError,
    SeamFailed,
    TooLong,
)
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolOutput
from tests.reducers.driving import (
    ADD,
    ALLOW_ADD,
    CODE,
    MODEL,
    Core,
    call,
    phase,
    started,
    told,
)

ASK = PolicyInfo("Rules", ())
IDEMPOTENT = replace(ADD, idempotent=True)


# -- ways into a state -------------------------------------------------------------------------


def idle(**how) -> Core:
    core = started(**how)
    core.push("go")
    return core


def requesting(**how) -> Core:
    core = idle(**how)
    core.feed(i.RunStep())
    return core


def deciding(*calls, **how) -> Core:
    core = requesting(**{"policy": ASK, **how})
    core.ask(*(calls or ("c1", "c2")))
    return core


def judging() -> Core:
    core = requesting(policy=CODE)
    core.ask("c1", "c2")
    return core


def ready(*calls, **how) -> Core:
    core = requesting(**how)
    core.ask(*(calls or ("c1", "c2")))
    return core


def executing(*calls, **how) -> Core:
    core = ready(*calls, **how)
    core.feed(i.RunStep())
    return core


def finished() -> Core:
    core = requesting()
    core.say("done")
    return core


def flagged(core: Core) -> Core:
    core.feed(i.InterruptTurn())
    return core


def crashed(core: Core, **parts) -> Core:
    core.reopen(**parts)
    return core


# -- the table ---------------------------------------------------------------------------------


@dataclass
class Row:
    name: str
    core: Callable[[], Core]
    act: Callable[[Core], object]
    to: str
    says: list[str] | None = None
    """The events of the commit, where the row speaks of them."""
    raises: type[Exception] | None = None
    """What `step` refuses with; nothing is logged."""
    raised: type[Exception] | None = None
    """What follows a recorded failure, for the face to raise."""
    flag: bool | None = field(default=None)
    """Whether the stop flag is up afterwards, where the row speaks of it."""


def feed(input) -> Callable[[Core], object]:
    return lambda core: core.feed(input)


def decide(id: int, grant="allow") -> Callable[[Core], object]:
    return feed(i.DecidePermission(id, grant))


def fail(core: Core) -> object:
    return core.feed(i.ModelSettled(core.effect(), failure=i.Failure("no answer")))


STEP, TURN, LEAVE, CANCEL = i.RunStep(), i.RunTurn(), i.DriverLeft(), i.CancelCalls()

ROWS = [
    # idle, finished
    Row("idle, step", idle, feed(STEP), ">requesting"),
    Row("idle, turn", idle, feed(TURN), ">requesting"),
    Row("finished, step", finished, feed(STEP), ">requesting"),
    Row("finished, turn", finished, feed(TURN), ">requesting"),
    Row("idle, step, no provider", lambda: idle(model=None), feed(STEP), ">idle", [], NoProvider),
    Row("idle, turn, no provider", lambda: idle(model=None), feed(TURN), ">idle", [], NoProvider),
    # requesting
    Row(
        "requesting, an answer without calls",
        lambda: flagged(requesting()),
        lambda core: core.say("done"),
        ">finished{2 end_turn}",
        flag=False,
    ),
    Row(
        "requesting, calls the policy decides",
        lambda: requesting(policy=ALLOW_ADD),
        lambda core: core.ask("c1", "c2"),
        ">ready{c1,c2}",
    ),
    Row(
        "requesting, calls the policy denies",
        lambda: requesting(policy=PolicyInfo("Rules", (Rule(deny="add"),))),
        lambda core: core.ask("c1"),
        ">ready{c1}",
    ),
    Row(
        "requesting, one known tool and one unknown",
        requesting,
        lambda core: core.ask("c1", call("c2", "nonsense")),
        ">ready{c1}",
    ),
    Row(
        "requesting, one call to ask about",
        lambda: requesting(policy=ALLOW_ADD),
        lambda core: core.ask("c1", call("c2", "note", "{}")),
        ">deciding{2}",
    ),
    Row(
        "requesting, every call names an unknown tool",
        requesting,
        lambda core: core.ask(call("c1", "nonsense"), call("c2", "nonsense")),
        ">idle",
    ),
    Row(
        "requesting, every call malformed (R17)",
        requesting,
        lambda core: core.ask(call("c1", "add", "[1]")),
        ">idle",
    ),
    Row(
        "requesting, the model fails",
        lambda: flagged(requesting()),
        fail,
        ">idle",
        ["model.failed", ">idle"],
        raised=ProviderError,
        flag=False,
    ),
    Row(
        "requesting from finished, the model fails",
        lambda: (core := finished(), core.feed(STEP))[0],
        fail,
        ">idle",
        ["model.failed", ">idle"],
        raised=ProviderError,
    ),
    Row(
        "requesting, the driver leaves",
        lambda: flagged(requesting()),
        feed(LEAVE),
        ">idle",
        ["[request.abandoned stop]", ">idle"],
        flag=False,
    ),
    Row(
        "requesting, nothing to send",
        started,
        feed(STEP),
        ">idle",
        ["[turn.opened 1]", ">requesting", "step.failed", ">idle"],
        raised=EmptyProjection,
    ),
    Row(
        "requesting, too long to send",
        lambda: idle(model=replace(MODEL, context_limit=10)),
        feed(STEP),
        ">idle",
        ["[turn.opened 1]", ">requesting", "step.failed", ">idle"],
        raised=TooLong,
    ),
    Row("requesting, judging, the driver leaves", judging, feed(LEAVE), ">idle"),
    Row(
        "requesting, judging fails",
        lambda: flagged(judging()),
        lambda core: core.feed(i.CallJudged(core.effect("c1"), failure="boom")),
        ">idle",
        raised=Exception,
        flag=False,
    ),
    Row(
        "requesting, judging, one of two heard",
        judging,
        lambda core: core.feed(i.CallJudged(core.effect("c1"), "allow")),
        ">requesting",
        ["[call.judged c1]", "tool.requested c2 ?"],
    ),
    Row(
        "requesting, judging, the last heard",
        lambda: (core := judging(), core.feed(i.CallJudged(core.effect("c1"), "allow")))[0],
        lambda core: core.feed(i.CallJudged(core.effect("c2"), "ask")),
        ">deciding{2}",
        [
            "[call.judged c2]",
            "permission.decided 1 c1 allow/policy",
            "permission.requested 2 c2",
            ">deciding{2}",
        ],
    ),
    Row("requesting, step", requesting, feed(STEP), ">requesting", [], Busy),
    Row(
        "requesting, turn, flag up",
        lambda: flagged(requesting()),
        feed(TURN),
        ">requesting",
        [],
        Busy,
        flag=True,
    ),
    # deciding
    Row(
        "deciding, one of two answered",
        deciding,
        decide(1),
        ">deciding{2}",
        ["permission.decided 1 c1 allow/user", ">deciding{2}"],
    ),
    Row(
        "deciding, the last answered",
        lambda: (core := deciding(), core.feed(i.DecidePermission(1, "deny")))[0],
        decide(2),
        ">ready{c1,c2}",
        ["permission.decided 2 c2 allow/user", ">ready{c1,c2}"],
    ),
    Row("deciding, step", deciding, feed(STEP), ">deciding{1,2}", []),
    Row("deciding, turn", deciding, feed(TURN), ">deciding{1,2}", []),
    Row("deciding, undo", deciding, feed(i.Undo()), ">deciding{1,2}", [], Busy),
    Row("deciding, redo", deciding, feed(i.Redo()), ">deciding{1,2}", [], Busy),
    Row("deciding, the driver leaves", deciding, feed(LEAVE), ">deciding{1,2}", []),
    Row("deciding, the calls are cancelled", deciding, feed(CANCEL), ">idle"),
    # ready
    Row(
        "ready, step",
        ready,
        feed(STEP),
        ">executing{c1,c2}",
        [">executing{c1,c2}", "tool.started c1"],
    ),
    Row(
        "ready, step, in parallel",
        lambda: ready(parallel_tool_calls=True),
        feed(STEP),
        ">executing{c1,c2}",
        [">executing{c1,c2}", "tool.started c1", "tool.started c2"],
    ),
    Row("ready, undo", ready, feed(i.Undo()), ">ready{c1,c2}", [], Busy),
    Row("ready, the calls are cancelled", ready, feed(CANCEL), ">idle"),
    # executing
    Row(
        "executing, one of two recorded",
        executing,
        lambda core: core.result("c1"),
        ">executing{c1,c2}",
    ),
    Row(
        "executing, all recorded",
        lambda: executing("c1"),
        lambda core: core.result("c1"),
        ">idle",
        ["context.added 3 o", "tool.finished c1", ">idle"],
    ),
    Row(
        "executing, a tool crashes",
        lambda: executing("c1"),
        lambda core: core.feed(
            i.ToolSettled(core.effect("c1"), ToolOutput.error("boom"), crashed=True)
        ),
        ">idle",
        ["tool.panicked c1", "context.added 3 o", "tool.finished c1 error", ">idle"],
    ),
    Row(
        "executing, the driver leaves",
        lambda: flagged(executing()),
        feed(LEAVE),
        ">idle",
        [">idle"],
        flag=False,
    ),
    Row("executing, step", executing, feed(STEP), ">executing{c1,c2}", [], Busy),
    Row(
        "executing, step, flag up",
        lambda: flagged(executing()),
        feed(STEP),
        ">executing{c1,c2}",
        [],
        Busy,
        flag=True,
    ),
    Row("executing, undo", executing, feed(i.Undo()), ">executing{c1,c2}", [], Busy),
    Row("executing, the calls are cancelled", executing, feed(CANCEL), ">executing{c1,c2}", []),
    # the flag, from any resting state
    *(
        Row(
            f"{name}, {drive.__struct_config__.tag}, flag up",
            lambda core=core: flagged(core()),
            feed(drive),
            to,
            ["[interrupt.spent]"],
            flag=False,
        )
        for drive in (STEP, TURN)
        for name, core, to in (
            ("idle", idle, ">idle"),
            ("finished", finished, ">finished{2 end_turn}"),
            ("deciding", deciding, ">deciding{1,2}"),
            ("ready", ready, ">ready{c1,c2}"),
        )
    ),
    # undo of the answer
    Row(
        "finished, undo of its item",
        finished,
        feed(i.Undo()),
        ">idle",
        ["context.undone [2] []", ">idle"],
    ),
    Row(
        "finished, undo of something else",
        lambda: (core := finished(), core.push("more"))[0],
        feed(i.Undo()),
        ">finished{2 end_turn}",
        ["context.undone [3] []"],
    ),
    # what an opening makes of it: R12
    Row("requesting, opened", requesting, crashed, ">idle"),
    Row("executing, opened, outcome unknown", executing, crashed, ">deciding{3}"),
    Row(
        "executing, opened, idempotent",
        lambda: executing("c1", tools=[IDEMPOTENT]),
        lambda core: core.reopen([IDEMPOTENT]),
        ">ready{c1}",
    ),
    Row(
        "executing, opened, one done, one running, one not started",
        lambda: (core := executing("c1", "c2", "c3"), core.result("c1"))[0],
        crashed,
        ">deciding{4}",
    ),
    Row(
        "requesting, opened, a judgement nobody heard, code asks",
        judging,
        lambda core: core.reopen(policy=CODE),
        ">deciding{1,2}",
    ),
    Row(
        "requesting, opened, a judgement nobody heard, no policy here",
        judging,
        lambda core: core.reopen(policy=None),
        ">deciding{1,2}",
    ),
    Row("deciding, opened", deciding, crashed, ">deciding{1,2}"),
    Row("ready, opened", ready, crashed, ">ready{c1,c2}"),
    Row("finished, opened", finished, crashed, ">finished{2 end_turn}"),
    Row("idle, opened", idle, crashed, ">idle"),
    Row(
        "deciding, the last outcome settled, none left",
        lambda: crashed(executing("c1")),
        feed(i.SettleOutcome("c1", ToolOutput.of("3"))),
        ">idle",
    ),
    Row(
        "deciding, the last outcome settled, calls left",
        lambda: crashed(executing("c1", "c2")),
        feed(i.SettleOutcome("c1", ToolOutput.of("3"))),
        ">ready{c2}",
    ),
    Row(
        "deciding, an outcome retried",
        lambda: crashed(executing("c1")),
        feed(i.RetryOutcome("c1")),
        ">ready{c1}",
    ),
    Row(
        "deciding, two outcomes unknown, one settled",
        lambda: crashed(executing(parallel_tool_calls=True)),
        feed(i.SettleOutcome("c2", ToolOutput.of("3"))),
        ">deciding{3}",
    ),
    Row(
        "idle after the driver left, a call retried",
        lambda: (core := executing("c1"), core.feed(LEAVE))[0],
        feed(i.RetryOutcome("c1")),
        ">ready{c1}",
    ),
    Row(
        "idle after the driver left, a call settled",
        lambda: (core := executing("c1"), core.feed(LEAVE))[0],
        feed(i.SettleOutcome("c1", ToolOutput.of("3"))),
        ">idle",
    ),
    # a turn drives itself
    Row(
        "a turn, its budget spent",
        lambda: (
            core := idle(max_requests_per_turn=1),
            core.feed(TURN),
            core.ask("c1"),
        )[0],
        lambda core: core.result("c1"),
        ">idle",
        ["context.added 3 o", "tool.finished c1", ">idle", "turn.paused 1"],
    ),
    Row(
        "a turn with no budget",
        lambda: idle(max_requests_per_turn=0),
        feed(TURN),
        ">idle",
        ["turn.paused 0"],
    ),
    Row("a step needs no budget", lambda: idle(max_requests_per_turn=0), feed(STEP), ">requesting"),
    # cancelling a turn (R13)
    *(
        Row(f"{name}, its turn is cancelled", core, feed(i.CancelTurn()), ">idle")
        for name, core in (
            ("requesting", requesting),
            ("judging", judging),
            ("deciding", deciding),
            ("ready", ready),
            ("executing", executing),
        )
    ),
    Row("finished, cancel", finished, feed(i.CancelTurn()), ">finished{2 end_turn}", []),
    Row(
        "executing, another turn is cancelled",
        executing,
        feed(i.CancelTurn(7)),
        ">executing{c1,c2}",
        [],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row(row: Row):
    core = row.core()
    commits, before = len(core.commits), core.state
    if row.raises is not None:
        with pytest.raises(row.raises):
            row.act(core)
        assert core.state is before
    else:
        row.act(core)
    assert phase(core.state.loop.phase) == row.to
    if row.says is not None:
        said = [told(event) for commit in core.commits[commits:] for event in commit.events]
        assert said == row.says
    if row.flag is not None:
        assert core.state.loop.is_interrupted == row.flag


RAISED = [row for row in ROWS if row.raised is not None]


@pytest.mark.parametrize("row", RAISED, ids=lambda row: row.name)
def test_a_recorded_failure_comes_back_to_be_raised(row: Row):
    step = row.act(row.core())
    assert step.events
    assert isinstance(step.raised, row.raised)


# -- failures of the judging code itself -------------------------------------------------------


class Failing(BytesPerToken):
    """A counter of the user's that fails at one text."""

    def count(self, content):
        if content == Text("fail"):
            raise ValueError("no figure for that")
        return super().count(content)


class Scattered:
    """A projector of the user's that sends each result before its call."""

    def project(self, items):
        whole = LinearProjector().project(items)
        return evolve_attrs(whole, messages=tuple(reversed(whole.messages)))


def test_executing_an_exception_outside_a_tool_keeps_the_answer_and_rests():
    core = flagged(executing())
    core.reducer = Reducer(counter=Failing())
    step = core.result("c1", "fail")
    assert [told(event) for event in step.events] == [
        "context.added 3 o",
        "tool.finished c1",
        "step.failed",
        ">idle",
    ]
    assert isinstance(step.raised, ValueError)
    kept = core.state.context.items[2]
    assert (kept.content, kept.tokens, kept.uncounted) == (Text("fail"), 0, 1)
    assert not core.state.loop.is_interrupted


def test_requesting_a_projector_that_breaks_pairs_is_a_failed_step():
    core = executing("c1")
    core.result("c1")
    core.reducer = Reducer(projector=Scattered())
    step = core.feed(STEP)
    assert [told(event) for event in step.events] == [">requesting", "step.failed", ">idle"]
    assert isinstance(step.raised, SeamFailed)


def test_a_failure_of_the_counter_on_a_push_is_the_callers_and_logs_nothing():
    core = idle()
    core.reducer = Reducer(counter=Failing())
    before = core.state
    with pytest.raises(ValueError, match="no figure"):
        core.push("fail")
    assert core.state is before
