"""The trace of a run: one entry for each commit, in a fixed form.

    6 turn.run          [turn.opened 1] · >requesting · model.requested{1}

First the position and the tag of the input, then the events; bookkeeping stands in brackets. An
item is shown as `#1 user "text"`, with `o` where it opens an undo point and `j` where it joins one.
Entries that are no commit begin with a sign: `!` a refusal, `-` a crash or what was looked at.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, assert_never

from reducers.machines import context as context_machine
from reducers.state import Commit, State, answer_held
from reducers.vocabulary import events
from reducers.vocabulary.content import Held, as_text, blobs_of
from reducers.vocabulary.items import AssistantMessage, ContextItem, ToolResult, kind_name
from reducers.vocabulary.messages import Message, ModelRequest
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

WIDTH = 100
INDENT = 24
TEXT_MAX = 130


def quoted(text: str, limit: int = TEXT_MAX) -> str:
    if len(text) > limit:
        text = f"{text[:limit]}…"
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in shown)


# -- events ------------------------------------------------------------------------------------


def shown_item(item: ContextItem, content: Any) -> str:
    """`#3 result(c1) error "text"`, `#2 assistant "text" + call c1 add{...}`."""
    kind = item.kind
    said = quoted(as_text(content)) if not blobs_of(content) else str(content)
    if isinstance(kind, ToolResult):
        error = " error" if kind.is_error else ""
        return f"#{item.id} result({kind.call}){error} {said}"
    name = {"user_message": "user", "assistant_message": "assistant"}.get(
        kind_name(kind), kind_name(kind)
    )
    if item.label not in (name, kind_name(kind)):
        name = f"{name} {item.label}"
    shown = [f"#{item.id} {name}"]
    if isinstance(kind, AssistantMessage) and kind.reasoning is not None:
        shown.append(f"thinking {quoted(as_text(kind.reasoning))} +")  # type: ignore[arg-type]
    shown.append(said)
    shown += [f"+ call {call.id} {call.tool}{quoted_args(call.args)}" for call in item.calls()]
    return " ".join(shown)


def quoted_args(args: str) -> str:
    is_object = args.startswith("{") and args.endswith("}")
    return args if is_object and len(args) <= TEXT_MAX else f"'{args[:TEXT_MAX]}'"


def _undo(event: Any) -> str:
    return {"open": " o", "join": " j"}.get(event.undo, "")


def _added(event: events.ContextAdded, before: State) -> str:
    content = event.item.content
    held = ""
    if isinstance(content, Held):
        content, held = answer_held(before, event), " held"
    why = event.item.included_because
    because = "" if why is None else f" because {quoted(why)}"
    return f"context.added {shown_item(event.item, content)}{held}{because}{_undo(event)}"


def _changed(event: events.ContextChanged) -> str:
    note = f" {quoted(event.note)}" if event.note else ""
    return f"context.changed #{event.id}>{event.to}{note}{_undo(event)}"


def _replaced(event: events.ContextReplaced) -> str:
    return f"context.replaced #{event.id} {quoted(as_text(event.content))}{_undo(event)}"  # type: ignore[arg-type]


def _undone(event: Any) -> str:
    name = str(event.__struct_config__.tag)
    lists = {
        "removed": getattr(event, "removed", ()),
        "restored": getattr(event, "restored", ()),
        "changed": event.changed,
    }
    shown = [f"{word} {_ids(ids)}" for word, ids in lists.items() if ids]
    return " ".join([name, *shown])


def _ids(ids: Iterable[int]) -> str:
    return ",".join(f"#{id}" for id in ids)


def phase_name(phase: Phase) -> str:
    match phase:
        case Deciding(calls=ids):
            return f"deciding{{{','.join(str(id) for id in ids)}}}"
        case Ready(calls=calls) | Executing(calls=calls):
            return f"{name_of(phase)}{{{','.join(calls)}}}"
        case Finished(stop=stop):
            return "finished" if stop == "end_turn" else f"finished({stop})"
        case Idle() | Requesting():
            return name_of(phase)
        case _:
            assert_never(phase)


def _requested(after: State) -> str:
    requests = after.requests
    ids = ",".join(str(id) for id in requests.included)
    told = [f"without #{one.id}: {one.reason}" for one in requests.skipped]
    told += [f"repaired: {text}" for text in requests.repairs]
    return f"model.requested{{{ids}}}" + (f" ({'; '.join(told)})" if told else "")


def _permission_requested(event: events.PermissionRequested) -> str:
    return f"permission.requested {event.id} {event.call}"


def _decided(event: events.PermissionDecided) -> str:
    reason = f" {quoted(event.reason)}" if event.reason else ""
    return f"permission.decided {event.id} {event.call} {event.grant}/{event.source}{reason}"


def _finished(event: events.ToolFinished) -> str:
    shown = [f"tool.finished {event.call}"]
    if event.is_error:
        shown.append("error")
    if event.truncated is not None:
        shown.append(f"cut {event.truncated} bytes")
    if event.whole is not None:
        shown.append(f"whole #{event.whole}")
    if event.stop is not None:
        shown.append("stop it")
    return " ".join(shown)


def _started(event: events.ToolStarted) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    return f"tool.started {event.call}{attempt}"


def _model_changed(event: events.ModelChanged) -> str:
    if event.to is None:
        return "model.changed none"
    place = f" at {event.to.endpoint}" if event.to.endpoint else ""
    return f"model.changed {event.to}{place}"


def _policy_changed(event: events.PolicyChanged) -> str:
    rules = event.to.rules
    if rules is None:
        return f"policy.changed {event.to.name}"
    shown = ", ".join(f"{rule.verdict} {rule.subject}" for rule in rules)
    return f"policy.changed {shown}".rstrip()


def _tools_changed(event: events.ToolsChanged) -> str:
    return f"tools.changed {', '.join(tool.id for tool in event.tools)}".rstrip()


def _question_opened(event: events.QuestionOpened) -> str:
    asked = " its tool is asked" if event.effect is not None else ""
    return f"question.opened {event.id} {event.kind} {event.call}{asked}"


def _output(event: Any) -> str:
    name = str(event.__struct_config__.tag)
    error = " error" if event.output.is_error else ""
    return f"{name} {event.call}{error} {quoted(as_text(event.output.content))}"


def _abandoned(event: events.RequestAbandoned) -> str:
    stop = " stop it" if event.stop is not None else ""
    return f"request.abandoned {event.effect} {quoted(event.reason)}{stop}"


def _failed(event: Any) -> str:
    code = getattr(event, "code", "")
    shown = [str(event.__struct_config__.tag), *([code] if code else []), quoted(event.error)]
    return " ".join(shown)


def _fields(*names: str) -> Callable[[Any], str]:
    """The tag and these fields, those that are empty left out."""

    def show(event: Any) -> str:
        values = [getattr(event, name) for name in names]
        shown = [",".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in values]
        return " ".join([str(event.__struct_config__.tag), *filter(None, shown)])

    return show


SHOWN: dict[type, Callable[[Any], str]] = {
    events.SessionStarted: _fields(),
    events.SessionOpened: _fields(),
    events.SessionFinished: _fields(),
    events.PartsDescribed: _fields("here"),
    events.ModelChanged: _model_changed,
    events.ModelParams: _fields("params"),
    events.ToolsChanged: _tools_changed,
    events.PolicyChanged: _policy_changed,
    events.ProjectorChanged: _fields("to"),
    events.CounterChanged: _fields("to"),
    events.CounterObserved: _fields("estimated", "reported"),
    events.ContextChanged: _changed,
    events.ContextReplaced: _replaced,
    events.ContextAnnotated: lambda event: f"context.annotated #{event.id} {event.meta}",
    events.ContextRecounted: _fields("tokens_before", "tokens_after"),
    events.ContextUndone: _undone,
    events.ContextRedone: _undone,
    events.TurnOpened: _fields("turn"),
    events.TurnClosed: _fields("turn", "reason"),
    events.TurnInterrupted: _fields(),
    events.InterruptSpent: _fields(),
    events.TurnPaused: _fields("requests"),
    events.TurnUnfinished: _fields("calls"),
    events.StateChanged: lambda event: f">{phase_name(event.to)}",
    events.ModelFinished: _fields("stop"),
    events.ModelFailed: _failed,
    events.StepFailed: _failed,
    events.RequestAbandoned: _abandoned,
    events.ToolRequested: _fields("call", "tool"),
    events.ToolUnknown: _fields("call", "tool"),
    events.ToolRepaired: lambda event: (
        f"tool.repaired {event.call} was {quoted(event.was)}: {event.reason}"
    ),
    events.ToolReserved: _fields("calls"),
    events.CallJudged: _fields("call", "verdict"),
    events.PermissionRequested: _permission_requested,
    events.PermissionDecided: _decided,
    events.QuestionOpened: _question_opened,
    events.QuestionAnswered: _fields("id", "how"),
    events.QuestionLeft: _fields("id"),
    events.ToolStarted: _started,
    events.CallAnswered: _output,
    events.ToolPanicked: _fields("call"),
    events.ToolFinished: _finished,
    events.ToolRetried: _fields("call"),
    events.ToolLate: _output,
    events.TimerStarted: _fields("after_s"),
    events.TimerFired: _fields("effect"),
}


# -- commits -----------------------------------------------------------------------------------


def shown_commit(before: State, commit: Commit, after: State) -> str:
    """One entry, broken between events where it is long."""
    shown = []
    for event in commit.events:
        match event:
            case events.ContextAdded():
                text = _added(event, before)
            case events.ModelRequested():
                text = _requested(after)
            case _:  # the table has all others, as a test proves
                text = SHOWN[type(event)](event)
        shown.append(text if isinstance(event, events.Recorded) else f"[{text}]")
    tag = str(commit.input.__struct_config__.tag)
    return _broken(f"{commit.position:>3} {tag:<{INDENT - 5}}", shown)


def _broken(head: str, words: list[str]) -> str:
    lines, line = [], head
    for place, word in enumerate(words):
        joined = word if place == len(words) - 1 else f"{word} ·"
        if len(line) + 1 + len(joined) > WIDTH and line.strip() and place:
            lines.append(line.rstrip())
            line = " " * (INDENT - 1)
        line = f"{line} {joined}"
    return "\n".join([*lines, line.rstrip()])


def render(states: tuple[State, ...], commits: tuple[Commit, ...], notes: Any) -> str:
    """The whole trace; `notes` are (position, text), each behind the commit it came after."""
    return "".join(f"{entry}\n" for entry in _entries(states, commits, list(notes)))


def _entries(
    states: tuple[State, ...], commits: tuple[Commit, ...], notes: list[tuple[int, str]]
) -> Iterator[str]:
    yield from (text for position, text in notes if position == 0)
    for before, commit, after in zip(states, commits, states[1:], strict=False):
        yield shown_commit(before, commit, after)
        yield from (text for position, text in notes if position == commit.position)


# -- requests and items ------------------------------------------------------------------------


def shown_request(request: ModelRequest) -> str:
    """The messages of a request, in wire order, one a line."""
    return "\n".join(_message(message) for message in request.messages)


def _message(message: Message) -> str:
    error = " error" if message.is_error else ""
    shown = [f"{message.role}{f'({message.tool_call_id})' if message.tool_call_id else ''}{error}"]
    if message.reasoning is not None:
        shown.append(f"thinking {quoted(as_text(message.reasoning))}")
    if message.content is not None:
        shown.append(quoted(as_text(message.content)))
    shown += [f"+ call {call.id} {call.tool}{quoted_args(call.args)}" for call in message.calls()]
    return " ".join(shown)


def shown_items(state: State) -> Iterator[str]:
    for item in context_machine.present(state.context):
        note = f" {quoted(item.note)}" if item.note else ""
        yield f"{shown_item(item, item.content)} {item.state}{note}"
