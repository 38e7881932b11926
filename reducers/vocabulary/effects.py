"""Effects: claim tickets for what the world has to do. An effect exists only because an event of
the log announced it; `reducers.work` renders what the world needs.

`id` is `<position>.<n>`: the position of the announcing commit, and the place of the announcement
among those of that commit, from 0. With the log's id before it, it is durable and never repeats.
"""

from msgspec import Struct


class CallModel(Struct, frozen=True, gc=False, tag_field="tag", tag="model.call"):
    """Send the request; answered by one `ModelSettled`."""

    id: str


class RunTool(Struct, frozen=True, gc=False, tag_field="tag", tag="tool.run"):
    """Run one call; answered by one `ToolSettled`."""

    id: str
    call: str


class JudgeCall(Struct, frozen=True, gc=False, tag_field="tag", tag="call.judge"):
    """Ask the tool's and the policy's code about one call; answered by one `CallJudged`."""

    id: str
    call: str


class ReconcileOutcome(Struct, frozen=True, gc=False, tag_field="tag", tag="outcome.reconcile"):
    """Ask the tool whether an earlier run took effect; answered by one `OutcomeReconciled`."""

    id: str
    call: str


class StopTool(Struct, frozen=True, gc=False, tag_field="tag", tag="tool.stop"):
    """Stop the run of a call, if it can be stopped. A notice: it has no answer."""

    id: str
    call: str


class StopModel(Struct, frozen=True, gc=False, tag_field="tag", tag="model.stop"):
    """Give up the request `target`. A notice: it has no answer."""

    id: str
    target: str


class StartTimer(Struct, frozen=True, gc=False, tag_field="tag", tag="timer.start"):
    """Wait; answered by one `TimerFired`."""

    id: str
    after_s: float


Effect = CallModel | RunTool | JudgeCall | ReconcileOutcome | StopTool | StopModel | StartTimer
