"""The writer: one lock over step, write, apply and publish. The only way into a session.

*Written* (survives SIGKILL) when `commit` returns; *synced* (survives power loss) when `sync`
does. The state never moves before its commit is written, and nothing moves after a commit that may
be half written: the session then says so and has to be opened again.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from effects.border import admitted
from effects.logs.port import EventLog, LogError, LogUnusable
from effects.parts import SEAM_CHANGES, load_reducer
from reducers.announce import Work, render
from reducers.codec import encode_commit
from reducers.reducer import Reducer
from reducers.root import step
from reducers.state import Commit, State, Step
from reducers.vocabulary.effects import Effect, StopModel, StopTool
from reducers.vocabulary.errors import Reentered
from reducers.vocabulary.inputs import Input

Publish = Callable[[State, Commit, State], None]


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Applied(msgspec.Struct, frozen=True, gc=False):
    """A step that is written, and the work of its effects, drawn from its own state."""

    step: Step
    works: tuple[tuple[Effect, Work], ...] = ()
    notices: tuple[StopModel | StopTool, ...] = ()
    fault: Exception | None = None
    """The work could not be drawn after all: a seam that is not pure gave two answers."""


class Writer:
    """Holds the state of one session and the log it is the fold of."""

    def __init__(
        self,
        log: EventLog,
        state: State,
        reducer: Reducer,
        publish: Publish,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.log = log
        self.state = state
        self.reducer = reducer
        self.lock = threading.RLock()
        self.seams: dict[str, Any] = {}
        """Seams of this process by the words that name them in the log: they need not be importable
        for as long as it lives."""
        self._publish = publish
        self._clock = clock
        self._is_inside = False
        self._poison = ""

    def commit(self, input: Input, cause: str = "") -> Applied:
        """Judge an input, write what it came to, apply it, publish it.

        Raises what `step` refuses (nothing happened), `NotRecordable` for what no log can hold,
        `LogError` where it could not be written (nothing happened in all three), `Reentered` for a
        callback that runs inside a commit.
        """
        with self.lock:
            if self._is_inside:
                raise Reentered(
                    "a callback that runs inside a commit called its own kernel: "
                    "do that from a tool, a provider or a policy, or after the call"
                )
            if self._poison:
                raise LogUnusable(self._poison)
            try:
                self._is_inside = True
                return self._commit(input, cause)
            finally:
                self._is_inside = False

    def _commit(self, input: Input, cause: str) -> Applied:
        input = admitted(input)
        before = self.state
        made = step(before, input, self.reducer)
        if not made.events:
            return Applied(made)
        commit = Commit(self._clock(), made.state.position, input, made.events, cause)
        value, contents = encode_commit(commit)
        try:
            self.log.append(value, contents)
            self._apply(made)
            self._publish(before, commit, made.state)
        except LogError:
            raise
        except BaseException as error:
            self._poison = (
                f"interrupted between writing and publishing position {commit.position} "
                f"({type(error).__name__})"
            )
            raise
        return self._draw(made)

    def _apply(self, made: Step) -> None:
        before, self.state = self.state, made.state
        if before.session is made.state.session:
            return
        if any(isinstance(event, SEAM_CHANGES) for event in made.events):
            self.reducer = load_reducer(made.state.session.seams, self.seams)

    def _draw(self, made: Step) -> Applied:
        works = []
        notices = []
        fault = None
        for effect in made.effects:
            if isinstance(effect, (StopModel, StopTool)):
                notices.append(effect)
                continue
            try:
                works.append((effect, render(self.state, effect, self.reducer)))
            except Exception as error:
                fault = error
        return Applied(made, tuple(works), tuple(notices), fault)

    def sync(self) -> None:
        """Make everything written durable. A failure ends the writing of this process."""
        self.log.sync()

    def read(self, ask: Callable[[State, Reducer], Any]) -> Any:
        """Ask something of one moment's state, by seams that nobody uses meanwhile."""
        with self.lock:
            was_inside = self._is_inside
            try:
                self._is_inside = True
                return ask(self.state, self.reducer)
            finally:
                self._is_inside = was_inside
