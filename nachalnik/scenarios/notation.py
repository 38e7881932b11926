"""The notation of scenario scripts: from text to a `Story`. `README.md` has it for people."""

from typing import Any

import attrs
import msgspec

from nachalnik.scenarios import replies as model_lines
from nachalnik.scenarios.replies import MARK, Answer
from nachalnik.scenarios.verbs import Verb, model, verb
from nachalnik.scenarios.words import NotationError, Words
from reducers.vocabulary.config import Config
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.policies import Verdict

__all__ = ["NotationError", "Story", "parse", "replies"]

RULE = "----"
"""The line between a script and its trace."""
VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask": "ask", "deny": "deny"}
MODEL = ModelInfo("scripted", "m1", 128_000, tool_calling=True)
TOOLS = ("add", "note", "slow", "deaf", "big", "raw", "boom", "ext", "now")


@attrs.frozen
class ToolDeclared:
    name: str
    verdict: Verdict
    idempotent: bool = False
    reconciles: bool = False


@attrs.frozen
class Step:
    """A verb and those that wait for a moment while it acts."""

    verb: Verb
    armed: tuple[Verb, ...] = ()


@attrs.frozen
class Reply:
    """`step` is the number of the step it stands under; -1 is before the first."""

    line: int
    step: int
    answer: Answer


@attrs.define
class Story:
    """A script that was read. `head` is its text before the rule, `trace` what stands behind it,
    None where there is none yet."""

    head: str
    trace: str | None
    tools: list[ToolDeclared] = attrs.Factory(list)
    config: dict[str, Any] = attrs.Factory(dict)
    model: ModelInfo = MODEL
    judges_by_code: bool = False
    open: list[str] = attrs.Factory(list)
    steps: list[Step] = attrs.Factory(list)
    replies: list[Reply] = attrs.Factory(list)

    @property
    def needs_process(self) -> bool:
        """Whether it ends or leaves a process, and so must run in children."""
        verbs = [verb for step in self.steps for verb in (step.verb, *step.armed)]
        return any(verb.name in ("crash", "reopen") for verb in verbs)

    def configuration(self) -> Config:
        return msgspec.convert({"session_name": "story", **self.config}, Config)


def replies(text: str) -> list[Answer]:
    """What the `model>` lines of a text say, in order; every other line is passed over.

    Raises `NotationError` for a `model>` line that cannot be read.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() == RULE:
            break
        words = Words(line, number)
        if words.take(MARK):
            found.append(model_lines.reply(words))
    return found


def parse(text: str) -> Story:
    """A whole script. Raises `NotationError`."""
    head, trace = _halves(text)
    story = Story(head, trace)
    for number, line in enumerate(head.splitlines(), start=1):
        words = Words(line, number)
        if not words.rest or words.starts_with("#"):
            continue
        if words.take(MARK):
            answer = model_lines.reply(words)
            story.replies.append(Reply(number, len(story.steps) - 1, answer))
        elif words.take("open:"):
            story.open.extend(one.strip() for one in words.rest.split(","))
        elif not story.steps and _declaration(story, words):
            words.end()
        else:
            _add(story, verb(words))
    _check(story)
    return story


def _halves(text: str) -> tuple[str, str | None]:
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if line.rstrip() == RULE:
            return "".join(lines[:place]), "".join(lines[place + 1 :])
    return text, None


def _add(story: Story, verb: Verb) -> None:
    if verb.moment is None:
        story.steps.append(Step(verb))
        return
    if not story.steps:
        raise NotationError(verb.line, "nothing is under way yet: put the verb it waits in above")
    last = story.steps[-1]
    story.steps[-1] = attrs.evolve(last, armed=(*last.armed, verb))


def _check(story: Story) -> None:
    """What can be known before it runs: a crash is the last word of a process."""
    is_dead = False
    for step in story.steps:
        if is_dead and step.verb.name not in ("reopen", "runs", "starts"):
            raise NotationError(step.verb.line, "the process is gone: write `reopen` before this")
        verbs = (step.verb, *step.armed)
        is_dead = any(verb.name == "crash" for verb in verbs) or (
            is_dead and step.verb.name != "reopen"
        )


# -- declarations ------------------------------------------------------------------------------


def _declaration(story: Story, words: Words) -> bool:
    if words.take("tool"):
        story.tools.append(_tool(words))
    elif words.take("config"):
        _config(story, words)
    elif words.take_all("policy code"):
        story.judges_by_code = True
    elif words.take("model"):
        story.model = model(words)
    else:
        return False
    return True


def _tool(words: Words) -> ToolDeclared:
    name = words.word("a tool's name")
    if name not in TOOLS:
        raise NotationError(words.line, f"there is no tool {name!r}: use {', '.join(TOOLS)}")
    declared = ToolDeclared(name, "ask" if name == "note" else "allow")
    while words.rest:
        word = words.word("an option")
        if word in VERDICTS:
            declared = attrs.evolve(declared, verdict=VERDICTS[word])
        elif name == "note" and word == "idempotent":
            declared = attrs.evolve(declared, idempotent=True)
        elif name == "note" and word == "reconciles":
            declared = attrs.evolve(declared, reconciles=True)
        else:
            options = "allow, ask, deny (and for note: idempotent, reconciles)"
            raise NotationError(words.line, f"{word!r} is no option of {name}: use {options}")
    return declared


def _config(story: Story, words: Words) -> None:
    name = words.word("a field of Config")
    words.expect("=")
    value = words.json_value("its value")
    try:
        msgspec.convert({name: value}, Config)
    except msgspec.ValidationError as error:
        raise NotationError(words.line, f"config {name}: {error}") from None
    if name not in Config.__struct_fields__:
        known = ", ".join(Config.__struct_fields__)
        raise NotationError(words.line, f"Config has no {name!r}: use {known}")
    story.config[name] = value
