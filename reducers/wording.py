"""What the kernel itself says to a model: only about calls that did not run as asked."""

from collections.abc import Sequence

from reducers.vocabulary.json import quoted
from reducers.vocabulary.tools import ToolSpec

WHOLE_KEPT = "the whole of an output that was shortened for the model"
"""`included_because` of a kept whole; also how one is recognised."""
WHOLE_NOTE = "the model was shown a shortened copy"


def refused_by_rule(why: str) -> str:
    reason = why.rstrip(".") or "the policy refuses it"
    return (
        f"Not permitted: {reason}. This is a standing rule, not an answer to this one call: "
        "the same call will be refused again."
    )


def refused_by_person(why: str) -> str:
    reason = f" They said: {why.rstrip('.')}." if why else ""
    return (
        f"Not permitted: it was refused when the user was asked.{reason} This answers this one "
        "call and is not a standing rule: another approach may be allowed."
    )


def cancelled(reason: str) -> str:
    return f"Cancelled before it ran{_behind(reason)}."


def cancelled_running(reason: str) -> str:
    return (
        f"Cancelled while it was running{_behind(reason)}. Whether it took effect is unknown: "
        "look before doing it again."
    )


def cancelled_unknown(reason: str) -> str:
    return f"Cancelled{_behind(reason)}. {outcome_unknown()}"


def interrupted() -> str:
    return "Interrupted before it ran: the user stopped the turn."


def unknown_tool(tool: str, tools: Sequence[ToolSpec]) -> str:
    names = ", ".join(spec.id for spec in tools)
    known = f"The tools are: {names}." if names else "There are no tools."
    return f"No such tool: {quoted(tool)}. {known}"


def not_arguments(problem: str) -> str:
    return f"Not run: the arguments are not one JSON object ({problem})."


def crashed(said: str) -> str:
    return f"The tool crashed{_behind(said)}."


def incomplete() -> str:
    return (
        "It did not run to completion: what it waited for was cancelled. Whether it took effect is "
        "unknown: look before doing it again."
    )


def outcome_unknown() -> str:
    return (
        "It was started and its result was never received. Whether it took effect is unknown: "
        "look before doing it again."
    )


def was_not_run() -> str:
    return "It was not run: the turn was abandoned before it could start."


def mended(count: int) -> str:
    return f"{count} character(s) were no valid text and were replaced"


def _behind(reason: str) -> str:
    reason = reason.strip().rstrip(".")
    return f": {reason}" if reason else ""
