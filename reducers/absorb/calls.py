"""Orders about calls: people's answers to questions, and what to do about unknown outcomes."""

from collections.abc import Callable
from typing import Any

from reducers.draft import Draft
from reducers.machines import calls as calls_machine
from reducers.machines import questions as questions_machine
from reducers.machines.calls import Call
from reducers.machines.questions import Question
from reducers.recipes import decide, record_result, rest_after_batch
from reducers.state import State
from reducers.vocabulary.errors import (
    AlreadyResolved,
    Busy,
    InvalidInput,
    UnknownCall,
    UnknownPermission,
)
from reducers.vocabulary.events import QuestionAnswered, ToolRetried
from reducers.vocabulary.inputs import DecidePermission, RetryOutcome, SettleOutcome
from reducers.vocabulary.json import object_problem
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Requesting,
    is_busy,
)
from reducers.vocabulary.policies import GrantSource
from reducers.vocabulary.tools import ToolOutput


def decide_permission(draft: Draft, input: DecidePermission) -> None:
    question = _permission(draft.state, input)
    call = calls_machine.find(draft.state.calls, question.call)
    if call is None:
        raise UnknownPermission(input.id, "the call is gone that was asked about in question")
    source: GrantSource = "policy" if input.by_rule else "user"
    decide(draft, call, input.grant, source, question.id, input.reason)
    rest_after_batch(draft)


def _permission(state: State, input: DecidePermission) -> Question:
    question = questions_machine.find(state.questions, input.id)
    if question is None:
        how = questions_machine.how_answered(state.questions, input.id)
        if how is not None:
            raise AlreadyResolved(input.id, how)
        raise UnknownPermission(input.id)
    if question.kind != "permission":
        advice = "its outcome is what is unknown, so use retry, settle or fail for question"
        raise UnknownPermission(input.id, advice)
    if input.args and input.args != question.args:
        raise UnknownPermission(input.id, "other arguments were asked about in question")
    return question


# -- unknown outcomes --------------------------------------------------------------------------


def settle(draft: Draft, input: SettleOutcome) -> None:
    """A person says how the call ended."""
    call = _waiting_for_outcome(draft.state, input.call)
    how = "failed" if input.output.is_error else "settled"
    conclude(draft, call, input.output, how, mended=input.mended)


def retry(draft: Draft, input: RetryOutcome) -> None:
    """A person orders the call to be started again, under the key of its first start."""
    call = _waiting_for_outcome(draft.state, input.call)
    _refuse_to_run(call)
    _answer_question(draft, call.id, "retried")
    draft.say(ToolRetried(call=call.id))
    if call.grant is None:
        # It was never judged: a person who orders the run has thereby allowed it.
        question = draft.state.questions.next_id
        decide(draft, call, "allow", "user", question, "its run was ordered")
    rest_after_batch(draft)


def _refuse_to_run(call: Call) -> None:
    """What no order overrides: arguments that are none (R17), an unknown tool, a refusal."""
    if call.spec is None:
        raise InvalidInput(f"call {call.id!r} cannot be run: there is no tool {call.tool!r}")
    problem = object_problem(call.args)
    if problem is not None:
        raise InvalidInput(f"call {call.id!r} cannot be run: its arguments are not one: {problem}")
    if call.verdict == "deny" or call.grant == "deny":
        raise InvalidInput(f"call {call.id!r} cannot be run: it was refused; settle or fail it")


def conclude(draft: Draft, call: Call, output: ToolOutput, how: str, **result: Any) -> None:
    """Record how a call ended whose outcome was unknown. Where the loop waited for that, it goes on
    to what is left of the batch; where it had moved on, it stays."""
    _answer_question(draft, call.id, how)
    record_result(draft, call, output, **result)
    if isinstance(draft.state.loop.phase, Deciding):
        rest_after_batch(draft)


def _answer_question(draft: Draft, call: str, how: str) -> None:
    question = questions_machine.about(draft.state.questions, call)
    if question is not None:
        draft.say(QuestionAnswered(id=question.id, how=how))


def _waiting_for_outcome(state: State, name: str) -> Call:
    call = calls_machine.find(state.calls, name)
    if name in state.calls.proposed:
        raise Busy(f"the loop is busy: call {name!r} is still to be judged")
    if call is None or call.status == "done":
        if name in state.calls.seen:
            raise AlreadyResolved(name, "it has its result")
        raise UnknownCall(name)
    if isinstance(state.loop.phase, Requesting | Executing):
        raise Busy(f"the loop is busy: call {name!r} may still be answered by itself")
    question = questions_machine.about(state.questions, name)
    if question is not None and question.kind == "permission":
        raise UnknownCall(name, "is waiting for an outcome: it waits for a permission")
    if question is None and name not in (call.id for call in unanswered(state)):
        raise UnknownCall(name, "is waiting for an outcome: it is prepared and has not run")
    return call


def unanswered(state: State) -> tuple[Call, ...]:
    """Calls without a result that nothing will answer by itself: their driver left, or their
    outcome is unknown after a crash."""
    left = calls_machine.unfinished(state.calls)
    asked = [question.call for question in state.questions.open if question.kind == "outcome"]
    phase = state.loop.phase
    if isinstance(phase, Idle | Finished):
        return left
    return tuple(
        call
        for call in left
        if call.id in asked or (call.status == "running" and not is_busy(phase))
    )


ABSORB: dict[type, Callable[[Draft, Any], None]] = {
    DecidePermission: decide_permission,
    SettleOutcome: settle,
    RetryOutcome: retry,
}
