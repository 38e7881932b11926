"""Verbs: what the first word of a line is, what must follow it, and the moment it may wait for."""

from collections.abc import Callable
from typing import Any

import attrs

from nachalnik.scenarios import replies as model_lines
from nachalnik.scenarios.words import NotationError, Words
from reducers.vocabulary.items import STATES, ContextItem, ContextState
from reducers.vocabulary.json import object_problem
from reducers.vocabulary.models import ModelInfo

KINDS = ("user", "system", "assistant", "result", "file", "memory")


@attrs.frozen
class Moment:
    """When an armed verb acts. `subject` is a call, a request's number, or a tag of the log."""

    kind: str
    subject: str = ""


@attrs.frozen
class Verb:
    line: int
    text: str
    name: str
    args: tuple[Any, ...] = ()
    moment: Moment | None = None


# -- what must follow --------------------------------------------------------------------------


def model(words: Words) -> ModelInfo:
    name = words.word("a model's name")
    limit = words.number("tokens") if words.take("limit") else 128_000
    endpoint = words.string("an address") if words.take("at") else None
    return ModelInfo("scripted", name, limit, tool_calling=True, endpoint=endpoint)


def _nothing(_: Words) -> tuple[Any, ...]:
    return ()


def _text(words: Words) -> tuple[Any, ...]:
    return (words.string("a text"),)


def _item_of(words: Words) -> ContextItem:
    kind = words.word(f"one of {', '.join(KINDS)}")
    match kind:
        case "user":
            return ContextItem.user(words.string("a text"))
        case "system":
            return ContextItem.system(words.string("a text"))
        case "assistant":
            text, thought, calls = model_lines.parts(words)
            return ContextItem.assistant(text or "", calls).with_reasoning(thought)
        case "result":
            call, tool = words.word("a call's id"), words.word("a tool's name")
            return ContextItem.tool_result(call, tool, words.string("a text"))
        case "file":
            return ContextItem.file(words.word("a path"), words.string("a text"))
        case "memory":
            return ContextItem.memory(words.word("a label"), words.string("a text"))
    raise NotationError(words.line, f"{kind!r} is no kind of item: use {', '.join(KINDS)}")


def _push(words: Words) -> tuple[Any, ...]:
    state: ContextState = next((state for state in STATES if words.take(state)), "active")
    return (_item_of(words).with_state(state),)


def _set_state(words: Words) -> tuple[Any, ...]:
    id = words.number("an item's id")
    state = next((state for state in STATES if words.take(state)), None)
    if state is None:
        raise words.error(f"one of {', '.join(STATES)}")
    return id, state, words.string_or_none("a note")


def _replace(words: Words) -> tuple[Any, ...]:
    return words.number("an item's id"), words.string("a text")


def _supersede(words: Words) -> tuple[Any, ...]:
    return words.number("an item's id"), _item_of(words)


def _annotate(words: Words) -> tuple[Any, ...]:
    return words.number("an item's id"), words.json_value("metadata")


def _params(words: Words) -> tuple[Any, ...]:
    text = words.json_text("the parameters")
    problem = object_problem(text)
    if problem is not None:
        raise NotationError(words.line, f"the parameters are not one JSON object: {problem}")
    return (text,)


def _question(words: Words) -> tuple[Any, ...]:
    """`P(call)`, or the number of a question."""
    if words.take("P"):
        words.expect("(")
        call = words.word("a call's id")
        words.expect(")")
        return (call,)
    return (words.number("P(call) or a question's number"),)


def _deny(words: Words) -> tuple[Any, ...]:
    return (*_question(words), words.string_or_none("a reason") or "")


def _cancel(words: Words) -> tuple[Any, ...]:
    """`cancel`, `cancel T1 "reason"`, `cancel calls "reason"`."""
    if words.take("calls"):
        return "calls", words.string_or_none("a reason") or ""
    turn = None
    if words.starts_with("T"):
        word = words.word("a turn, such as T1")
        if not word[1:].isdecimal():
            raise NotationError(words.line, f"{word!r} is no turn: write T1 for the first")
        turn = words.whole(word[1:])
        if turn < 1:
            raise NotationError(words.line, f"{word!r} is no turn: they are counted from T1")
    return turn, words.string_or_none("a reason") or ""


def _let(words: Words) -> tuple[Any, ...]:
    call = words.word("a call's id")
    words.expect("return")
    return call, words.string_or_none("what it returns") or "done"


def _outcome(words: Words) -> tuple[Any, ...]:
    """`settle(c, "text")`, `fail(c, "text")`."""
    words.expect("(")
    call = words.word("a call's id")
    words.expect(",")
    text = words.string("a text")
    words.expect(")")
    return call, text


def _named(words: Words) -> tuple[Any, ...]:
    words.expect("(")
    name = words.word("a name")
    words.expect(")")
    return (name,)


def _counted(words: Words) -> tuple[Any, ...]:
    """`runs(tool) = 1`."""
    named = _named(words)
    words.expect("=")
    return (*named, words.number("a number"))


def _equal_word(words: Words) -> tuple[Any, ...]:
    words.expect("=")
    return (words.word("a word"),)


def _equal_number(words: Words) -> tuple[Any, ...]:
    words.expect("=")
    return (words.number("a number"),)


def _questions(words: Words) -> tuple[Any, ...]:
    """`questions = none`, `questions = P(c), outcome(d)`."""
    words.expect("=")
    if words.take("none"):
        return ()
    found = []
    while True:
        kind = words.word("P(call) or outcome(call)")
        found.append(f"{kind}({_named(words)[0]})")
        if not words.take(","):
            return tuple(found)


def _crash(words: Words) -> tuple[Any, ...]:
    return (words.word("a state"),) if words.take("in") else ()


def _run(words: Words) -> tuple[Any, ...]:
    words.expect("until")
    return (words.word("an event's tag"),)


VERBS: dict[str, Callable[[Words], tuple[Any, ...]]] = {
    "user": _text,
    "turn": _nothing,
    "step": _nothing,
    "run": _run,
    "push": _push,
    "set-state": _set_state,
    "replace": _replace,
    "supersede": _supersede,
    "annotate": _annotate,
    "recount": _nothing,
    "undo": _nothing,
    "redo": _nothing,
    "params": _params,
    "model": lambda words: (model(words),),
    "grant": _question,
    "deny": _deny,
    "cancel": _cancel,
    "interrupt": _nothing,
    "leave": _nothing,
    "let": _let,
    "settle": _outcome,
    "fail": _outcome,
    "retry": _named,
    "finish": _nothing,
    "crash": _crash,
    "reopen": _nothing,
    "items": _nothing,
    "projection": _nothing,
    "request": lambda words: (words.number("a request's number"),),
    "state": _equal_word,
    "questions": _questions,
    "requests": _equal_number,
    "runs": _counted,
    "starts": _counted,
}
"""By the first word of a line: what must follow it."""
NEVER_ARMED = ("user", "run", "reopen")
WRITING = ("halfway", "before", "after")
"""Moments inside a commit or a sync: only a crash can come there."""


def verb(words: Words) -> Verb:
    name = words.word("a verb")
    read = VERBS.get(name)
    if read is None:
        raise NotationError(words.line, f"there is no verb {name!r}: use {', '.join(VERBS)}")
    args = read(words)
    moment = _moment(words)
    words.end()
    if moment is not None and name in NEVER_ARMED:
        raise NotationError(words.line, f"`{name}` cannot wait for a moment")
    if moment is not None and moment.kind in WRITING and name != "crash":
        raise NotationError(words.line, "only a crash can come between the bytes of the log")
    return Verb(words.line, words.text.strip(), name, args, moment)


def _moment(words: Words) -> Moment | None:
    if words.take("when"):
        if words.take("request"):
            number = str(words.number("its number"))
            if words.take("streams"):
                return Moment("streams", number)
            words.expect("is", "out")
            return Moment("request", number)
        call = words.word("a call's id, or `request N`")
        words.expect("is")
        if words.take("judged"):
            return Moment("judged", call)
        words.expect("running")
        return Moment("running", call)
    if words.take_all("after the effect of"):
        return Moment("effect", words.word("a call's id"))
    if words.take_all("halfway through"):
        return Moment("halfway", words.word("a tag of the log"))
    for kind in ("before", "after"):
        if words.take_all(f"{kind} the sync"):
            return Moment(kind, "sync")
        if words.take(kind):
            moment = Moment(kind, words.word("a tag of the log"))
            words.expect("is", "written")
            return moment
    return None
