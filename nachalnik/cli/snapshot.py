"""A state on paper: where the loop stood, every item, what was open, and the request it makes."""

from typing import Any

import attrs

from effects.parts import SeamMissing, load_reducer
from nachalnik.cli.output import Output
from nachalnik.cli.timeline import phase_words
from nachalnik.cli.words import counted, on_one_line, shortened, visible
from reducers.machines import calls as calls_machine
from reducers.machines import context as context_machine
from reducers.machines import parts as parts_machine
from reducers.machines.questions import Question
from reducers.reducer import Draw
from reducers.shapes import shape
from reducers.state import State
from reducers.views import arguments, request_dict
from reducers.vocabulary.content import as_text
from reducers.vocabulary.errors import SeamFailed
from reducers.vocabulary.items import kind_name
from reducers.vocabulary.messages import Message
from reducers.vocabulary.phases import Requesting

TEXT_WIDTH = 60


@attrs.frozen
class Drawn:
    """The request of a state: the one that is out, or the one the next step would send."""

    draw: Draw | None
    problem: str = ""
    """Why there is none."""


def drawn(state: State) -> Drawn:
    try:
        draw = load_reducer(state.session.seams).draw(state)
    except (SeamMissing, SeamFailed) as error:
        return Drawn(None, str(error))
    if not len(draw.request.messages):
        return Drawn(None, "nothing in the context is projected as a message")
    return Drawn(draw)


def state_dict(state: State) -> dict[str, Any]:
    """The state and its request as one JSON value."""
    found = drawn(state)
    loop = state.loop
    plain: dict[str, Any] = {
        "position": state.position,
        "last_seq": state.last_seq,
        "log": state.session.log,
        "session": state.session.name,
        "state": shape(loop.phase),
        "turn": loop.turn,
        "is_turn_open": loop.is_open,
        "model": shape(parts_machine.model(state.parts)),
        "tools": [spec.id for spec in parts_machine.tools(state.parts)],
        "items": [shape(item) for item in context_machine.present(state.context)],
        "questions": [_question_dict(state, one) for one in state.questions.open],
        "budget": _budget_dict(state, found.draw),
        "request": None if found.draw is None else request_dict(found.draw.request),
    }
    return {**plain, "problem": found.problem} if found.problem else plain


def print_state(output: Output, state: State) -> None:
    found = drawn(state)
    loop = state.loop
    model = parts_machine.model(state.parts)
    turn = "no turn yet" if not loop.turn else f"turn {loop.turn}"
    if loop.turn and not loop.is_open:
        turn += ", closed"
    output.line(f"position {state.position} of session {on_one_line(state.session.name)}")
    output.line(f"state    {phase_words(loop.phase)}; {turn}")
    output.line(f"model    {'none in this process' if model is None else on_one_line(str(model))}")
    output.line(f"budget   {_budget_words(state, found.draw)}")
    output.line()
    _print_items(output, state)
    for one in state.questions.open:
        output.line()
        output.line(_question_words(state, one))
    output.line()
    _print_request(output, state, found)


def _print_items(output: Output, state: State) -> None:
    rows = [
        (
            f"#{item.id}",
            item.state,
            kind_name(item.kind),
            shortened(item.label, 24),
            str(item.tokens),
            shortened(as_text(item.content), TEXT_WIDTH),  # type: ignore[arg-type]
        )
        for item in context_machine.present(state.context)
    ]
    if rows:
        output.table(("item", "state", "kind", "label", "tokens", "content"), rows)
    else:
        output.line("no items")


def _print_request(output: Output, state: State, found: Drawn) -> None:
    is_out = isinstance(state.loop.phase, Requesting) and state.requests.in_flight
    output.line("the request that is out" if is_out else "the request that these items make")
    if found.draw is None:
        output.line(f"  none: {on_one_line(found.problem)}")
        return
    request = found.draw.request
    output.line(
        f"  {counted(len(request.messages), 'message')}, {counted(len(request.tools), 'tool')}, "
        f"digest {found.draw.digest}"
    )
    for message in request.messages:
        output.line()
        for line in _message_lines(message):
            output.line(f"  {line}")
    if request.tools:
        output.line()
        output.line(f"  tools: {', '.join(on_one_line(spec.id) for spec in request.tools)}")
    if request.params != "{}":
        output.line(f"  params: {on_one_line(request.params)}")


def _message_lines(message: Message) -> list[str]:
    answered = "" if message.tool_call_id is None else f" {on_one_line(message.tool_call_id)}"
    error = " (error)" if message.is_error else ""
    lines = [f"{message.role}{answered}{error}:"]
    if message.reasoning is not None:
        lines += ["  [reasoning]", *_indented(as_text(message.reasoning))]
    if message.content is not None:
        lines += _indented(as_text(message.content))
    for call in message.calls():
        name = f"{on_one_line(call.id)}: {on_one_line(call.tool)}"
        lines.append(f"  -> call {name} {on_one_line(call.args)}")
    return lines


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in visible(text).split("\n")]


# -- questions and figures ---------------------------------------------------------------------


def _question_dict(state: State, question: Question) -> dict[str, Any]:
    call = calls_machine.find(state.calls, question.call)
    return {
        "id": question.id,
        "kind": question.kind,
        "call": question.call,
        "tool": "" if call is None else call.tool,
        "capabilities": list(question.capabilities),
        "args": arguments("{}" if call is None else call.args),
    }


def _question_words(state: State, question: Question) -> str:
    call = calls_machine.find(state.calls, question.call)
    tool = "?" if call is None else on_one_line(call.tool)
    args = "{}" if call is None else on_one_line(call.args)
    asked = f"question {question.id}, {question.kind} of call {on_one_line(question.call)}"
    return f"{asked}: {tool} {args}"


def _budget_dict(state: State, draw: Draw | None) -> dict[str, Any]:
    model = parts_machine.model(state.parts)
    return {
        "context_tokens": None if draw is None else draw.tokens,
        "tool_tokens": None if draw is None else draw.tool_tokens,
        "uncounted": None if draw is None else draw.uncounted,
        "limit": None if model is None else model.context_limit,
        "reported": shape(state.requests.usage),
    }


def _budget_words(state: State, draw: Draw | None) -> str:
    if draw is None:
        return "unknown"
    model = parts_machine.model(state.parts)
    limit = None if model is None else model.context_limit
    used = draw.tokens + draw.tool_tokens
    of = f" of {limit}" if limit else ""
    pieces = f", {counted(draw.uncounted, 'piece')} not counted" if draw.uncounted else ""
    return f"{used}{of} tokens ({draw.tokens} context, {draw.tool_tokens} tools){pieces}"
