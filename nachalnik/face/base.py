"""What every part of the kernel's face stands on: the writer, the live parts, and `_apply`."""

from effects.interpreter import Interpreter, Ports
from effects.logs.port import EventLog
from effects.writer import Writer
from reducers.vocabulary.inputs import (
    Input,
)
from reducers.vocabulary.phases import Phase


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
