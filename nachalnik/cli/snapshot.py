"""A state on paper: where the loop stood, every item, what was open, and the request it makes."""

from typing import Any

import attrs

from effects.parts import SeamMissing, load_reducer
from nachalnik.cli.output import Output
from nachalnik.cli.timeline import phase_words
from nachalnik.cli.words import counted, on_one_line, shortened, visible
from nachalnik.reports import OutcomeQuestion, PermissionQuestion, open_questions
from reducers.machines import context as context_machine
from reducers.machines import parts as parts_machine
from reducers.reducer import Draw
from reducers.shapes import shape
from reducers.state import State
from reducers.views import arguments, request_dict
from reducers.vocabulary.content import as_text
from reducers.vocabulary.errors import SeamFailed
from reducers.vocabulary.items import kind_name
from reducers.vocabulary.messages import Message

TEXT_WIDTH = 60


@attrs.frozen
class Drawn:
    """The request that the items of a state make."""

    draw: Draw | None
    problem: str = ""
    """Why there is none."""

    def is_out(self, state: State) -> bool:
        """Whether it is the one that was sent: what entered since makes another."""
        out = state.requests
        return bool(out.in_flight and self.draw and self.draw.digest == out.digest)


def drawn(state: State) -> Drawn:
    try:
        draw = load_reducer(state.session.seams).draw(state)
    except (SeamMissing, SeamFailed) as error:
        return Drawn(None, str(error))
    except Exception as error:  # a projector or counter that raises: code of the user's
        return Drawn(None, f"a seam raised {type(error).__name__}: {error}")
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
        "questions": [question_dict(one) for one in open_questions(state)],
        "budget": _budget_dict(state, found.draw),
        "request": None if found.draw is None else request_dict(found.draw.request),
        "out": _out_dict(state, found),
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
    for one in open_questions(state):
        output.line()
        output.line(_question_words(one))
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
    out = state.requests
    if found.is_out(state):
        output.line("the request that is out")
    elif out.in_flight:
        items = ", ".join(f"#{item}" for item in out.included)
        output.line("the request that these items would make; another one is out:")
        output.line(f"  digest {out.digest}, of the items {items}")
        output.line()
    else:
        output.line("the request that these items make")
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


def _out_dict(state: State, found: Drawn) -> dict[str, Any] | None:
    """The request that is out, and whether it is the one beside it; None where none is."""
    out = state.requests
    if not out.in_flight:
        return None
    return {
        "effect": out.in_flight,
        "digest": out.digest,
        "items": list(out.included),
        "is_request": found.is_out(state),
    }


def question_dict(question: PermissionQuestion | OutcomeQuestion) -> dict[str, Any]:
    """The same in the JSON of every command."""
    found = {"id": question.id, "kind": _kind(question), "call": question.call}
    found["tool"] = question.tool
    if isinstance(question, PermissionQuestion):
        found["capabilities"] = list(question.capabilities)
        found["args_digest"] = question.args_digest
    return {**found, "args": arguments(question.args)}


def _question_words(question: PermissionQuestion | OutcomeQuestion) -> str:
    asked = f"question {question.id}, {_kind(question)} of call {on_one_line(question.call)}"
    return f"{asked}: {on_one_line(question.tool or '?')} {on_one_line(question.args)}"


def _kind(question: PermissionQuestion | OutcomeQuestion) -> str:
    return "permission" if isinstance(question, PermissionQuestion) else "outcome"


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
