"""What the world answers. An answer to nothing that is outstanding is silence, or late."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from reducers import wording
from reducers.absorb.calls import conclude
from reducers.draft import Draft
from reducers.machines import calls as calls_machine
from reducers.machines.calibration import of_model
from reducers.machines.calls import Call
from reducers.recipes import (
    fail_step,
    record_answer,
    record_refusal,
    record_result,
)
from reducers.vocabulary.content import EMPTY, Blocks, CallBlock, ToolCall
from reducers.vocabulary.errors import InvalidInput, KernelError, ProviderError, TooLong
from reducers.vocabulary.events import (
    CallAnswered,
    CounterObserved,
    ModelFailed,
    ModelFinished,
    QuestionLeft,
    ToolLate,
    ToolRepaired,
)
from reducers.vocabulary.events import CallJudged as CallWasJudged
from reducers.vocabulary.events import TimerFired as TimerHasFired
from reducers.vocabulary.inputs import (
    CallJudged,
    ModelSettled,
    OutcomeReconciled,
    TimerFired,
    ToolSettled,
)
from reducers.vocabulary.items import AssistantMessage, ContextItem
from reducers.vocabulary.models import ModelResponse, Usage
from reducers.vocabulary.persistent import TextSet
from reducers.vocabulary.phases import Executing, Finished, Idle

ID_CHARACTERS_MAX = 1 << 16
"""Of a call's id, which most events about the call name. Far above any that a server gives: some
carry kilobytes of their own state in it, which must come back to them unchanged."""
SHOWN = 64

# -- the model ---------------------------------------------------------------------------------


def model_settled(draft: Draft, input: ModelSettled) -> None:
    if (input.response is None) == (input.failure is None):
        raise InvalidInput("a settled request has either a response or a failure, and not both")
    if input.effect != draft.state.requests.in_flight:
        return
    if input.response is not None:
        _record_turn(draft, input.effect, input.response, input.mended)
    else:
        _record_failure(draft, input)


def _record_failure(draft: Draft, input: ModelSettled) -> None:
    failure = input.failure
    assert failure is not None
    overrun = failure.overrun
    if overrun is not None:
        _observe(draft, overrun.tokens)
    draft.say(
        ModelFailed(effect=input.effect, error=failure.error, code=failure.code, overrun=overrun)
    )
    draft.enter(Idle(), "none")
    error = ProviderError(failure.error)
    if overrun is not None:
        error.__cause__ = TooLong(overrun, failure.error)
    draft.raised = error


def _observe(draft: Draft, reported: int) -> None:
    """Tell the calibration what the request was really counted at, if all of it was estimated."""
    requests = draft.state.requests
    if requests.uncounted or not requests.estimated:
        return
    known = of_model(draft.state.calibrations, requests.model)
    try:
        own = draft.reducer.teaches(known, requests.estimated, reported)
    except Exception as error:
        # The answer that brought the figure is never lost to a counter.
        draft.fault, own = error, 0
    draft.say(
        CounterObserved(
            model=requests.model_at, estimated=requests.estimated, reported=reported, own=own
        )
    )


def _record_turn(draft: Draft, effect: str, response: ModelResponse, mended: int) -> None:
    usage: Usage | None = None if response.usage is None else response.usage.settled()
    if usage is not None and usage.input_tokens is not None:
        _observe(draft, usage.input_tokens)
    response = repaired(draft, response)
    calls = response.all_calls()
    in_blocks = isinstance(response.content, Blocks)
    kind = AssistantMessage(
        () if in_blocks else response.calls,
        None if in_blocks else response.reasoning,
        response.extra,
    )
    turn = ContextItem(
        kind=kind,
        source="model",
        label="assistant",
        content=EMPTY if response.content is None else response.content,
        state="active",
        included_because=wording.mended(mended) if mended else None,
    )
    id = draft.add(turn, "open")
    draft.say(
        ModelFinished(
            effect=effect,
            stop=response.stop,
            usage=usage,
            tool_calls=tuple([call.id for call in calls]),
            item=id,
        )
    )
    if not calls:
        draft.enter(Finished(id, response.stop))


def repaired(draft: Draft, response: ModelResponse) -> ModelResponse:
    """The response with each call id non-empty and used once in the session (kernel.md 2.7)."""
    seen: TextSet = draft.state.calls.seen
    here: list[str] = []
    calls: list[ToolCall] = []
    for index, call in enumerate(response.all_calls()):
        reason = _id_problem(call.id, here, seen)
        if reason:
            fresh = _fresh_id(index, here, seen)
            was = call.id if len(call.id) <= ID_CHARACTERS_MAX else call.id[:SHOWN] + "..."
            draft.say(ToolRepaired(call=fresh, was=was, reason=reason))
            call = replace(call, id=fresh)
        here.append(call.id)
        calls.append(call)
    if tuple(calls) == response.all_calls():
        return response
    if isinstance(response.content, Blocks):
        left = iter(calls)
        blocks = tuple(
            CallBlock(next(left)) if isinstance(block, CallBlock) else block
            for block in response.content.blocks
        )
        return replace(response, content=Blocks(blocks))
    return replace(response, calls=tuple(calls))


def _id_problem(id: str, here: list[str], seen: TextSet) -> str:
    if not id:
        return "it was left empty"
    if len(id) > ID_CHARACTERS_MAX:
        return f"it was longer than {ID_CHARACTERS_MAX} characters"
    if id in here:
        return "it was used twice in one response"
    return "it was reused from earlier in the session" if id in seen else ""


def _fresh_id(index: int, here: list[str], seen: TextSet) -> str:
    """`call_<index>`, or the first `call_<index>_<n>` that is free; found by doubling, so that a
    provider that never gives ids does not cost more with each reply."""

    def name(tries: int) -> str:
        return f"call_{index}_{tries}" if tries else f"call_{index}"

    def is_taken(tries: int) -> bool:
        return name(tries) in here or name(tries) in seen

    if not is_taken(0):
        return name(0)
    low, high = 0, 1
    while is_taken(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_taken(middle) else (low, middle)
    return name(high)


# -- tools -------------------------------------------------------------------------------------


def tool_settled(draft: Draft, input: ToolSettled) -> None:
    calls = draft.state.calls
    call = calls_machine.of_effect(calls, input.effect)
    if call is None or call.status != "running":
        late = next((call for effect, call in calls.adrift if effect == input.effect), None)
        if late is not None:
            draft.say(
                ToolLate(
                    call=late,
                    effect=input.effect,
                    output=input.output,
                    crashed=input.crashed,
                    mended=input.mended,
                )
            )
        return
    phase = draft.state.loop.phase
    if isinstance(phase, Executing) and call.id in phase.calls:
        _in_batch(draft, call, calls_machine.of_execution(calls, phase.calls), input)
    else:
        conclude(
            draft,
            call,
            input.output,
            "answered",
            effect=input.effect,
            crashed=input.crashed,
            mended=input.mended,
        )


def _in_batch(draft: Draft, call: Call, batch: tuple[Call, ...], input: ToolSettled) -> None:
    """Results are recorded in the model's order: an answer waits while others still run."""
    come = [n for n, one in enumerate(batch) if one.status in ("running", "answered")]
    if len([n for n in come if batch[n].status == "running"]) > 1:
        draft.say(
            CallAnswered(
                call=call.id,
                effect=input.effect,
                output=input.output,
                crashed=input.crashed,
                mended=input.mended,
            )
        )
        return
    for one in batch[: come[-1] + 1]:
        if one.id == call.id:
            record_result(
                draft,
                one,
                input.output,
                effect=input.effect,
                crashed=input.crashed,
                mended=input.mended,
            )
        elif one.status == "answered":
            record_answer(draft, one)
        elif one.status == "prepared":
            record_refusal(draft, one)


def call_judged(draft: Draft, input: CallJudged) -> None:
    call = calls_machine.of_effect(draft.state.calls, input.effect)
    if call is None or call.status != "judging":
        return
    if input.failure:
        draft.say(CallWasJudged(call=call.id, why=input.failure))
        fail_step(draft, KernelError(input.failure))
        return
    draft.say(
        CallWasJudged(
            call=call.id,
            verdict=input.verdict,
            why=input.why,
            capabilities=input.capabilities,
            limit=input.limit,
            has_limit=input.has_limit,
        )
    )


def outcome_reconciled(draft: Draft, input: OutcomeReconciled) -> None:
    question = next(
        (one for one in draft.state.questions.open if one.reconcile == input.effect), None
    )
    call = None if question is None else calls_machine.find(draft.state.calls, question.call)
    if question is None or call is None:
        return
    if input.output is None:
        draft.say(QuestionLeft(id=question.id, effect=input.effect))
    else:
        conclude(draft, call, input.output, "reconciled", mended=input.mended)


def timer_fired(draft: Draft, input: TimerFired) -> None:
    if any(effect == input.effect for effect, _ in draft.state.timers.running):
        draft.say(TimerHasFired(effect=input.effect))


ABSORB: dict[type, Callable[[Draft, Any], None]] = {
    ModelSettled: model_settled,
    ToolSettled: tool_settled,
    CallJudged: call_judged,
    OutcomeReconciled: outcome_reconciled,
    TimerFired: timer_fired,
}
