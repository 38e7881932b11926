"""The Mealy function: absorb one input, advance until nobody has anything to say.

`step` is pure: the same state, input and seams give the same bytes, in any process. What it returns
is one commit's events; nothing happened if there are none.
"""

from msgspec.structs import force_setattr

from reducers.absorb import OUTSIDE_TURNS, absorb
from reducers.announce import announced
from reducers.draft import Draft
from reducers.recipes import fail_step
from reducers.reducer import Reducer
from reducers.rules import DUE, RULES
from reducers.state import State, Step
from reducers.vocabulary.inputs import Input

ROUNDS_MIN = 64
ROUNDS_PER_CALL = 8
"""How often the rules may speak in one commit: each call of a batch is asked about, judged, started
and recorded once. More means that two rules undo each other, which is a fault of ours."""


def step(state: State, input: Input, reducer: Reducer | None = None) -> Step:
    """One transition. Raises a `KernelError` for an input that is refused and leaves no trace."""
    draft = Draft(reducer or Reducer(), state, by_loop=type(input) not in OUTSIDE_TURNS)
    absorb(draft, input)
    _advance(draft)
    if not draft.events:
        return Step(state, (), (), draft.raised)
    after, events = draft.state, tuple(draft.events)
    force_setattr(after, "position", state.position + 1)
    return Step(after, events, announced(events, after.position), draft.raised)


def _advance(draft: Draft) -> None:
    if draft.fault is not None:
        fail_step(draft, draft.fault)
        return
    events = draft.events
    spoken: list[str] = []
    while True:
        said = len(events)
        loop = draft.state.loop
        for rule in DUE if loop.is_due else RULES[type(loop.phase)]:
            try:
                rule(draft)
            except Exception as error:
                # A projector or counter of the user's; the answer that was absorbed stays recorded.
                fail_step(draft, error)
            if len(events) > said:
                break
        else:
            return
        if draft.fault is not None:
            fault, draft.fault = draft.fault, None
            fail_step(draft, fault)
        spoken.append(rule.__name__)
        if len(spoken) > ROUNDS_MIN:
            _refuse_endless(draft, spoken)


def _refuse_endless(draft: Draft, spoken: list[str]) -> None:
    calls = len(draft.state.calls.batch) + len(draft.state.calls.proposed)
    if len(spoken) > ROUNDS_MIN + ROUNDS_PER_CALL * calls:
        raise AssertionError(f"the rules never fall silent: {', '.join(spoken[-8:])}")
