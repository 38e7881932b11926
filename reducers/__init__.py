"""The pure core of nachalnik: every transition is `(state, input) -> (state, events, effects)`.

    step(state, input) -> Step      judge one input; pure; raises a KernelError for what is refused
    evolve(state, event) -> State   apply one event; total; never judges
    fold(state, events) -> State    apply the events of one commit
    outstanding(state)              the effects that are announced and not settled
    work(state, effect)             what the world needs to carry one out

Whoever drives the core is its shell, and owes it five things:

1. Write a step's commit (`codec.encode_commit`) before acting on it. A step without events is not
   written.
2. Carry out each effect of a step once, and answer it with the input its docstring names.
3. Render `work` for a request at once after its step, before the next input.
4. Make the commit durable before an effect reaches the outside world.
5. After a crash, fold the log and feed `SessionOpened`; never carry out an effect of an earlier
   process again.
"""

from reducers.announce import (
    JudgeWork,
    ModelWork,
    ToolWork,
    Work,
    effects_of,
    outstanding,
    work,
)
from reducers.reducer import Reducer
from reducers.root import step
from reducers.state import Commit, State, Step, evolve, fold, initial
from reducers.vocabulary.effects import Effect
from reducers.vocabulary.events import Event
from reducers.vocabulary.inputs import Input

DISTRIBUTION = "nachalnik 0.1.0"
"""Which distribution this package came with. Others install a `reducers` too; `nachalnik` compares
the marks of its three packages when it is first used."""

__all__ = [
    "Commit",
    "Effect",
    "Event",
    "Input",
    "JudgeWork",
    "ModelWork",
    "Reducer",
    "State",
    "Step",
    "ToolWork",
    "Work",
    "effects_of",
    "evolve",
    "fold",
    "initial",
    "outstanding",
    "step",
    "work",
]
