"""Events: facts, all that `evolve` sees. Recorded ones bear kernel.md's names and a number (`seq`);
bookkeeping ones are ours, in the log and in every fold, shown on demand.

What the fold knows already is not stored (where a state changed from, a call's arguments, the lists
of a request): `reducers.views` adds it for people. Tags are promises: never changed, never reused.

One module, long as it is: many events concern several machines, and whoever folds, writes or shows
them needs the whole union.
"""

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from reducers.vocabulary.canonical import canonical
from reducers.vocabulary.config import DEFAULT_CONFIG, Config
from reducers.vocabulary.content import AnyContent
from reducers.vocabulary.inputs import Seams
from reducers.vocabulary.items import ContextItem, ContextState
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelInfo, Overrun, StopReason, Usage
from reducers.vocabulary.phases import Phase
from reducers.vocabulary.policies import Grant, GrantSource, PolicyInfo, Verdict
from reducers.vocabulary.tools import Capability, ToolOutput, ToolSpec

FORMAT = 1

UndoMode = Literal["open", "join", ""]
"""Whether a change opens an undo point, joins one, or (empty) cannot be taken back."""

T = TypeVar("T")


class Recorded(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag"):
    """`seq` counts recorded events from 1. `turn` and `step` stand on events of the loop and on the
    items it adds; `step` counts claims (one request, one execution) within the turn."""

    seq: int = 0
    turn: int = 0
    step: int = 0


class Bookkeeping(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag"):
    pass


class Splice(Struct, Generic[T], frozen=True, gc=False, omit_defaults=True):
    """A list as a change of the one before: keep a prefix, leave some out, put some in; the rest
    of the old list follows."""

    keep: int = 0
    cut: int = 0
    put: tuple[T, ...] = ()


UNCHANGED: Splice[Any] = Splice()


class Skipped(Struct, frozen=True, gc=False, omit_defaults=True):
    id: int
    reason: str


class Recount(Struct, frozen=True, gc=False, omit_defaults=True, array_like=True):
    """An item's new figures."""

    id: int
    tokens: int
    uncounted: int


# -- the session and its parts -----------------------------------------------------------------


class SessionStarted(Recorded, frozen=True, tag="session.started", kw_only=True):
    session: str
    format: int
    log: str
    seams: Seams
    config: Config = DEFAULT_CONFIG

    def __post_init__(self) -> None:
        canonical(self, config=DEFAULT_CONFIG)


class SessionOpened(Bookkeeping, frozen=True, tag="session.opened", kw_only=True):
    """A later opening, by a process that has the parts named in `here`."""

    here: tuple[str, ...] = ()
    config: Config | None = None


class SessionFinished(Recorded, frozen=True, tag="session.finished", kw_only=True):
    pass


class PartsDescribed(Bookkeeping, frozen=True, tag="parts.described", kw_only=True):
    """A part became present, or a tool's description changed in place."""

    here: tuple[str, ...]
    tools: tuple[ToolSpec, ...] | None = None


class ModelChanged(Recorded, frozen=True, tag="model.changed", kw_only=True):
    to: ModelInfo | None


class ModelParams(Recorded, frozen=True, tag="model.params", kw_only=True):
    params: Json


class ToolsChanged(Recorded, frozen=True, tag="tools.changed", kw_only=True):
    """All tools, sorted by id."""

    tools: tuple[ToolSpec, ...]


class PolicyChanged(Recorded, frozen=True, tag="policy.changed", kw_only=True):
    to: PolicyInfo


class ProjectorChanged(Recorded, frozen=True, tag="projector.changed", kw_only=True):
    to: str


class CounterChanged(Recorded, frozen=True, tag="counter.changed", kw_only=True):
    to: str


class CounterObserved(Bookkeeping, frozen=True, tag="counter.observed", kw_only=True):
    """What a request was estimated at, and what its provider counted, in tokens. `own` is the
    estimate in the counter's own units, given only where the pair teaches something."""

    model: int
    estimated: int
    reported: int
    own: int = 0


# -- the context -------------------------------------------------------------------------------


class ContextAdded(Recorded, frozen=True, tag="context.added", kw_only=True):
    item: ContextItem
    undo: UndoMode = ""


class ContextChanged(Recorded, frozen=True, tag="context.changed", kw_only=True):
    id: int
    to: ContextState
    note: str | None = None
    undo: UndoMode = ""


class ContextReplaced(Recorded, frozen=True, tag="context.replaced", kw_only=True):
    id: int
    content: AnyContent
    tokens: int = 0
    uncounted: int = 0
    because: str | None = None
    """Why the item is here from now on, where that changes."""
    undo: UndoMode = ""


class ContextAnnotated(Recorded, frozen=True, tag="context.annotated", kw_only=True):
    id: int
    meta: Json


class ContextRecounted(Recorded, frozen=True, tag="context.recounted", kw_only=True):
    tokens_before: int
    tokens_after: int
    moved: tuple[Recount, ...] = ()


class ContextUndone(Recorded, frozen=True, tag="context.undone", kw_only=True):
    items: int
    removed: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


class ContextRedone(Recorded, frozen=True, tag="context.redone", kw_only=True):
    items: int
    restored: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


# -- turns and states --------------------------------------------------------------------------


class TurnOpened(Bookkeeping, frozen=True, tag="turn.opened", kw_only=True):
    turn: int


class TurnClosed(Bookkeeping, frozen=True, tag="turn.closed", kw_only=True):
    turn: int
    reason: str


class TurnInterrupted(Recorded, frozen=True, tag="turn.interrupted", kw_only=True):
    pass


class InterruptSpent(Bookkeeping, frozen=True, tag="interrupt.spent", kw_only=True):
    pass


class TurnPaused(Recorded, frozen=True, tag="turn.paused", kw_only=True):
    requests: int


class TurnUnfinished(Recorded, frozen=True, tag="turn.unfinished", kw_only=True):
    calls: tuple[str, ...]


class StateChanged(Recorded, frozen=True, tag="state.changed", kw_only=True):
    """`drive` is said where it is not "a turn goes on": `step` on the claim of a single step,
    `none` where a failure, a cancel or an absent driver ends the drive."""

    to: Phase
    drive: Literal["", "step", "none"] = ""


# -- requests ----------------------------------------------------------------------------------


class ModelRequested(Recorded, frozen=True, tag="model.requested", kw_only=True):
    """Announces `CallModel`. `model` is the position of the `model.changed` in force; the lists
    are changes against those of the request before; `digest` covers all that is sent."""

    effect: int
    model: int
    messages: int
    tools: int
    tokens: int
    uncounted: int = 0
    items: Splice[int] = UNCHANGED
    skipped: Splice[Skipped] = UNCHANGED
    repairs: Splice[str] = UNCHANGED
    digest: str
    attempt: int = 1
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        canonical(self, items=UNCHANGED, skipped=UNCHANGED, repairs=UNCHANGED)


class ModelFinished(Recorded, frozen=True, tag="model.finished", kw_only=True):
    effect: str
    stop: StopReason
    usage: Usage | None = None
    tool_calls: tuple[str, ...] = ()
    item: int


class ModelFailed(Recorded, frozen=True, tag="model.failed", kw_only=True):
    effect: str
    error: str
    code: str = ""
    overrun: Overrun | None = None


class StepFailed(Recorded, frozen=True, tag="step.failed", kw_only=True):
    error: str
    overrun: Overrun | None = None


class RequestAbandoned(Bookkeeping, frozen=True, tag="request.abandoned", kw_only=True):
    """Nobody waits for this answer any more; it may have been billed. `stop` announces
    `StopModel`."""

    effect: str
    reason: str
    stop: int | None = None


# -- calls and questions -----------------------------------------------------------------------


class ToolRequested(Recorded, frozen=True, tag="tool.requested", kw_only=True):
    """The model asked. `effect` announces `JudgeCall`, where code has to be asked."""

    call: str
    tool: str
    effect: int | None = None


class ToolUnknown(Recorded, frozen=True, tag="tool.unknown", kw_only=True):
    call: str
    tool: str


class ToolRepaired(Recorded, frozen=True, tag="tool.repaired", kw_only=True):
    call: str
    was: str
    reason: str


class ToolReserved(Recorded, frozen=True, tag="tool.reserved", kw_only=True):
    reserved: int
    calls: tuple[str, ...]


class CallJudged(Bookkeeping, frozen=True, tag="call.judged", kw_only=True):
    call: str
    verdict: Verdict | None = None
    why: str = ""
    capabilities: tuple[Capability, ...] | None = None
    limit: int | None = None
    has_limit: bool = False
    """Whether its code was asked for a limit; None is then its answer."""


class PermissionRequested(Recorded, frozen=True, tag="permission.requested", kw_only=True):
    """A question is open. `args` is the digest of the call's arguments."""

    id: int
    call: str
    capabilities: tuple[Capability, ...] = ()
    args: str


class PermissionDecided(Recorded, frozen=True, tag="permission.decided", kw_only=True):
    id: int
    call: str
    grant: Grant
    source: GrantSource
    args: str
    reason: str = ""


class QuestionOpened(Bookkeeping, frozen=True, tag="question.opened", kw_only=True):
    """A call's outcome is unknown. `effect` announces `ReconcileOutcome`, where its tool can
    tell."""

    id: int
    kind: Literal["outcome"]
    call: str
    effect: int | None = None


class QuestionAnswered(Bookkeeping, frozen=True, tag="question.answered", kw_only=True):
    id: int
    how: str


class QuestionLeft(Bookkeeping, frozen=True, tag="question.left", kw_only=True):
    """The tool could not tell; the question stays with people."""

    id: int
    effect: str


class ToolStarted(Recorded, frozen=True, tag="tool.started", kw_only=True):
    """Announces `RunTool`."""

    effect: int
    call: str
    tool: str
    attempt: int = 1
    deadline_s: float | None = None


class CallAnswered(Bookkeeping, frozen=True, tag="call.answered", kw_only=True):
    """An answer that waits for its neighbours; its result says `held` by the call."""

    call: str
    effect: str
    output: ToolOutput
    crashed: bool = False
    mended: int = 0


class ToolPanicked(Recorded, frozen=True, tag="tool.panicked", kw_only=True):
    call: str
    tool: str


class ToolFinished(Recorded, frozen=True, tag="tool.finished", kw_only=True):
    """A result is recorded. `effect` is absent for a call that was never started; `stop` announces
    `StopTool`."""

    effect: str | None = None
    call: str
    tool: str
    is_error: bool = False
    truncated: int | None = None
    tokens: int
    item: int
    whole: int | None = None
    stop: int | None = None


class ToolRetried(Bookkeeping, frozen=True, tag="tool.retried", kw_only=True):
    """The call may be started again, with the key of its first start."""

    call: str


class ToolLate(Bookkeeping, frozen=True, tag="tool.late", kw_only=True):
    """An answer to a call that has its result already. The context does not change."""

    call: str
    effect: str
    output: ToolOutput
    crashed: bool = False
    mended: int = 0


# -- timers ------------------------------------------------------------------------------------


class TimerStarted(Bookkeeping, frozen=True, tag="timer.started", kw_only=True):
    """Announces `StartTimer`."""

    effect: int
    after_s: float


class TimerFired(Bookkeeping, frozen=True, tag="timer.fired", kw_only=True):
    effect: str


RecordedEvent = (
    SessionStarted
    | SessionFinished
    | ModelChanged
    | ModelParams
    | ToolsChanged
    | PolicyChanged
    | ProjectorChanged
    | CounterChanged
    | ContextAdded
    | ContextChanged
    | ContextReplaced
    | ContextAnnotated
    | ContextRecounted
    | ContextUndone
    | ContextRedone
    | TurnInterrupted
    | TurnPaused
    | TurnUnfinished
    | StateChanged
    | ModelRequested
    | ModelFinished
    | ModelFailed
    | StepFailed
    | ToolRequested
    | ToolUnknown
    | ToolRepaired
    | ToolReserved
    | PermissionRequested
    | PermissionDecided
    | ToolStarted
    | ToolPanicked
    | ToolFinished
)
BookkeepingEvent = (
    SessionOpened
    | PartsDescribed
    | CounterObserved
    | TurnOpened
    | TurnClosed
    | InterruptSpent
    | RequestAbandoned
    | CallJudged
    | QuestionOpened
    | QuestionAnswered
    | QuestionLeft
    | CallAnswered
    | ToolRetried
    | ToolLate
    | TimerStarted
    | TimerFired
)
Event = RecordedEvent | BookkeepingEvent
