"""Verdicts, grants, and rules that are data: judged by the core itself, with a paper trail."""

import functools
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import quoted
from reducers.vocabulary.tools import Capability, parse_capability

Verdict = Literal["allow", "ask", "deny"]
Grant = Literal["allow", "deny"]
GrantSource = Literal["policy", "user", "cancellation"]

_STRICTEST_FIRST: tuple[Verdict, ...] = ("deny", "ask", "allow")


def strictest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """deny beats ask beats allow; None for no verdict at all."""
    found = set(verdicts)
    for verdict in _STRICTEST_FIRST:
        if verdict in found:
            return verdict
    return None


class Rule(Struct, frozen=True, gc=False, omit_defaults=True):
    """One verdict on one subject: a tool's name, `domain:op`, or `*`. Exactly one field is set."""

    allow: str = ""
    ask: str = ""
    deny: str = ""

    @property
    def verdict(self) -> Verdict:
        return "deny" if self.deny else "ask" if self.ask else "allow"

    @property
    def subject(self) -> str:
        return self.deny or self.ask or self.allow


def parse_rule(verdict: Verdict, subject: str) -> Rule:
    """A rule from its words. Raises `InvalidInput` for a subject that can match nothing."""
    text = subject.strip()
    if not text or any(letter.isspace() for letter in text) or ("*" in text and text != "*"):
        raise InvalidInput(
            f"{subject!r} is not a rule: give a tool's name, domain:op (such as fs:write), or *"
        )
    if ":" in text:
        parse_capability(text)
    match verdict:
        case "allow":
            return Rule(allow=text)
        case "ask":
            return Rule(ask=text)
        case "deny":
            return Rule(deny=text)


class PolicyInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """The policy in force. With `rules` it is data; without, its code is asked for each call."""

    name: str
    rules: tuple[Rule, ...] | None = None


ASK_ALWAYS = PolicyInfo("AskAlways", ())


@functools.lru_cache(maxsize=256)
def judge(
    rules: tuple[Rule, ...], tool: str, capabilities: tuple[Capability, ...]
) -> tuple[Verdict, str | None]:
    """The verdict of data rules on one call, and in words which rule gave it.

    Every rule that names the tool, one of the capabilities or `*` speaks, and the strictest wins.
    A capability no rule allows is asked about, unless the tool itself or everything is allowed.
    """
    heard = ("*", tool, *capabilities)
    first: dict[Verdict, str] = {}
    subjects: list[str] = []
    for rule in rules:
        subject = rule.subject
        if subject in heard:
            subjects.append(subject)
            first.setdefault(rule.verdict, subject)
    verdict = strictest(first)
    if verdict is None:
        return "ask", None
    if verdict == "allow" and "*" not in subjects and tool not in subjects:
        for capability in capabilities:
            if capability not in subjects:
                return "ask", None
    return verdict, f"the rule {verdict} {quoted(first[verdict])}"
