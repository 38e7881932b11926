"""Questions and who answers them: a person at the terminal, `--answer`, or nobody."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Protocol

import anyio
import attrs

from nachalnik.cli.command import Stop
from nachalnik.cli.interrupts import Interrupts
from nachalnik.cli.output import complain
from nachalnik.cli.words import on_one_line
from nachalnik.kernel import Kernel
from nachalnik.reports import OutcomeQuestion, PermissionQuestion, UnansweredCall
from reducers.vocabulary.policies import PolicyInfo, judge

Question = PermissionQuestion | OutcomeQuestion
Open = Question | UnansweredCall

LEAVE = "leave"
ANSWERS = ("allow", "deny", "retry", "fail", "settle")
NOBODY = "no rule allows it, and nobody was there to ask"
LINE_MAX = 1 << 16
"""Bytes of one typed line; the terminal itself takes fewer."""


@attrs.frozen
class Answer:
    how: str
    text: str = ""


class Asker(Protocol):
    """Answers what it can of a session at rest."""

    async def answer(self, kernel: Kernel) -> bool:
        """Whether no question is open any more."""
        ...


# -- answers given beforehand ------------------------------------------------------------------


def parse_answers(texts: Iterable[str]) -> dict[str, Answer]:
    """`ID=allow`, `ID=deny`, `ID=retry`, `ID=fail`, `ID=settle:TEXT`. Raises `Stop`."""
    found: dict[str, Answer] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        how, colon, said = rest.partition(":")
        has_fitting_text = how == "fail" or bool(colon) == (how == "settle")
        if not (equals and name and how in ANSWERS and has_fitting_text):
            raise Stop(
                f"--answer {text}: write ID=allow, ID=deny, ID=retry, ID=fail or ID=settle:TEXT"
            )
        if name in found:
            raise Stop(f"--answer {text}: {name} is answered twice")
        found[name] = Answer(how, said)
    return found


def name_of(one: Open) -> str:
    """What `--answer` calls it: the question's number, or the call where nothing was asked."""
    return one.call if isinstance(one, UnansweredCall) else str(one.id)


def fitting(one: Open) -> tuple[str, ...]:
    return ANSWERS[:2] if isinstance(one, PermissionQuestion) else ANSWERS[2:]


def give(kernel: Kernel, one: Open, answer: Answer) -> None:
    """Raises `KernelError` where the kernel does not take it."""
    if isinstance(one, PermissionQuestion):
        grant = "allow" if answer.how == "allow" else "deny"
        kernel.decide(one.id, grant, args=one.args_digest, reason=answer.text)  # type: ignore[arg-type]
    elif answer.how == "retry":
        kernel.retry(one.call)
    elif answer.how == "settle":
        kernel.settle(one.call, answer.text)
    else:
        kernel.fail(one.call, answer.text or "It failed: a person looked.")


@attrs.define
class Given:
    """`resume` away from a terminal: what `--answer` says, and nothing else."""

    answers: dict[str, Answer]

    def check(self, kernel: Kernel) -> None:
        """Raises `Stop` for an answer that fits nothing, before any is given."""
        known: dict[str, Open] = {}
        for one in open_in(kernel):
            known.setdefault(name_of(one), one)
        for name, answer in self.answers.items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise Stop(
                    f"--answer {name}={answer.how}: no such question is open (open: {listed})"
                )
            hows = fitting(known[name])
            if answer.how not in hows:
                words = " or ".join(hows)
                raise Stop(f"--answer {name}={answer.how}: this one is answered by {words}")

    async def answer(self, kernel: Kernel) -> bool:
        for one in open_in(kernel):
            answer = self.answers.pop(name_of(one), None)
            if answer is not None:
                give(kernel, one, answer)
        return not kernel.pending_questions()


@attrs.frozen
class Nobody:
    """`run` away from a terminal: a call that no rule speaks of is refused. One that a rule says to
    ask about waits, and so does what only a person can know."""

    rules: PolicyInfo

    async def answer(self, kernel: Kernel) -> bool:
        for one in kernel.pending_permissions():
            _, rule = judge(self.rules.rules or (), one.tool, one.capabilities)
            if rule is None:
                kernel.decide(one.id, "deny", reason=NOBODY, by_rule=True)
        return not kernel.pending_questions()


def open_in(kernel: Kernel) -> list[Open]:
    """All that a person may answer."""
    return [*kernel.pending_questions(), *_left(kernel)]


def _left(kernel: Kernel) -> list[UnansweredCall]:
    """Runs whose driver left. They hold nothing up: the next request says they are unknown."""
    asked = {one.call for one in kernel.pending_questions()}
    return [one for one in kernel.unanswered_calls() if one.was_started and one.call not in asked]


# -- a person ----------------------------------------------------------------------------------


def is_at_terminal() -> bool:
    """Whether somebody can read a question and type an answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def told(one: Open) -> str:
    """The question, with the exact arguments."""
    args = f"  {on_one_line(one.args)}"
    call = on_one_line(one.call)
    tool = on_one_line(one.tool)
    if isinstance(one, PermissionQuestion):
        needs = f", which needs {', '.join(one.capabilities)}" if one.capabilities else ""
        return f"Question {one.id}: may call {call} run {tool}{needs}?\n{args}"
    number = "" if isinstance(one, UnansweredCall) else f"Question {one.id}: "
    return f"{number}{tool} was started by call {call}; whether it took effect is unknown.\n{args}"


@attrs.frozen
class Person:
    """Asks at the terminal, on standard error."""

    interrupts: Interrupts

    async def answer(self, kernel: Kernel) -> bool:
        for one in open_in(kernel):
            answer = await self._ask(one)
            if answer is None:
                break
            if answer.how != LEAVE:
                give(kernel, one, answer)
        return not kernel.pending_questions()

    async def _ask(self, one: Open) -> Answer | None:
        """None when there is no more to read, or Ctrl-C came."""
        sys.stderr.write(f"{told(one)}\n")
        is_permission = isinstance(one, PermissionQuestion)
        words = PERMISSION if is_permission else OUTCOME
        if isinstance(one, UnansweredCall):
            words = f"{words[:-1]}, nothing = tell the model that it is unknown:"
        while True:
            sys.stderr.write(f"{words} ")
            sys.stderr.flush()
            line = await read_line(self.interrupts)
            if line is None:
                sys.stderr.write("\n")
                return None
            if isinstance(one, UnansweredCall) and not line.strip():
                return Answer(LEAVE)
            answer = _typed_permission(line) if is_permission else _typed_outcome(line)
            if answer is not None:
                return answer


PERMISSION = "y = yes, n = no (and why, if you like):"
OUTCOME = "r = run it again, s TEXT = its result was TEXT, f = it failed (and how, if you like):"


def _typed_permission(line: str) -> Answer | None:
    word, _, rest = line.strip().partition(" ")
    if word.lower() in ("y", "yes"):
        return Answer("allow")
    if word.lower() in ("n", "no"):
        return Answer("deny", rest.strip())
    return None


def _typed_outcome(line: str) -> Answer | None:
    word, _, rest = line.strip().partition(" ")
    hows = {"r": "retry", "s": "settle", "f": "fail"}
    how = hows.get(word.lower())
    return None if how is None else Answer(how, rest.strip())


async def read_line(interrupts: Interrupts) -> str | None:
    """A line from the terminal, which gives whole lines; None at its end and after Ctrl-C."""
    typed = b""
    with interrupts.guard():
        await anyio.wait_readable(0)
        typed = os.read(0, LINE_MAX)
    return typed.decode("utf-8", "replace") if typed else None


def list_left(kernel: Kernel) -> None:
    """Say on standard error which runs were left, and what becomes of them."""
    for one in _left(kernel):
        complain(told(one))
        complain("the model is told so, since no --answer says how it ended")


def list_left_behind(kernel: Kernel, resuming: Callable[..., str]) -> None:
    """The same where the session ends here: with which command it is said how they ended."""
    for one in _left(kernel):
        complain(told(one))
        for text, when in ways_of(one):
            complain(f"{when}: {resuming('--answer', text)}")


def list_open(kernel: Kernel, resuming: Callable[..., str]) -> None:
    """Say on standard error what is open, and with which command it is answered."""
    for one in kernel.pending_questions():
        complain(told(one))
        for text, when in ways_of(one):
            complain(f"{when}: {resuming('--answer', text)}")


def ways_of(one: Open) -> list[tuple[str, str]]:
    """What `--answer` may be given, and when."""
    return [(f"{name_of(one)}={_WORDS.get(how, how)}", _WHEN[how]) for how in fitting(one)]


_WORDS = {"settle": "settle:TEXT"}
_WHEN = {
    "allow": "to allow it",
    "deny": "to refuse it",
    "retry": "to run it again",
    "fail": "if it failed",
    "settle": "if its result was TEXT",
}
