"""The six states of the loop. A phase says what we wait for."""

from msgspec import Struct

from reducers.vocabulary.models import StopReason


class Idle(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="idle"):
    pass


class Requesting(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="requesting"
):
    """A request is out, or the calls of its answer are being judged."""


class Deciding(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="deciding"
):
    calls: tuple[int, ...]
    """The questions still open, by id."""


class Ready(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="ready"):
    calls: tuple[str, ...]
    """The calls about to run, in the model's order."""


class Executing(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="executing"
):
    calls: tuple[str, ...]


class Finished(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="finished"
):
    item: int
    stop: StopReason


Phase = Idle | Requesting | Deciding | Ready | Executing | Finished


def name_of(phase: Phase) -> str:
    return str(phase.__struct_config__.tag)


_BUSY = frozenset({Requesting, Executing})


def is_busy(phase: Phase) -> bool:
    return type(phase) in _BUSY
