"""Which effects an event announces, which are outstanding, and what the world needs for each."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from reducers.machines import calls as calls_machine
from reducers.machines import parts
from reducers.reducer import Reducer
from reducers.state import State
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.effects import (
    CallModel,
    Effect,
    JudgeCall,
    ReconcileOutcome,
    RunTool,
    StartTimer,
    StopModel,
    StopTool,
)
from reducers.vocabulary.errors import StaleEffect
from reducers.vocabulary.events import (
    Event,
    ModelRequested,
    QuestionOpened,
    RequestAbandoned,
    TimerStarted,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.policies import PolicyInfo
from reducers.vocabulary.tools import Capability, ToolSpec


def announced(events: Iterable[Event], position: int) -> tuple[Effect, ...]:
    """The effects that events of the commit at `position` announce, in their order."""
    found: list[Effect] = []
    for event in events:
        kind = type(event)
        if kind in _ANNOUNCED:
            effect = _ANNOUNCED[kind](event, position)
            if effect is not None:
                found.append(effect)
    return tuple(found)


def _model(event: ModelRequested, position: int) -> Effect:
    return CallModel(f"{position}.{event.effect}")


def _run(event: ToolStarted, position: int) -> Effect:
    return RunTool(f"{position}.{event.effect}", event.call)


def _judgement(event: ToolRequested, position: int) -> Effect | None:
    return None if event.effect is None else JudgeCall(f"{position}.{event.effect}", event.call)


def _reconciliation(event: QuestionOpened, position: int) -> Effect | None:
    if event.effect is None:
        return None
    return ReconcileOutcome(f"{position}.{event.effect}", event.call)


def _model_stop(event: RequestAbandoned, position: int) -> Effect | None:
    return None if event.stop is None else StopModel(f"{position}.{event.stop}", event.effect)


def _tool_stop(event: ToolFinished, position: int) -> Effect | None:
    return None if event.stop is None else StopTool(f"{position}.{event.stop}", event.call)


def _timer(event: TimerStarted, position: int) -> Effect:
    return StartTimer(f"{position}.{event.effect}", event.after_s)


_ANNOUNCED: dict[type, Callable[[Any, int], Effect | None]] = {
    ModelRequested: _model,
    ToolStarted: _run,
    ToolRequested: _judgement,
    QuestionOpened: _reconciliation,
    RequestAbandoned: _model_stop,
    ToolFinished: _tool_stop,
    TimerStarted: _timer,
}


def effects_of(event: Event, position: int) -> tuple[Effect, ...]:
    """The effects an event of the commit at `position` announces."""
    return announced((event,), position)


def outstanding(state: State) -> tuple[Effect, ...]:
    """Announced and not settled: what the shell owes the session, oldest kind first.

    A notice to stop something is never outstanding; it has no answer.
    """
    owed: list[Effect] = []
    if state.requests.in_flight:
        owed.append(CallModel(state.requests.in_flight))
    for call in state.calls.batch:
        if call.status == "judging":
            owed.append(JudgeCall(call.effect, call.id))
        elif call.status == "running" and call.effect:
            owed.append(RunTool(call.effect, call.id))
    for question in state.questions.open:
        if question.reconcile:
            owed.append(ReconcileOutcome(question.reconcile, question.call))  # noqa: PERF401
    for effect, after_s in state.timers.running:
        owed.append(StartTimer(effect, after_s))
    return tuple(owed)


# -- work --------------------------------------------------------------------------------------


class ModelWork(Struct, frozen=True, gc=False):
    """Send `request`. `digest` names it; the same state always gives the same one."""

    request: ModelRequest
    model: ModelInfo
    digest: str


class ToolWork(Struct, frozen=True, gc=False):
    """Run `call`. `key` is the same for every start of this call, and for no other call ever."""

    call: ToolCall
    key: str
    attempt: int = 1


class JudgeWork(Struct, frozen=True, gc=False):
    """Judge `call` under `policy`; `question` is the id its question would have."""

    call: ToolCall
    spec: ToolSpec
    policy: PolicyInfo
    question: int
    capabilities: Sequence[Capability]


Work = ModelWork | ToolWork | JudgeWork | float


def work(state: State, effect: Effect, reducer: Reducer | None = None) -> Work:
    """What the world needs to carry out an outstanding effect.

    Render it before the next input: a request is drawn from the state of its own commit, and
    `StaleEffect` is raised once that is past. For a timer it is the seconds to wait.
    """
    if effect not in outstanding(state):
        raise StaleEffect(f"effect {effect.id} is not outstanding: it was settled or given up")
    return render(state, effect, reducer or Reducer())


def render(state: State, effect: Effect, reducer: Reducer) -> Work:
    """The same, of an effect that the commit before this state announced."""
    match effect:
        case CallModel():
            return _model_work(state, effect, reducer)
        case RunTool() | ReconcileOutcome():
            return _tool_work(state, effect.call)
        case JudgeCall():
            return _judge_work(state, effect)
        case StartTimer():
            return effect.after_s
        case _:
            raise StaleEffect(f"effect {effect.id} is a notice: there is nothing to render")


def _model_work(state: State, effect: CallModel, reducer: Reducer) -> ModelWork:
    model = parts.model(state.parts)
    if state.position != state.requests.at or model is None:
        raise StaleEffect(
            f"request {effect.id} can only be drawn at position {state.requests.at}, not at "
            f"{state.position}: await its answer or abandon it"
        )
    draw = reducer.draw(state)
    if draw.digest != state.requests.digest:
        raise StaleEffect(f"request {effect.id} does not draw to the digest its event gives")
    return ModelWork(draw.request, model, draw.digest)


def _tool_work(state: State, name: str) -> ToolWork:
    call = calls_machine.find(state.calls, name)
    assert call is not None, "an outstanding run has its call"
    key = f"{state.session.log}:{call.key}"
    return ToolWork(ToolCall(call.id, call.tool, call.args), key, call.attempt)


def _judge_work(state: State, effect: JudgeCall) -> JudgeWork:
    known = [call for call in state.calls.batch if call.spec is not None and call.status != "done"]
    call = next(one for one in known if one.id == effect.call)
    assert call.spec is not None
    return JudgeWork(
        ToolCall(call.id, call.tool, call.args),
        call.spec,
        parts.policy(state.parts),
        call.question,
        call.spec.capabilities,
    )
