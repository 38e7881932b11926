"""Inputs: all that enters the core. Orders are imperative; answers and facts are past.

An input tag and an event tag may be equal; they are different alphabets.
"""

from msgspec import UNSET, Struct, UnsetType

from reducers.vocabulary.config import Config
from reducers.vocabulary.content import Content
from reducers.vocabulary.items import ContextItem, ContextState
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelInfo, ModelResponse, Overrun
from reducers.vocabulary.policies import Grant, PolicyInfo, Verdict
from reducers.vocabulary.tools import Capability, ToolOutput, ToolSpec


class Seams(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where the pure seams are found: `MODULE:NAME`, options as a JSON object behind it."""

    projector: str
    counter: str


DEFAULT_SEAMS = Seams("reducers.projection:LinearProjector", "reducers.tokens:Calibrating")


class _Input(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag"):
    pass


# -- the session and its parts -----------------------------------------------------------------


class SessionOpened(_Input, frozen=True, tag="session.opened", kw_only=True):
    """A process opened the log: for the first time, or again. Parts not given are absent."""

    config: Config | UnsetType = UNSET
    """Unset on a later opening: the configuration stays what it was."""
    seams: Seams | UnsetType = UNSET
    """Of a new log only: a later opening is judged by those the log names, and switched after."""
    model: ModelInfo | None = None
    tools: tuple[ToolSpec, ...] | None = None
    policy: PolicyInfo | None = None


class PartsDescribed(_Input, frozen=True, tag="parts.described", kw_only=True):
    """What the parts now say of themselves; unset parts stay as they are.

    With `announce` each given part is announced even if it equals what is known.
    """

    model: ModelInfo | UnsetType | None = UNSET
    tools: tuple[ToolSpec, ...] | UnsetType = UNSET
    policy: PolicyInfo | UnsetType = UNSET
    projector: str | UnsetType = UNSET
    counter: str | UnsetType = UNSET
    announce: bool = False


class SetParams(_Input, frozen=True, tag="params.set"):
    params: Json


class FinishSession(_Input, frozen=True, tag="session.finish"):
    pass


# -- the context -------------------------------------------------------------------------------


class PushItems(_Input, frozen=True, tag="context.push"):
    items: tuple[ContextItem, ...]
    mended: int = 0
    """Characters that were no valid text and were replaced at the border."""


class SupersedeItem(_Input, frozen=True, tag="context.supersede"):
    old: int
    item: ContextItem
    mended: int = 0


class SetState(_Input, frozen=True, tag="context.set_state"):
    ids: tuple[int, ...]
    state: ContextState
    note: str | None = None


class ReplaceContent(_Input, frozen=True, tag="context.replace"):
    id: int
    content: Content
    mended: int = 0


class AnnotateItem(_Input, frozen=True, tag="context.annotate"):
    id: int
    meta: Json


class RecountItems(_Input, frozen=True, tag="context.recount"):
    pass


class Undo(_Input, frozen=True, tag="context.undo"):
    pass


class Redo(_Input, frozen=True, tag="context.redo"):
    pass


class ReserveCalls(_Input, frozen=True, tag="calls.reserve"):
    calls: tuple[str, ...]


# -- the loop ----------------------------------------------------------------------------------


class RunStep(_Input, frozen=True, tag="step.run"):
    """Make one transition."""


class RunTurn(_Input, frozen=True, tag="turn.run"):
    """Make transitions until it is somebody else's move."""


class InterruptTurn(_Input, frozen=True, tag="turn.interrupt"):
    """Rest before the next transition; the turn stays open."""


class CancelTurn(_Input, frozen=True, tag="turn.cancel"):
    """Close the turn as cancelled. 0 is the open one."""

    turn: int = 0
    reason: str = ""


class CancelCalls(_Input, frozen=True, tag="calls.cancel"):
    """Answer the calls that wait with a cancellation; the turn stays open."""

    reason: str = ""


class DecidePermission(_Input, frozen=True, tag="permission.decide"):
    """The answer to one question. `args`, if given, is the digest that was shown."""

    id: int
    grant: Grant
    args: str = ""
    reason: str = ""
    by_rule: bool = False
    """Not a person's: a rule of the program's for where there is nobody to ask."""


class DriverLeft(_Input, frozen=True, tag="driver.left"):
    """The task that drove the loop was cancelled; nobody waits for its effects any more."""


# -- answers of the world ----------------------------------------------------------------------


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    """The world said no. `code` is dotted and stable; `error` is for people."""

    error: str
    code: str = ""
    overrun: Overrun | None = None


class ModelSettled(_Input, frozen=True, tag="model.settled"):
    """Either a whole response or a failure."""

    effect: str
    response: ModelResponse | None = None
    failure: Failure | None = None
    mended: int = 0


class ToolSettled(_Input, frozen=True, tag="tool.settled"):
    effect: str
    output: ToolOutput
    crashed: bool = False
    """It raised what it did not declare; the output says what."""
    mended: int = 0


class CallJudged(_Input, frozen=True, tag="call.judged"):
    """What code says of one call. Without a verdict the rules in force judge."""

    effect: str
    verdict: Verdict | None = None
    why: str = ""
    capabilities: tuple[Capability, ...] | None = None
    limit: int | None = None
    has_limit: bool = False
    """The tool has a limit of its own for each call; None is then its answer."""
    failure: str = ""
    """The code raised; nothing was judged and the step ends."""


class OutcomeReconciled(_Input, frozen=True, tag="outcome.reconciled"):
    """What the tool found out about an earlier run; without an output it cannot tell."""

    effect: str
    output: ToolOutput | None = None
    mended: int = 0


class TimerFired(_Input, frozen=True, tag="timer.fired"):
    effect: str


# -- orders for calls whose outcome is unknown -------------------------------------------------


class SettleOutcome(_Input, frozen=True, tag="outcome.settle"):
    call: str
    output: ToolOutput
    mended: int = 0


class RetryOutcome(_Input, frozen=True, tag="outcome.retry"):
    call: str


Input = (
    SessionOpened
    | PartsDescribed
    | SetParams
    | FinishSession
    | PushItems
    | SupersedeItem
    | SetState
    | ReplaceContent
    | AnnotateItem
    | RecountItems
    | Undo
    | Redo
    | ReserveCalls
    | RunStep
    | RunTurn
    | InterruptTurn
    | CancelTurn
    | CancelCalls
    | DecidePermission
    | DriverLeft
    | ModelSettled
    | ToolSettled
    | CallJudged
    | OutcomeReconciled
    | TimerFired
    | SettleOutcome
    | RetryOutcome
)
