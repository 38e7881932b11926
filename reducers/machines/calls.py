"""The calls of the last reply: asked for, judged, granted, started, answered, recorded.

I-CALL-1  A call id is used once in a session; `seen` never shrinks.
I-CALL-2  One batch at a time: a reply's calls all have results before the next request is built.
I-CALL-3  A call is started at most once, but for an explicit `tool.retried`; every start of it
          bears the key of the first.
I-CALL-4  An answer counts once. What comes later for a call that has its result is late.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import (
    CallAnswered,
    CallJudged,
    ModelFinished,
    PermissionDecided,
    PermissionRequested,
    SessionOpened,
    StateChanged,
    ToolFinished,
    ToolLate,
    ToolRequested,
    ToolReserved,
    ToolRetried,
    ToolStarted,
    ToolUnknown,
)
from reducers.vocabulary.json import EMPTY_OBJECT, Json
from reducers.vocabulary.persistent import NO_TEXTS, TextSet
from reducers.vocabulary.phases import Idle
from reducers.vocabulary.policies import Grant, GrantSource, Verdict
from reducers.vocabulary.tools import Capability, ToolOutput, ToolSpec

Status = Literal["requested", "judging", "judged", "prepared", "running", "answered", "done"]


class Call(Struct, frozen=True, gc=False):
    """One call of the batch. In the log its arguments stand once, in the item of its turn; here
    they are kept beside it, since that item can be undone while the call still waits."""

    id: str
    tool: str
    args: Json = EMPTY_OBJECT
    spec: ToolSpec | None = None
    """The tool it was matched to; later changes of the registry do not touch it."""
    status: Status = "requested"
    effect: str = ""
    """Of the judgement that is asked for, or of the last start; empty where its process is gone."""
    key: str = ""
    """Effect id of the first start."""
    attempt: int = 0
    verdict: Verdict | None = None
    why: str = ""
    capabilities: tuple[Capability, ...] | None = None
    limit: int | None = None
    has_own_limit: bool = False
    """Its code was asked for the limit: what it said stands, also that there is none."""
    question: int = 0
    """The id its question has, or would have; taken when its code is asked."""
    grant: Grant | None = None
    source: GrantSource | None = None
    output: ToolOutput | None = None
    crashed: bool = False
    mended: int = 0


class Calls(Struct, frozen=True, gc=False, omit_defaults=True):
    batch: tuple[Call, ...] = ()
    item: int = 0
    """The turn that asked for the batch."""
    proposed: tuple[str, ...] = ()
    """Calls of that turn not yet looked at, in its order."""
    has_results: bool = False
    """Some prepared call of the batch has its result."""
    adrift: tuple[tuple[str, str], ...] = ()
    """(effect, call) of runs whose call got a result without them: their answer will be late."""
    seen: TextSet = NO_TEXTS


def _with(calls: Calls, call: Call) -> Calls:
    """With a call of the batch in the place of its older self."""
    batch = calls.batch
    if len(batch) == 1:
        return replace(calls, batch=(call,))
    return replace(calls, batch=tuple([call if one.id == call.id else one for one in batch]))


def changed(calls: Calls, name: str, **fields: Any) -> Calls:
    call = find(calls, name)
    return calls if call is None else _with(calls, replace(call, **fields))


def turn_recorded(calls: Calls, event: ModelFinished, here: int) -> Calls:
    seen = calls.seen
    for call in event.tool_calls:
        seen = seen.insert(call)
    return replace(
        calls,
        batch=(),
        item=event.item,
        proposed=event.tool_calls,
        has_results=False,
        seen=seen,
    )


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    if names and names[0] == name:
        return names[1:]
    return tuple([one for one in names if one != name])


def requested(
    calls: Calls,
    event: ToolRequested,
    here: int,
    args: Json,
    spec: ToolSpec | None,
    question: int,
) -> Calls:
    call = Call(event.call, event.tool, args, spec)
    if event.effect is not None:
        effect = f"{here}.{event.effect}"
        call = replace(call, status="judging", effect=effect, question=question)
    return replace(
        calls,
        batch=(*calls.batch, call),
        proposed=_without(calls.proposed, event.call),
    )


def judged(calls: Calls, event: CallJudged, here: int) -> Calls:
    return changed(
        calls,
        event.call,
        status="judged",
        effect="",
        verdict=event.verdict,
        why=event.why,
        capabilities=event.capabilities,
        limit=event.limit,
        has_own_limit=event.has_limit,
    )


def permission_requested(calls: Calls, event: PermissionRequested, here: int) -> Calls:
    return changed(
        calls,
        event.call,
        status="prepared",
        effect="",
        question=event.id,
        capabilities=event.capabilities,
    )


def permission_decided(calls: Calls, event: PermissionDecided, here: int) -> Calls:
    call = find(calls, event.call)
    if call is None:
        return calls
    decided = replace(
        call,
        status="prepared",
        effect="",
        question=event.id,
        grant=event.grant,
        source=event.source,
        why=event.reason,
    )
    return _with(calls, decided)


def started(calls: Calls, event: ToolStarted, here: int) -> Calls:
    call = find(calls, event.call)
    if call is None:
        return calls
    effect = f"{here}.{event.effect}"
    key = call.key or effect
    begun = replace(call, status="running", effect=effect, key=key, attempt=event.attempt)
    return _with(calls, begun)


def answered(calls: Calls, event: CallAnswered, here: int) -> Calls:
    return changed(
        calls,
        event.call,
        status="answered",
        output=event.output,
        crashed=event.crashed,
        mended=event.mended,
    )


def finished(calls: Calls, event: ToolFinished, here: int) -> Calls:
    call = find(calls, event.call)
    if call is None:
        return calls
    adrift = calls.adrift
    if call.status == "running" and call.effect and event.effect is None:
        adrift = (*adrift, (call.effect, call.id))
    done = _with(calls, replace(call, status="done", output=None))
    has_results = calls.has_results or call.grant is not None
    return replace(done, has_results=has_results, adrift=adrift)


def retried(calls: Calls, event: ToolRetried, here: int) -> Calls:
    """The answer to an earlier start, should it come after all, is late."""
    call = find(calls, event.call)
    if call is None:
        return calls
    adrift = calls.adrift
    if call.status == "running" and call.effect:
        adrift = (*adrift, (call.effect, call.id))
    return replace(changed(calls, call.id, status="prepared"), adrift=adrift)


def late(calls: Calls, event: ToolLate, here: int) -> Calls:
    return replace(calls, adrift=tuple(one for one in calls.adrift if one[0] != event.effect))


def reserved(calls: Calls, event: ToolReserved, here: int) -> Calls:
    seen = calls.seen
    for call in event.calls:
        seen = seen.insert(call)
    return replace(calls, seen=seen)


def opened(calls: Calls, event: SessionOpened, here: int) -> Calls:
    """Nobody listens for what an earlier process asked for, and none of its runs answers."""
    batch = [
        replace(call, effect="") if call.status == "running" else call
        for call in _unheard(calls).batch
    ]
    return replace(calls, batch=tuple(batch), adrift=())


def state_changed(calls: Calls, event: StateChanged, here: int) -> Calls:
    return _unheard(calls) if type(event.to) is Idle else calls


def _unheard(calls: Calls) -> Calls:
    """Judgements that are still asked for, and that nobody awaits any more, are given up."""
    if not is_any(calls, "judging"):
        return calls
    batch = [
        replace(call, status="requested", effect="") if call.status == "judging" else call
        for call in calls.batch
    ]
    return replace(calls, batch=tuple(batch))


def unknown(calls: Calls, event: ToolUnknown, here: int) -> Calls:
    return changed(calls, event.call, spec=None)


EVOLVE: dict[type, Callable[[Calls, Any, int], Calls]] = {
    ModelFinished: turn_recorded,
    CallJudged: judged,
    PermissionRequested: permission_requested,
    PermissionDecided: permission_decided,
    ToolStarted: started,
    CallAnswered: answered,
    ToolFinished: finished,
    ToolRetried: retried,
    ToolLate: late,
    ToolReserved: reserved,
    SessionOpened: opened,
    StateChanged: state_changed,
    ToolUnknown: unknown,
}
"""`ToolRequested` needs the arguments and the tool's description; `reducers.state` gives them."""


# -- queries -----------------------------------------------------------------------------------


def find(calls: Calls, call: str) -> Call | None:
    for one in calls.batch:
        if one.id == call:
            return one
    return None


def of_effect(calls: Calls, effect: str) -> Call | None:
    for one in calls.batch:
        if effect and one.effect == effect:
            return one
    return None


def unfinished(calls: Calls) -> tuple[Call, ...]:
    """Calls of the batch that have no result, in the model's order."""
    return tuple([call for call in calls.batch if call.status != "done"])


def of_execution(calls: Calls, names: tuple[str, ...]) -> tuple[Call, ...]:
    """The calls that the present execution is about. One whose driver left may still run beside
    them; it is nobody's to wait for."""
    return tuple([call for call in calls.batch if call.id in names])


def is_any(calls: Calls, status: Status) -> bool:
    return status in [call.status for call in calls.batch]


def with_status(calls: Calls, *statuses: Status) -> tuple[Call, ...]:
    return tuple([call for call in calls.batch if call.status in statuses])
