"""The request to the model: the one in flight, and the lists the next one is written against.

I-REQUEST-1  At most one request is in flight.
I-REQUEST-2  A claim that has not become a request or a failure yet is due, as the loop tells; a
             state lasts no longer than its commit with a request due.
I-REQUEST-3  The lists are those of the last `model.requested`, whatever became of it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.events import (
    CounterChanged,
    ModelFailed,
    ModelFinished,
    ModelRequested,
    RequestAbandoned,
    Skipped,
    Splice,
)
from reducers.vocabulary.models import Usage
from reducers.vocabulary.persistent import Vector

T = TypeVar("T")

NO_IDS: Vector[int] = Vector.of(())
NO_SKIPS: Vector[Skipped] = Vector.of(())
NO_REPAIRS: Vector[str] = Vector.of(())


class Requests(Struct, frozen=True, gc=False, omit_defaults=True):
    in_flight: str = ""
    """Effect id of the request that is out, or empty."""
    at: int = 0
    """Position of the last `model.requested`."""
    model: str = ""
    """The model asked last, as `provider/model`."""
    model_at: int = 0
    estimated: int = 0
    uncounted: int = 0
    digest: str = ""
    usage: Usage | None = None
    """As the provider of the last answer reported it."""
    included: Vector[int] = NO_IDS
    skipped: Vector[Skipped] = NO_SKIPS
    repairs: Vector[str] = NO_REPAIRS


def spliced(old: Vector[T], splice: Splice[T]) -> Vector[T]:
    keep, cut, put = splice.keep, splice.cut, splice.put
    if not (keep or cut or put):
        return old
    if keep == len(old):
        return old.extend(put)
    return old.take(keep).extend(put + old.slice(keep + cut))


def requested(requests: Requests, event: ModelRequested, here: int, model: str) -> Requests:
    return Requests(
        in_flight=f"{here}.{event.effect}",
        at=here,
        model=model,
        model_at=event.model,
        estimated=event.tokens,
        uncounted=event.uncounted,
        digest=event.digest,
        usage=requests.usage,
        included=spliced(requests.included, event.items),
        skipped=spliced(requests.skipped, event.skipped),
        repairs=spliced(requests.repairs, event.repairs),
    )


def finished(requests: Requests, event: ModelFinished, here: int) -> Requests:
    return replace(requests, in_flight="", usage=event.usage)


def failed(requests: Requests, event: ModelFailed | RequestAbandoned, here: int) -> Requests:
    return replace(requests, in_flight="")


def counter_changed(requests: Requests, event: CounterChanged, here: int) -> Requests:
    """What another counter estimated teaches the new one nothing."""
    return replace(requests, estimated=0)


EVOLVE: dict[type, Callable[[Requests, Any, int], Requests]] = {
    ModelFinished: finished,
    ModelFailed: failed,
    RequestAbandoned: failed,
    CounterChanged: counter_changed,
}
"""`ModelRequested` needs the model's name too; `reducers.state` gives it."""
