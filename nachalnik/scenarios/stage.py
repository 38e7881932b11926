"""What a told kernel stands on: moments at which armed verbs act, and a log that has such moments.

A crash is a SIGKILL of this very process: nothing is flushed, no handler runs.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NoReturn

from effects.logs.port import EventLog
from nachalnik.kernel import Kernel
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import Moment, Verb
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
        for subject in subjects:
            for verb in self._due(Moment(kind, subject)):
                self.crash(verb)

    def is_waiting_for(self, kind: str, subjects: Sequence[str]) -> Verb | None:
        found = (verb for subject in subjects for verb in self._due(Moment(kind, subject)))
        return next(found, None)

    def crash(self, verb: Verb) -> NoReturn:
        self.keep_state()
        when = verb.text.removeprefix("crash").strip()
        self.folder.note(self.position, f"SIGKILL {when}".rstrip())
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

    @property
    def position(self) -> int:
        return self._log.position

    @property
    def chain(self) -> bytes:
        return self._log.chain

    def append(self, value: bytes, contents: Sequence[tuple[str, bytes]] = ()) -> None:
        stage = self._stage
        if any(verb.name == "crash" for verb in stage.armed):
            tags = _tags(value)
            stage.pass_by("before", *tags)
            verb = stage.is_waiting_for("halfway", tags)
            if verb is not None:
                self._write_half(value)
                stage.crash(verb)
            self._log.append(value, contents)
            stage.pass_by("after", *tags)
        else:
            self._log.append(value, contents)

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

    @property
    def torn(self) -> int:
        return int(getattr(self._log, "torn", 0))


def _tags(value: bytes) -> tuple[str, ...]:
    """The tag of a commit's input, and those of its events."""
    import msgspec

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
        staged = StagedLog(log, clock)
        self.torn = staged.torn
        super()._start(staged, projector, counter, clock, state, reducer)
        clock.state = self.live

    def live(self) -> State:
        """The state this process has in hand."""
        return self._writer.state

    def _publish(self, before: State, commit: Commit, after: State) -> None:
        super()._publish(before, commit, after)
        if self.stage.after_commit is not None:
            self.stage.after_commit()
