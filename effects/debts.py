"""What has to be committed before anything else can be: that a driver left, and answers of tools
that the log did not take, or that came when nobody awaited them any more. None is ever dropped.

All of it is called under the writer's lock.
"""

import contextlib
from collections.abc import Callable

from effects.border import NotRecordable
from effects.handlers.tool import unrecordable
from effects.logs.port import LogError
from reducers.vocabulary.inputs import DriverLeft, Input, ToolSettled


class Debts:
    def __init__(self, commit: Callable[[Input], object]) -> None:
        self._commit = commit
        self.owed: list[Input] = []
        self._kept: list[Input] = []

    def keep(self, answer: ToolSettled) -> None:
        """Hold an answer back until its driver, who is about to leave, has left."""
        self._kept.append(answer)

    def owe(self, answer: ToolSettled) -> None:
        self.owed.append(answer)
        self.try_to_pay()

    def leave(self, is_busy: bool) -> None:
        """A driver is gone; from a busy loop, which has to be told once."""
        if is_busy and not any(isinstance(one, DriverLeft) for one in self.owed):
            self.owed.append(DriverLeft())
        self.owed += self._kept
        self._kept = []
        self.try_to_pay()

    def pay(self) -> None:
        """Commit it all, oldest first. Raises `LogError`, and then owes what is left."""
        while self.owed:
            input = self.owed[0]
            try:
                self._commit(input)
            except NotRecordable as problem:
                # What cannot be written must not stand in the way of everything else.
                if isinstance(input, ToolSettled):
                    self.owed[0] = ToolSettled(input.effect, unrecordable(problem))
                    continue
            del self.owed[0]

    def try_to_pay(self) -> None:
        """Pay what can be paid now; the rest is paid before the next commit, or the log is done."""
        with contextlib.suppress(LogError):
            self.pay()
