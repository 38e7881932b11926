"""The session's own inputs: it is opened, its parts describe themselves, it is finished.

An opening rests. It abandons what nobody waits for any more, asks about what it cannot know, and
starts nothing.
"""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from reducers.draft import Draft
from reducers.machines import calls as calls_machine
from reducers.machines import parts as parts_machine
from reducers.machines.calls import Call
from reducers.machines.parts import MODEL, POLICY, TOOLS
from reducers.recipes import record_held, rest_after_batch
from reducers.vocabulary.config import DEFAULT_CONFIG
from reducers.vocabulary.events import (
    FORMAT,
    CounterChanged,
    Event,
    ModelChanged,
    ModelParams,
    PolicyChanged,
    ProjectorChanged,
    QuestionOpened,
    RequestAbandoned,
    SessionFinished,
    SessionStarted,
    ToolRetried,
    ToolsChanged,
    TurnClosed,
    TurnUnfinished,
)
from reducers.vocabulary.events import PartsDescribed as PartsWereDescribed
from reducers.vocabulary.events import SessionOpened as SessionWasOpened
from reducers.vocabulary.inputs import (
    DEFAULT_SEAMS,
    FinishSession,
    PartsDescribed,
    SessionOpened,
    SetParams,
)
from reducers.vocabulary.phases import Deciding, Executing, Idle, Ready, Requesting, is_busy
from reducers.vocabulary.tools import ToolSpec


def open_session(draft: Draft, input: SessionOpened) -> None:
    draft.is_opening = True
    if draft.state.position == 0:
        _start(draft, input)
    else:
        _reopen(draft, input)


def _start(draft: Draft, input: SessionOpened) -> None:
    session = draft.state.session
    draft.say(
        SessionStarted(
            session=session.name,
            format=FORMAT,
            log=session.log,
            seams=DEFAULT_SEAMS if input.seams is UNSET else input.seams,
            config=DEFAULT_CONFIG if input.config in (UNSET, DEFAULT_CONFIG) else input.config,
        )
    )
    _differences(draft, input)


def _reopen(draft: Draft, input: SessionOpened) -> None:
    state = draft.state
    config = None if input.config in (UNSET, state.session.config) else input.config
    given = ((MODEL, input.model), (POLICY, input.policy), (TOOLS, input.tools))
    here = tuple(name for name, part in given if part is not None)
    draft.say(SessionWasOpened(here=here, config=config))
    _differences(draft, input)
    _recover(draft)


def _differences(draft: Draft, input: SessionOpened) -> None:
    """Announce the parts of this process that are not what was known; the rest is silence."""
    known = draft.state.parts
    if input.model is not None and input.model != known.model:
        draft.say(ModelChanged(to=input.model))
    if input.tools is not None and _sorted(input.tools) != known.tools:
        draft.say(ToolsChanged(tools=_sorted(input.tools)))
    if input.policy is not None and input.policy != known.policy:
        draft.say(PolicyChanged(to=input.policy))


def _sorted(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """By id, one an id: of two that share one the later counts."""
    by_id = {spec.id: spec for spec in tools}
    return tuple([by_id[id] for id in sorted(by_id)])


# -- recovery ----------------------------------------------------------------------------------


def _recover(draft: Draft) -> None:
    draft.by_loop = True
    phase = draft.state.loop.phase
    in_flight = draft.state.requests.in_flight
    if isinstance(phase, Requesting) and in_flight:
        draft.say(RequestAbandoned(effect=in_flight, reason="the session was opened again"))
        draft.enter(Idle(), "none")
    elif isinstance(phase, Executing):
        record_held(draft)
        for call in calls_machine.with_status(draft.state.calls, "running"):
            _ask_for_outcome(draft, call)
        rest_after_batch(draft)


def _ask_for_outcome(draft: Draft, call: Call) -> None:
    if call.spec is not None and call.spec.idempotent:
        draft.say(ToolRetried(call=call.id))
        return
    can_tell = call.spec is not None and call.spec.reconciles
    draft.say(
        QuestionOpened(
            id=draft.state.questions.next_id,
            kind="outcome",
            call=call.id,
            effect=draft.announce() if can_tell else None,
        )
    )


# -- parts -------------------------------------------------------------------------------------


def describe(draft: Draft, input: PartsDescribed) -> None:
    for event in _described(draft, input):
        draft.say(event)


def _described(draft: Draft, input: PartsDescribed) -> list[Event]:
    known = draft.state.parts
    loud = input.announce
    events: list[Event] = []
    here = known.here
    if input.model is not UNSET:
        if loud or input.model != known.model:
            events.append(ModelChanged(to=input.model))
        elif input.model is not None:
            here = parts_machine.with_part(here, MODEL)
    tools = None
    if input.tools is not UNSET:
        given = _sorted(input.tools)
        same_ids = [spec.id for spec in given] == [spec.id for spec in known.tools]
        if loud or not same_ids:
            events.append(ToolsChanged(tools=given))
        else:
            here = parts_machine.with_part(here, TOOLS)
            tools = given if given != known.tools else None
    if input.policy is not UNSET:
        if loud or input.policy != known.policy:
            events.append(PolicyChanged(to=input.policy))
        else:
            here = parts_machine.with_part(here, POLICY)
    if input.projector is not UNSET and (loud or input.projector != _seams(draft).projector):
        events.append(ProjectorChanged(to=input.projector))
    if input.counter is not UNSET and (loud or input.counter != _seams(draft).counter):
        events.append(CounterChanged(to=input.counter))
    if here != known.here or tools is not None:
        events.insert(0, PartsWereDescribed(here=here, tools=tools))
    return events


def _seams(draft: Draft) -> Any:
    return draft.state.session.seams


def set_params(draft: Draft, input: SetParams) -> None:
    if input.params != draft.state.parts.params:
        draft.say(ModelParams(params=input.params))


def finish(draft: Draft, input: FinishSession) -> None:
    loop = draft.state.loop
    if isinstance(loop.phase, Deciding | Ready):
        pending = tuple(call.id for call in calls_machine.unfinished(draft.state.calls))
        draft.say(TurnUnfinished(calls=pending))
    elif loop.is_open and not is_busy(loop.phase):
        draft.say(TurnClosed(turn=loop.turn, reason="session finished"))
    draft.say(SessionFinished())


ABSORB: dict[type, Callable[[Draft, Any], None]] = {
    SessionOpened: open_session,
    PartsDescribed: describe,
    SetParams: set_params,
    FinishSession: finish,
}
