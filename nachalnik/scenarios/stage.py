"""What a told kernel stands on: moments at which armed verbs act, and a log that has such moments.

A crash is a SIGKILL of this very process: nothing is flushed, no handler runs.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from effects.logs.port import EventLog
from nachalnik.kernel import Kernel
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.verbs import Moment, Verb
from reducers.chain import frame_commit
from reducers.reducer import Projector, Reducer
from reducers.state import Commit, State
from reducers.statecodec import encode_state
from reducers.tokens import TokenCounter
from reducers.vocabulary.digests import digest_of

EPOCH_MS = 1_764_540_000_000
TICK_MS = 7


class Stage:
    """The armed verbs of the step at hand, the living state, and the clock that counts commits."""

    def __init__(self, folder: Folder, act: Callable[[Verb], Awaitable[None]]) -> None:
        self.folder = folder
        self._act = act
        self.armed: list[Verb] = []
        self.state: Callable[[], State] | None = None
        self.written = 0
        """Position of the last commit in the log: one more than the state's, inside a commit."""
        self.after_commit: Callable[[], None] | None = None

    @property
    def position(self) -> int:
        return self.state().position if self.state is not None else 0

    def __call__(self) -> int:
        """The stamp of the next commit: time is the number of the commit."""
        return EPOCH_MS + TICK_MS * (self.position + 1)

    # -- moments -----------------------------------------------------------------------------

    def _due(self, moment: Moment) -> list[Verb]:
        due = [verb for verb in self.armed if verb.moment == moment]
        self.armed = [verb for verb in self.armed if verb.moment != moment]
        return due

    async def reach(self, kind: str, subject: str) -> None:
        """A moment at which anything may happen."""
        for verb in self._due(Moment(kind, subject)):
            await self._act(verb)

    def pass_by(self, kind: str, *subjects: str) -> None:
        """A moment between bytes, at which only a crash can come."""
        verb = self.taken(kind, subjects)
        if verb is not None:
            self.crash(verb)

    def taken(self, kind: str, subjects: Sequence[str]) -> Verb | None:
        """The verb that waited for one of these moments, no longer armed."""
        found = (verb for subject in subjects for verb in self._due(Moment(kind, subject)))
        return next(found, None)

    def crash(self, verb: Verb) -> NoReturn:
        self.keep_state()
        when = verb.text.removeprefix("crash").strip()
        self.folder.note(self.written, f"SIGKILL {when}".rstrip())
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives a SIGKILL")

    def keep_state(self) -> None:
        if self.state is not None:
            state = self.state()
            self.folder.live(state.position, digest_of(encode_state(state)))


class StagedLog:
    """An event log that passes by the stage's moments at each write and sync."""

    def __init__(self, log: EventLog, stage: Stage) -> None:
        self._log = log
        self._stage = stage
        self.header = log.header
        self.position = log.position
        self.chain = log.chain
        stage.written = log.position
        if getattr(log, "torn", 0):
            stage.folder.note(log.position, "- a torn tail was set aside")

    def append(self, value: bytes, contents: Sequence[tuple[str, bytes]] = ()) -> None:
        tags = _tags(value) if self._stage.armed else ()
        self._stage.pass_by("before", *tags)
        verb = self._stage.taken("halfway", tags)
        if verb is not None:
            self._write_half(value)
            self._stage.crash(verb)
        self._log.append(value, contents)
        self.position, self.chain = self._log.position, self._log.chain
        self._stage.written = self.position
        self._stage.pass_by("after", *tags)

    def _write_half(self, value: bytes) -> None:
        line, _ = frame_commit(self._log.chain, value)
        fd = os.open(self._stage.folder.log, os.O_WRONLY | os.O_APPEND)
        os.write(fd, line[: len(line) // 2])
        os.close(fd)

    def sync(self) -> None:
        self._stage.pass_by("before", "sync")
        self._log.sync()
        self._stage.pass_by("after", "sync")

    def values(self, since: int = 0) -> Iterator[bytes]:
        return self._log.values(since)

    def content(self, digest: str) -> bytes:
        return self._log.content(digest)

    def write_cache(self, state: bytes, fingerprint: str) -> None:
        write = getattr(self._log, "write_cache", None)
        if write is not None:
            write(state, fingerprint)

    def close(self) -> None:
        self._log.close()


def _tags(value: bytes) -> tuple[str, ...]:
    """The tag of a commit's input, and those of its events."""
    plain: dict[str, Any] = msgspec.json.decode(value)
    return (plain["input"]["tag"], *(event["tag"] for event in plain["events"]))


class StagedKernel(Kernel):
    """A kernel whose clock is a `Stage` and whose log is staged."""

    def _start(
        self,
        log: EventLog,
        projector: Projector | None,
        counter: TokenCounter | None,
        clock: Callable[[], int],
        state: State | None = None,
        reducer: Reducer | None = None,
    ) -> None:
        assert isinstance(clock, Stage)
        self.stage = clock
        super()._start(StagedLog(log, clock), projector, counter, clock, state, reducer)
        clock.state = self.live

    def live(self) -> State:
        """The state this process has in hand."""
        return self._writer.state

    def _publish(self, before: State, commit: Commit, after: State) -> None:
        super()._publish(before, commit, after)
        if self.stage.after_commit is not None:
            self.stage.after_commit()
