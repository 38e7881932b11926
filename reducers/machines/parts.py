"""The parts as last announced: model, tools, policy, parameters; and which this process has.

I-PARTS-1  Tools are sorted by id, one tool an id.
I-PARTS-2  A part that this process does not have is never offered to a model, however well known.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import (
    ModelChanged,
    ModelParams,
    PartsDescribed,
    PolicyChanged,
    SessionOpened,
    ToolsChanged,
)
from reducers.vocabulary.json import EMPTY_OBJECT, Json
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.policies import ASK_ALWAYS, PolicyInfo
from reducers.vocabulary.tools import ToolSpec

MODEL, TOOLS, POLICY = "model", "tools", "policy"


class Parts(Struct, frozen=True, gc=False):
    model: ModelInfo | None = None
    model_at: int = 0
    """Position of the `model.changed` in force."""
    tools: tuple[ToolSpec, ...] = ()
    policy: PolicyInfo = ASK_ALWAYS
    params: Json = EMPTY_OBJECT
    here: tuple[str, ...] = (POLICY, TOOLS)
    """What this process has, sorted by name. A new kernel has no tools and asks always: both are
    known to be so; an opened log has what its process brought."""


def with_part(here: tuple[str, ...], part: str, present: bool = True) -> tuple[str, ...]:
    rest = [name for name in here if name != part]
    return tuple(sorted([*rest, part] if present else rest))


def opened(parts: Parts, event: SessionOpened, here: int) -> Parts:
    return replace(parts, here=event.here)


def described(parts: Parts, event: PartsDescribed, here: int) -> Parts:
    tools = parts.tools if event.tools is None else event.tools
    return replace(parts, here=event.here, tools=tools)


def model_changed(parts: Parts, event: ModelChanged, here: int) -> Parts:
    present = with_part(parts.here, MODEL, event.to is not None)
    return replace(parts, model=event.to, model_at=here, here=present)


def params_changed(parts: Parts, event: ModelParams, here: int) -> Parts:
    return replace(parts, params=event.params)


def tools_changed(parts: Parts, event: ToolsChanged, here: int) -> Parts:
    return replace(parts, tools=event.tools, here=with_part(parts.here, TOOLS))


def policy_changed(parts: Parts, event: PolicyChanged, here: int) -> Parts:
    return replace(parts, policy=event.to, here=with_part(parts.here, POLICY))


EVOLVE: dict[type, Callable[[Parts, Any, int], Parts]] = {
    SessionOpened: opened,
    PartsDescribed: described,
    ModelChanged: model_changed,
    ModelParams: params_changed,
    ToolsChanged: tools_changed,
    PolicyChanged: policy_changed,
}


# -- queries -----------------------------------------------------------------------------------


def model(parts: Parts) -> ModelInfo | None:
    """The model this process can ask."""
    return parts.model if MODEL in parts.here else None


def tools(parts: Parts) -> tuple[ToolSpec, ...]:
    """The tools this process can run."""
    return parts.tools if TOOLS in parts.here else ()


def policy(parts: Parts) -> PolicyInfo:
    """The policy in force: where this process brought none, everything is asked about."""
    return parts.policy if POLICY in parts.here else ASK_ALWAYS


def named(tools: tuple[ToolSpec, ...], name: str) -> ToolSpec | None:
    for spec in tools:
        if spec.id == name:
            return spec
    return None
