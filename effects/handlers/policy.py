"""`JudgeCall`: ask the tool what a call needs, and the policy what it says to that."""

from typing import Any

import attrs

from effects.ports import PermissionRequest, Tool
from reducers.announce import JudgeWork
from reducers.vocabulary.effects import JudgeCall
from reducers.vocabulary.inputs import CallJudged


@attrs.frozen
class Judgement:
    input: CallJudged
    cause: Exception | None = None


async def judge_call(
    effect: JudgeCall, work: JudgeWork, tool: Tool | None, policy: Any
) -> Judgement:
    """A policy or tool that raises ends the step; its exception is given back with the answer."""
    try:
        return Judgement(await _judged(effect, work, tool, policy))
    except Exception as error:
        text = str(error) or type(error).__name__
        return Judgement(CallJudged(effect.id, failure=text), error)


async def _judged(effect: JudgeCall, work: JudgeWork, tool: Tool | None, policy: Any) -> CallJudged:
    needs = getattr(tool, "needs", None)
    limits = getattr(tool, "limit", None)
    capabilities = tuple(work.capabilities) if needs is None else tuple(needs(work.call))
    limit = None if limits is None else limits(work.call)
    verdict, why = None, ""
    if work.policy.rules is None:
        request = PermissionRequest(
            work.question, work.call.id, work.call.tool, capabilities, work.call.args
        )
        verdict = await policy.evaluate(request)
        if verdict not in ("allow", "ask", "deny"):
            raise ValueError(f"the policy said {verdict!r}: say allow, ask or deny")
        explain = getattr(policy, "why", None)
        if verdict == "deny" and explain is not None:
            why = explain(request) or ""
    return CallJudged(effect.id, verdict, why, capabilities, limit)
