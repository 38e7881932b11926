"""What each model taught about our estimates: two integer totals; the scale is derived.

I-CALIBRATION-1  Totals only grow, by pairs an event declares to teach something, until the counter
                 is changed: they are in its units.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import CounterChanged, CounterObserved


class Calibration(Struct, frozen=True, gc=False):
    """Totals in tokens: our own estimates, and what the provider counted for the same requests."""

    observations: int = 0
    estimated: int = 0
    reported: int = 0

    @property
    def scale(self) -> float:
        """Reported over estimated, held to [0.1, 10]; 1 before anything was learned."""
        if not self.estimated:
            return 1.0
        return min(10.0, max(0.1, self.reported / self.estimated))


UNTAUGHT = Calibration()


class Calibrations(Struct, frozen=True, gc=False):
    models: tuple[tuple[str, Calibration], ...] = ()
    """By `provider/model`, in the order first learned."""


def of_model(calibrations: Calibrations, model: str) -> Calibration:
    return next((known for name, known in calibrations.models if name == model), UNTAUGHT)


def counter_changed(calibrations: Calibrations, event: CounterChanged, here: int) -> Calibrations:
    """Totals are in the units of the counter that made the estimates."""
    return Calibrations()


EVOLVE: dict[type, Callable[[Calibrations, Any, int], Calibrations]] = {
    CounterChanged: counter_changed,
}
"""`CounterObserved` needs the model's name too; `reducers.state` gives it."""


def observed(calibrations: Calibrations, event: CounterObserved, model: str) -> Calibrations:
    if not event.own:
        return calibrations
    known = of_model(calibrations, model)
    taught = Calibration(
        known.observations + 1, known.estimated + event.own, known.reported + event.reported
    )
    names = [name for name, _ in calibrations.models]
    if model not in names:
        return replace(calibrations, models=(*calibrations.models, (model, taught)))
    models = tuple((name, taught if name == model else old) for name, old in calibrations.models)
    return replace(calibrations, models=models)
