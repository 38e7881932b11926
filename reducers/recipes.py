"""What several inputs and rules have in common: claiming, recording a result, ending a step."""

from msgspec.structs import replace

from reducers import wording
from reducers.draft import Draft
from reducers.machines import calls as calls_machine
from reducers.machines import context as context_machine
from reducers.machines.calls import Call
from reducers.state import State
from reducers.vocabulary.content import Text, truncate
from reducers.vocabulary.digests import text_digest
from reducers.vocabulary.events import (
    PermissionDecided,
    StepFailed,
    ToolFinished,
    ToolPanicked,
    ToolRequested,
    TurnOpened,
    UndoMode,
)
from reducers.vocabulary.items import ContextItem, ToolResult
from reducers.vocabulary.models import Overrun
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Ready,
    Requesting,
    is_busy,
)
from reducers.vocabulary.policies import Grant, GrantSource
from reducers.vocabulary.tools import ToolOutput


def open_turn(draft: Draft) -> None:
    if not draft.state.loop.is_open:
        draft.say(TurnOpened(turn=draft.state.loop.turn + 1))


def claim_request(draft: Draft, drive: str = "") -> None:
    open_turn(draft)
    draft.enter(Requesting(), drive)


def claim_execution(draft: Draft, drive: str = "") -> None:
    open_turn(draft)
    draft.enter(Executing(waiting(draft.state)), drive)


def waiting(state: State) -> tuple[str, ...]:
    """Prepared calls, in the model's order."""
    return tuple([call.id for call in state.calls.batch if call.status == "prepared"])


def decide(
    draft: Draft, call: Call, grant: Grant, source: GrantSource, question: int, reason: str = ""
) -> None:
    draft.say(
        PermissionDecided(
            id=question,
            call=call.id,
            grant=grant,
            source=source,
            args=text_digest(call.args),
            reason=reason,
        )
    )


def take_proposed(draft: Draft) -> None:
    """Calls of a reply that were never looked at join its batch, to be answered like the others."""
    turn = context_machine.item(draft.state.context, draft.state.calls.item)
    tools = {} if turn is None else {call.id: call.tool for call in turn.calls()}
    for name in draft.state.calls.proposed:
        draft.say(ToolRequested(call=name, tool=tools.get(name, "")))


# -- results -----------------------------------------------------------------------------------


def record_result(
    draft: Draft,
    call: Call,
    output: ToolOutput,
    *,
    effect: str | None = None,
    crashed: bool = False,
    mended: int = 0,
    is_held: bool = False,
    has_limit: bool = True,
    undo: UndoMode | None = None,
    stop: int | None = None,
) -> None:
    """Record one result: the whole, if it is shortened; the item; `tool.finished`.

    `is_held`: the content stands in the batch already, under this call.
    """
    mode = undo or _mode(draft.state)
    if crashed:
        draft.say(ToolPanicked(call=call.id, tool=call.tool))
    item = ContextItem(
        kind=ToolResult(call.id, call.tool, output.is_error),
        source="tool_result",
        label=_label(call),
        content=output.content,
        state="active",
        included_because=wording.mended(mended) if mended else None,
    )
    limit = _limit(draft.state, call) if has_limit else None
    cut = None if limit is None else truncate(output.content, limit)  # type: ignore[arg-type]
    dropped: int | None = None
    whole: int | None = None
    if cut is not None:
        text, dropped = cut
        if draft.state.session.config.keep_truncated_output:
            whole = _keep_whole(draft, item, mode, is_held)
            mode = "join"
        because = _cut_reason(dropped, whole, item.included_because)
        item = replace(item, content=text, included_because=because)
    id = draft.add(item, mode, held=is_held and cut is None)
    added = draft.state.context.items[id - 1]
    draft.say(
        ToolFinished(
            effect=effect,
            call=call.id,
            tool=call.tool,
            is_error=output.is_error,
            truncated=dropped,
            tokens=0 if added is None else added.tokens,
            item=id,
            whole=whole,
            stop=stop,
        )
    )


def _keep_whole(draft: Draft, item: ContextItem, mode: UndoMode, is_held: bool) -> int:
    """Beside the shortened result, the whole: its id."""
    kept = replace(
        item,
        state="archived",
        note=wording.WHOLE_NOTE,
        included_because=wording.WHOLE_KEPT,
    )
    return draft.add(kept, mode, held=is_held)


def _mode(state: State) -> UndoMode:
    """Results of a batch share its point. One that comes when the loop has moved on stands alone:
    that point may have been undone meanwhile."""
    moved_on = isinstance(state.loop.phase, Idle | Finished)
    return "join" if state.calls.has_results and not moved_on else "open"


def _cut_reason(dropped: int, whole: int | None, because: str | None) -> str:
    text = f"an output limit cut {dropped} bytes"
    if whole is not None:
        text += f"; the whole is item {whole}"
    return text if because is None else f"{text}; {because}"


def _label(call: Call) -> str:
    """`tool`, or `tool:op` where this call needs one of several capabilities."""
    declared = () if call.spec is None else call.spec.capabilities
    needed = call.capabilities
    if len(declared) > 1 and needed is not None and len(needed) == 1:
        return f"{call.tool}:{needed[0].partition(':')[2]}"
    return call.tool


def _limit(state: State, call: Call) -> int | None:
    if call.spec is None:
        return None
    if call.limit is not None:
        return call.limit
    if not call.has_own_limit and call.spec.output_limit is not None:
        return call.spec.output_limit
    return state.session.config.default_tool_output_limit


def record_text(draft: Draft, call: Call, text: str, **how: object) -> None:
    """An error result in the kernel's own words."""
    record_result(draft, call, ToolOutput(Text(text), is_error=True), **how)  # type: ignore[arg-type]


def record_answer(draft: Draft, call: Call) -> None:
    """The answer that waited in the batch becomes the result."""
    assert call.output is not None
    record_result(
        draft,
        call,
        call.output,
        effect=call.effect,
        crashed=call.crashed,
        mended=call.mended,
        is_held=True,
    )


def record_refusal(draft: Draft, call: Call) -> None:
    by_person = call.source == "user"
    text = wording.refused_by_person(call.why) if by_person else wording.refused_by_rule(call.why)
    record_text(draft, call, text)


def record_held(draft: Draft) -> None:
    """However a batch ends, the answers that came are recorded as the results."""
    for call in calls_machine.with_status(draft.state.calls, "answered"):
        record_answer(draft, call)


# -- ends --------------------------------------------------------------------------------------


def fail_step(draft: Draft, error: BaseException, overrun: Overrun | None = None) -> None:
    """No request could be made, or the judging code failed: say so and rest."""
    draft.raised = error
    draft.say(StepFailed(error=str(error) or type(error).__name__, overrun=overrun))
    if is_busy(draft.state.loop.phase):
        record_held(draft)
        take_proposed(draft)
        draft.enter(Idle(), "none")


def rest_after_batch(draft: Draft) -> None:
    """Where the loop stands when calls of the batch wait: questions first, then what may run."""
    open_ids = tuple([question.id for question in draft.state.questions.open])
    ready = waiting(draft.state)
    if open_ids:
        draft.enter(Deciding(open_ids))
    elif ready:
        draft.enter(Ready(ready))
    else:
        draft.enter(Idle())
