"""Questions: one open decision with one id, of kind permission or outcome.

I-QUESTION-1  Ids of all kinds come from one counter and never repeat.
I-QUESTION-2  A question is answered once; how stays known.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import (
    PermissionDecided,
    PermissionRequested,
    QuestionAnswered,
    QuestionLeft,
    QuestionOpened,
    ToolRequested,
)
from reducers.vocabulary.persistent import GAP_MAX, Vector
from reducers.vocabulary.tools import Capability

Kind = Literal["permission", "outcome"]
NOT_ANSWERED: Vector[str] = Vector.of(())


class Question(Struct, frozen=True, gc=False):
    id: int
    kind: Kind
    call: str
    capabilities: tuple[Capability, ...] = ()
    args: str = ""
    """Digest of the arguments that were asked about."""
    reconcile: str = ""
    """Effect that may still answer it without a person."""


class Questions(Struct, frozen=True, gc=False, omit_defaults=True):
    next_id: int = 1
    open: tuple[Question, ...] = ()
    answered: Vector[str] = NOT_ANSWERED
    """How each closed question was resolved, at its id less one; empty for one that is not."""


def _asked(questions: Questions, question: Question) -> Questions:
    _need_id(question.id, questions.next_id)
    return replace(
        questions,
        next_id=max(questions.next_id, question.id + 1),
        open=(*questions.open, question),
    )


def _closed(questions: Questions, id: int, how: str) -> Questions:
    answered = questions.answered
    if id == len(answered) + 1:
        answered = answered.append(how)
    else:
        _need_id(id, questions.next_id)
        answered = answered.padded(id, "").set(id - 1, how)
    still_open = questions.open
    if still_open:
        still_open = tuple([one for one in still_open if one.id != id])
    next_id = questions.next_id if id < questions.next_id else id + 1
    return Questions(next_id, still_open, answered)


def _need_id(id: int, next_id: int) -> None:
    """Refuse what no counter could have come to (I-QUESTION-1)."""
    if not 0 < id <= next_id + GAP_MAX:
        raise ValueError(f"{id} is not the id of a question: the next one is {next_id}")


def permission_requested(questions: Questions, event: PermissionRequested, here: int) -> Questions:
    asked = Question(event.id, "permission", event.call, event.capabilities, event.args)
    return _asked(questions, asked)


def permission_decided(questions: Questions, event: PermissionDecided, here: int) -> Questions:
    if event.source == "cancellation":
        how = "cancelled"
    else:
        how = "granted" if event.grant == "allow" else "denied"
    return _closed(questions, event.id, how)


def opened(questions: Questions, event: QuestionOpened, here: int) -> Questions:
    effect = "" if event.effect is None else f"{here}.{event.effect}"
    return _asked(questions, Question(event.id, event.kind, event.call, reconcile=effect))


def answered(questions: Questions, event: QuestionAnswered, here: int) -> Questions:
    return _closed(questions, event.id, event.how)


def left(questions: Questions, event: QuestionLeft, here: int) -> Questions:
    return replace(
        questions,
        open=tuple(
            replace(one, reconcile="") if one.id == event.id else one for one in questions.open
        ),
    )


def asked_of_code(questions: Questions, event: ToolRequested, here: int) -> Questions:
    """A call that code judges has its id from the moment it is asked about."""
    if event.effect is None:
        return questions
    return replace(questions, next_id=questions.next_id + 1)


EVOLVE: dict[type, Callable[[Questions, Any, int], Questions]] = {
    PermissionRequested: permission_requested,
    PermissionDecided: permission_decided,
    QuestionOpened: opened,
    QuestionAnswered: answered,
    QuestionLeft: left,
    ToolRequested: asked_of_code,
}


# -- queries -----------------------------------------------------------------------------------


def find(questions: Questions, id: int) -> Question | None:
    return next((one for one in questions.open if one.id == id), None)


def about(questions: Questions, call: str) -> Question | None:
    return next((one for one in questions.open if one.call == call), None)


def how_answered(questions: Questions, id: int) -> str | None:
    return questions.answered[id - 1] or None if 0 < id <= len(questions.answered) else None
