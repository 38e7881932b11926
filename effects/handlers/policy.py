"""`JudgeCall`: ask the tool what a call needs, and the policy what it says to that."""

from typing import Any

import anyio
from msgspec import Struct

from effects.handlers.cancelled import is_cancelled
from effects.ports import PermissionRequest, Tool
from effects.raised import said
from reducers.announce import JudgeWork
from reducers.vocabulary.effects import JudgeCall
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.inputs import CallJudged
from reducers.vocabulary.tools import Capability


class Judgement(Struct, frozen=True, gc=False):
    """The input that settles the effect, and the exception behind a failure, for the caller."""

    input: CallJudged
    cause: Exception | None = None


async def judge_call(
    effect: JudgeCall, work: JudgeWork, tool: Tool | None, policy: Any
) -> Judgement:
    """A policy or tool that raises ends the step; its exception is given back with the answer."""
    try:
        return Judgement(await _judged(effect, work, tool, policy))
    except (Exception, SystemExit) as error:
        return not_judged(effect, error)
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            raise
        return not_judged(effect, InvalidInput("what the policy waited for was cancelled"))


def not_judged(effect: JudgeCall, error: Exception | SystemExit) -> Judgement:
    cause = error if isinstance(error, Exception) else None
    return Judgement(CallJudged(effect.id, failure=said(error)), cause)


async def _judged(effect: JudgeCall, work: JudgeWork, tool: Tool | None, policy: Any) -> CallJudged:
    capabilities = _needs(work, tool)
    limits = getattr(tool, "limit", None)
    limit = None if limits is None else limits(work.call)
    verdict, why = None, ""
    if work.policy.rules is None:
        request = PermissionRequest(
            work.question, work.call.id, work.call.tool, capabilities, work.call.args
        )
        verdict = await policy.evaluate(request)
        if verdict not in ("allow", "ask", "deny"):
            raise InvalidInput(f"the policy said {verdict!r}: say allow, ask or deny")
        explain = getattr(policy, "why", None)
        if verdict == "deny" and explain is not None:
            why = explain(request) or ""
    return CallJudged(effect.id, verdict, why, capabilities, limit, has_limit=limits is not None)


def _needs(work: JudgeWork, tool: Tool | None) -> tuple[Capability, ...]:
    needs = getattr(tool, "needs", None)
    if needs is None:
        return tuple(work.capabilities)
    found = needs(work.call)
    if isinstance(found, str):
        raise InvalidInput(f"needs() of {work.call.tool} gave a text: give a list of capabilities")
    return tuple(found)
