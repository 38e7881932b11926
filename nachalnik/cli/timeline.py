"""One line an event: position and time of its commit, its name, and what of it matters."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, assert_never

from nachalnik.cli.words import counted, shortened
from reducers.state import Commit, State
from reducers.views import Record, records
from reducers.vocabulary import events as tags
from reducers.vocabulary.content import as_text
from reducers.vocabulary.items import AssistantMessage, ToolResult, kind_name
from reducers.vocabulary.json import compact
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Phase,
    Ready,
    Requesting,
    name_of,
)

TEXT_WIDTH = 72
ARGS_WIDTH = 120
LABEL_WIDTH = 40


def lines_of(before: State, commit: Commit, after: State, *, is_whole: bool) -> list[str]:
    """The lines of one commit, position and time on the first; none where nothing is to be shown.

    `is_whole` shows bookkeeping too.
    """
    shown = [one for one in records(before, commit, after) if is_whole or one.seq is not None]
    head = f"{commit.position:>6} {clock(commit.at)}"
    rest = " " * len(head)
    return [
        f"{rest if place else head}  {record.name:<20} {matter(record)}".rstrip()
        for place, record in enumerate(shown)
    ]


def clock(at: int) -> str:
    """The time of day of a stamp, in UTC, to the millisecond."""
    return f"{_moment(at):%H:%M:%S}.{at % 1000:03}"


def day(at: int) -> str:
    return f"{_moment(at):%Y-%m-%d} UTC"


def _moment(at: int) -> datetime:
    # A stamp may be anything, and datetime covers the years 1 to 9999.
    return datetime.fromtimestamp(min(max(at // 1000, 0), 253402300799), UTC)


def matter(record: Record) -> str:
    """What matters of an event, on one line."""
    event = record.raw
    if (say := OF_EVENT.get(type(event))) is not None:
        return say(event)
    return WITH_RECORD[type(event)](event, record) if type(event) in WITH_RECORD else ""


def phase_words(phase: Phase) -> str:
    match phase:
        case Deciding(calls=ids):
            return f"deciding ({', '.join(map(str, ids))})"
        case Ready(calls=calls) | Executing(calls=calls):
            return f"{name_of(phase)} ({', '.join(map(_word, calls))})"
        case Finished(stop=stop):
            return f"finished ({_word(stop)})"
        case Idle() | Requesting():
            return name_of(phase)
        case _:
            assert_never(phase)


# -- the table ---------------------------------------------------------------------------------


def _word(text: str) -> str:
    return shortened(text, LABEL_WIDTH)


def _quoted(text: str) -> str:
    return f'"{shortened(text, TEXT_WIDTH)}"'


def _list(values: Any) -> str:
    return ", ".join(_word(str(one)) for one in values)


def _args(record: Record) -> str:
    args = record["args"]
    return shortened(args if isinstance(args, str) else compact(args), ARGS_WIDTH)


def _model(info: Any) -> str:
    return "none" if info is None else _word(str(info))


def _added(event: tags.ContextAdded, record: Record) -> str:
    item = event.item
    text = as_text(record.content)
    kind = _word(item.label) if isinstance(item.kind, ToolResult) else kind_name(item.kind)
    parts = [f"#{item.id} {kind}", _quoted(text) if text else "", _tokens(item.tokens)]
    if item.state != "active":
        parts.append(item.state)
    if isinstance(item.kind, ToolResult) and item.kind.is_error:
        parts.append("(error)")
    if isinstance(item.kind, AssistantMessage) and item.calls():
        parts.append(counted(len(item.calls()), "call"))
    return " ".join(filter(None, parts))


def _tokens(count: int) -> str:
    return counted(count, "token")


def _changed(event: tags.ContextChanged, record: Record) -> str:
    note = f" {_quoted(event.note)}" if event.note else ""
    return f"#{event.id} {record['from']} -> {event.to}{note}"


def _state_changed(event: tags.StateChanged, record: Record) -> str:
    return f"{record['from']['state']} -> {phase_words(event.to)}"


def _requested(event: tags.ModelRequested) -> str:
    text = (
        f"{counted(event.messages, 'message')}, {counted(event.tools, 'tool')}, "
        f"{_tokens(event.tokens)}"
    )
    if event.repairs.put:
        text += f"; repaired: {shortened('; '.join(event.repairs.put), TEXT_WIDTH)}"
    return text


def _finished(event: tags.ModelFinished) -> str:
    usage = event.usage
    cost = f", {usage.input_tokens} in, {usage.output_tokens} out" if usage else ""
    return f"{_word(event.stop)} #{event.item}{cost}"


def _tool_finished(event: tags.ToolFinished) -> str:
    error = " (error)" if event.is_error else ""
    cut = f", {event.truncated} bytes cut" if event.truncated else ""
    return f"{_word(event.call)} {_word(event.tool)} #{event.item}{error}{cut}"


def _permission(event: tags.PermissionRequested, record: Record) -> str:
    needs = f" needs {_list(event.capabilities)}" if event.capabilities else ""
    tool = record["request"]["tool"]
    return f"question {event.id}: {_word(event.call)} {_word(tool)}{needs}"


def _decided(event: tags.PermissionDecided) -> str:
    reason = f": {shortened(event.reason, TEXT_WIDTH)}" if event.reason else ""
    return f"{_word(event.call)} {event.grant} by {event.source}{reason}"


def _failed(event: tags.ModelFailed) -> str:
    code = f"{event.code}: " if event.code else ""
    return f"{code}{shortened(event.error, ARGS_WIDTH)}"


def _started(event: tags.ToolStarted) -> str:
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return f"{_word(event.call)} {_word(event.tool)}{again}"


def _judged(event: tags.CallJudged) -> str:
    why = f": {shortened(event.why, TEXT_WIDTH)}" if event.why else ""
    return f"{_word(event.call)} {event.verdict or 'by the rules'}{why}"


OF_EVENT: dict[type, Callable[[Any], str]] = {
    tags.SessionStarted: lambda event: f"{_word(event.session)}, format {event.format}",
    tags.SessionOpened: lambda event: f"with {_list(event.here) or 'nothing'}",
    tags.PartsDescribed: lambda event: f"with {_list(event.here) or 'nothing'}",
    tags.ModelChanged: lambda event: _model(event.to),
    tags.ModelParams: lambda event: shortened(event.params, ARGS_WIDTH),
    tags.ToolsChanged: lambda event: _list(spec.id for spec in event.tools) or "none",
    tags.PolicyChanged: lambda event: _policy(event.to),
    tags.ProjectorChanged: lambda event: shortened(event.to, ARGS_WIDTH),
    tags.CounterChanged: lambda event: shortened(event.to, ARGS_WIDTH),
    tags.CounterObserved: lambda event: f"{event.estimated} estimated, {event.reported} counted",
    tags.ContextAnnotated: lambda event: f"#{event.id} {shortened(event.meta, TEXT_WIDTH)}",
    tags.ContextRecounted: lambda event: f"{event.tokens_before} -> {_tokens(event.tokens_after)}",
    tags.ContextUndone: lambda event: (
        f"removed {_ids(event.removed)}; changed {_ids(event.changed)}"
    ),
    tags.ContextRedone: lambda event: (
        f"brought back {_ids(event.restored)}; changed {_ids(event.changed)}"
    ),
    tags.TurnOpened: lambda event: f"turn {event.turn}",
    tags.TurnClosed: lambda event: f"turn {event.turn}, {event.reason}",
    tags.TurnPaused: lambda event: f"after {counted(event.requests, 'request')}",
    tags.TurnUnfinished: lambda event: _list(event.calls),
    tags.ModelRequested: _requested,
    tags.ModelFinished: _finished,
    tags.ModelFailed: _failed,
    tags.StepFailed: lambda event: shortened(event.error, ARGS_WIDTH),
    tags.RequestAbandoned: lambda event: f"{event.effect}: {_word(event.reason)}",
    tags.ToolUnknown: lambda event: f"{_word(event.call)} {_word(event.tool)}",
    tags.ToolRepaired: lambda event: f"{_word(event.was)!r} -> {_word(event.call)}: {event.reason}",
    tags.ToolReserved: lambda event: _list(event.calls),
    tags.CallJudged: _judged,
    tags.PermissionDecided: _decided,
    tags.QuestionOpened: lambda event: f"question {event.id}: outcome of {_word(event.call)}",
    tags.QuestionAnswered: lambda event: f"question {event.id}: {_word(event.how)}",
    tags.QuestionLeft: lambda event: f"question {event.id}: the tool cannot tell",
    tags.ToolStarted: _started,
    tags.CallAnswered: lambda event: (
        f"{_word(event.call)} {_quoted(as_text(event.output.content))}"
    ),
    tags.ToolPanicked: lambda event: f"{_word(event.call)} {_word(event.tool)}",
    tags.ToolFinished: _tool_finished,
    tags.ToolRetried: lambda event: _word(event.call),
    tags.ToolLate: lambda event: f"{_word(event.call)} {_quoted(as_text(event.output.content))}",
    tags.TimerStarted: lambda event: f"{event.after_s} s",
    tags.TimerFired: lambda event: event.effect,
}
WITH_RECORD: dict[type, Callable[[Any, Record], str]] = {
    tags.ContextAdded: _added,
    tags.ContextChanged: _changed,
    tags.ContextReplaced: lambda event, record: (
        f"#{event.id} {record['tokens_before']} -> {_tokens(event.tokens)}"
    ),
    tags.StateChanged: _state_changed,
    tags.ToolRequested: lambda event, record: (
        f"{_word(event.call)} {_word(event.tool)} {_args(record)}"
    ),
    tags.PermissionRequested: _permission,
}
"""Those that need what the fold knows; it is looked up in the record."""
BARE = (tags.SessionFinished, tags.TurnInterrupted, tags.InterruptSpent)
"""Events that say all by their name. A test holds the three against `Event`."""


def _ids(ids: Any) -> str:
    return ", ".join(f"#{id}" for id in ids) or "none"


def _policy(policy: Any) -> str:
    if policy.rules is None:
        return f"{_word(policy.name)}, code"
    rules = (f"{rule.verdict} {_word(rule.subject)}" for rule in policy.rules)
    return f"{_word(policy.name)}: {', '.join(rules) or 'ask about everything'}"
