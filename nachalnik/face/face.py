"""What every part of the kernel's face stands on: the writer, the live parts, and `_apply`."""

from collections.abc import Callable
from typing import Any, TypeVar

from effects.interpreter import Interpreter, Ports
from effects.logs.port import EventLog
from effects.writer import Writer
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.inputs import Input
from reducers.vocabulary.json import Json, NotJson, compact
from reducers.vocabulary.phases import Phase

T = TypeVar("T")


class Face:
    """A session's inner parts. `Kernel` makes them; the faces by topic use them."""

    _log: EventLog
    _ports: Ports
    _writer: Writer
    _interpreter: Interpreter

    def state(self) -> Phase:
        return self._writer.state.loop.phase

    def _apply(self, input: Input) -> bool:
        """Commit an input; whether anything happened. Raises what its step raised."""
        applied = self._interpreter.apply(input)
        if applied.step.raised is not None:
            raise applied.step.raised
        return bool(applied.step.events)


def as_json(value: object, what: str) -> Json:
    """The compact text of what somebody gave. Raises `InvalidInput` for what JSON cannot say."""
    return given(compact, value, what)


def given(read: Callable[[Any], T], value: object, what: str) -> T:
    """What `read` makes of a value. Raises `InvalidInput` where it is none that JSON can say."""
    try:
        return read(value)
    except NotJson as problem:
        raise InvalidInput(f"{what} cannot be recorded: {problem}") from None
