"""Absorb: each input is given to the one function that owns it.

It says the facts that carry the input's content; what follows from the joint state is for the
rules. It raises, before it has said anything, where the specification logs nothing.
"""

from collections.abc import Callable
from typing import Any

from reducers.absorb import answers, calls, context, loop, session
from reducers.draft import Draft
from reducers.vocabulary.inputs import Input

ABSORB: dict[type, Callable[[Draft, Any], None]] = {
    **session.ABSORB,
    **context.ABSORB,
    **loop.ABSORB,
    **calls.ABSORB,
    **answers.ABSORB,
}

OUTSIDE_TURNS = frozenset({*session.ABSORB, *context.ABSORB})
"""Inputs whose events belong to no turn, but for an opening that recovers one."""


def absorb(draft: Draft, input: Input) -> None:
    ABSORB[type(input)](draft, input)
