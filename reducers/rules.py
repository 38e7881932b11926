"""The rules of the loop, in order of priority: what follows from the joint state.

Those that belong to the phase are asked from the top until one has something to say; then it is
asked again, until nobody speaks. Read from top to bottom they are the specification of the loop.
"""

from collections.abc import Callable

from reducers import wording
from reducers.draft import Draft
from reducers.machines import calls as calls_machine
from reducers.machines import parts
from reducers.machines.calls import Call, is_any, unfinished, with_status
from reducers.recipes import (
    claim_execution,
    claim_request,
    decide,
    fail_step,
    record_answer,
    record_refusal,
    record_text,
    rest_after_batch,
)
from reducers.reducer import Draw
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.digests import text_digest
from reducers.vocabulary.errors import EmptyProjection, NoProvider, TooLong
from reducers.vocabulary.events import (
    InterruptSpent,
    ModelRequested,
    PermissionRequested,
    ToolRequested,
    ToolStarted,
    ToolUnknown,
    TurnClosed,
    TurnPaused,
    UndoMode,
)
from reducers.vocabulary.json import object_problem
from reducers.vocabulary.models import ModelInfo, Overrun
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Phase,
    Ready,
    Requesting,
)
from reducers.vocabulary.policies import judge


def answer_left_calls(draft: Draft) -> None:
    """Before a request is built, every call that nobody works on any more gets a result."""
    mode: UndoMode = "open"
    for call in unfinished(draft.state.calls):
        started = call.status == "running"
        text = wording.outcome_unknown() if started else wording.was_not_run()
        record_text(draft, call, text, has_limit=False, undo=mode)
        mode = "join"


def send_request(draft: Draft) -> None:
    """A claim becomes a request, or a step that failed."""
    state = draft.state
    model = parts.model(state.parts)
    if model is None:
        fail_step(draft, NoProvider())
        return
    draw = draft.reducer.draw(state)
    if not len(draw.request.messages):
        fail_step(draft, EmptyProjection())
        return
    overrun = _overrun(draft, draw, model)
    if overrun is not None:
        fail_step(draft, TooLong(overrun), overrun)
        return
    items, skipped, repairs = draft.reducer.splices(state, draw)
    draft.say(
        ModelRequested(
            effect=draft.announce(),
            model=state.parts.model_at,
            messages=len(draw.request.messages),
            tools=len(draw.request.tools),
            tokens=draw.tokens + draw.tool_tokens,
            uncounted=draw.uncounted,
            items=items,
            skipped=skipped,
            repairs=repairs,
            digest=draw.digest,
        )
    )
    draft.reducer.remember(draft.state, draw)


def _overrun(draft: Draft, draw: Draw, model: ModelInfo) -> Overrun | None:
    limit = model.context_limit
    tokens = draw.tokens + draw.tool_tokens
    if not draft.state.session.config.refuse_oversized_requests or not limit or tokens <= limit:
        return None
    return Overrun(tokens, limit)


def request_calls(draft: Draft) -> None:
    """Look at the next call of the reply: announce it, and answer at once what cannot be run."""
    state = draft.state
    if not state.calls.proposed or is_any(state.calls, "judging"):
        return
    name = state.calls.proposed[0]
    asked = _asked(draft, name)
    # An opening answers nobody's call: what an earlier process had, the next one may have again.
    tools = state.parts.tools if draft.is_opening else parts.tools(state.parts)
    spec = parts.named(tools, asked.tool)
    problem = object_problem(asked.args)
    needs_code = parts.policy(state.parts).rules is None or (spec is not None and spec.judged)
    judges = spec is not None and problem is None and needs_code and not draft.is_opening
    effect = draft.announce() if judges else None
    draft.say(ToolRequested(call=name, tool=asked.tool, effect=effect))
    call = calls_machine.find(draft.state.calls, name)
    assert call is not None
    if spec is None:
        draft.say(ToolUnknown(call=name, tool=asked.tool))
        text = wording.unknown_tool(asked.tool, tools)
        record_text(draft, call, text, undo="join", has_limit=False)
    elif problem is not None:
        record_text(draft, call, wording.not_arguments(problem), undo="join", has_limit=False)


def _asked(draft: Draft, name: str) -> ToolCall:
    turn = draft.state.context.items[draft.state.calls.item - 1]
    assert turn is not None
    for call in turn.calls():
        if call.id == name:
            return call
    raise AssertionError(f"the turn does not ask for {name!r}")


def announce_permissions(draft: Draft) -> None:
    """When the whole reply has been looked at: say what is granted, ask what is not, and rest."""
    state = draft.state
    if state.requests.in_flight or state.calls.proposed or is_any(state.calls, "judging"):
        return
    for call in with_status(state.calls, "requested", "judged"):
        _permit(draft, call)
    rest_after_batch(draft)


def _permit(draft: Draft, call: Call) -> None:
    policy = parts.policy(draft.state.parts)
    assert call.spec is not None
    capabilities = call.spec.capabilities if call.capabilities is None else call.capabilities
    why: str | None = call.why
    verdict = call.verdict
    if verdict is None:
        # A judgement asked of code that never came is a question for people.
        needs_code = call.spec.judged and call.status == "requested"
        rules = () if policy.rules is None or needs_code else policy.rules
        verdict, why = judge(rules, call.tool, capabilities)
    question = call.question or draft.state.questions.next_id
    if verdict == "ask":
        draft.say(
            PermissionRequested(
                id=question,
                call=call.id,
                capabilities=capabilities,
                args=text_digest(call.args),
            )
        )
    else:
        reason = (why or "") if verdict == "deny" else ""
        decide(draft, call, verdict, "policy", question, reason)


def go_on_with_turn(draft: Draft) -> None:
    """A turn drives itself: from ready to the calls, from idle to the next request."""
    loop = draft.state.loop
    if loop.drive != "turn":
        return
    limit = draft.state.session.config.max_requests_per_turn
    rests = isinstance(loop.phase, Idle)
    if rests and limit is not None and loop.requests >= limit:
        draft.say(TurnPaused(requests=loop.requests))
    elif loop.is_interrupted:
        draft.say(InterruptSpent())
    elif isinstance(loop.phase, Ready):
        claim_execution(draft)
    else:
        claim_request(draft)


def run_calls(draft: Draft) -> None:
    """Serially one call after the other; in parallel all at once, and results when all are in."""
    state = draft.state
    phase = state.loop.phase
    assert isinstance(phase, Executing)
    waiting = []
    for call in state.calls.batch:
        if call.id in phase.calls:
            if call.status == "running":
                return
            if call.status in ("prepared", "answered"):
                waiting.append(call)
    if not waiting:
        draft.enter(Idle())
        return
    first = waiting[0]
    if first.status == "answered":
        record_answer(draft, first)
    elif state.session.config.parallel_tool_calls:
        _start_all(draft, waiting)
    elif state.loop.is_interrupted:
        record_text(draft, first, wording.interrupted())
    elif first.grant == "allow":
        _start(draft, first)
    else:
        record_refusal(draft, first)


def _start_all(draft: Draft, waiting: list[Call]) -> None:
    allowed = [call for call in waiting if call.grant == "allow"]
    for call in allowed:
        _start(draft, call)
    if not allowed:
        record_refusal(draft, waiting[0])


def _start(draft: Draft, call: Call) -> None:
    draft.say(
        ToolStarted(effect=draft.announce(), call=call.id, tool=call.tool, attempt=call.attempt + 1)
    )


def close_turn(draft: Draft) -> None:
    loop = draft.state.loop
    if loop.is_open:
        draft.say(TurnClosed(turn=loop.turn, reason="finished"))


DUE = (answer_left_calls, send_request)
"""Who may have something to say while a claim is due, which has become no request yet."""

RULES: dict[type[Phase], tuple[Callable[[Draft], None], ...]] = {
    Requesting: (request_calls, announce_permissions),
    Deciding: (),
    Ready: (go_on_with_turn,),
    Executing: (run_calls,),
    Idle: (go_on_with_turn,),
    Finished: (close_turn,),
}
"""By the phase the loop is in: who may have something to say there, in order of priority."""
