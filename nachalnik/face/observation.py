"""What happened and what happens: records, subscriptions, earlier states."""

import itertools
import threading
from collections.abc import Iterator

from effects.logs.scan import read_log
from effects.replay import initial_of, path_of, read_header, states
from nachalnik.face.face import Face
from nachalnik.subscriptions import Live, ModelDelta, Subscription, ToolProgress
from reducers.state import Commit, State
from reducers.views import Record, records
from reducers.vocabulary.errors import (
    InvalidInput,
)
from reducers.vocabulary.models import Delta


class Observation(Face):
    """Reading the log, and hearing of it as it grows."""

    _subscriptions: list[Subscription]
    _subscriptions_lock: threading.Lock
    _records: list[Record]
    _told: State
    """The state up to which there are records: they are made when somebody asks for them."""
    _is_closed: bool

    def subscribe(self, *, all: bool = False, depth: float | None = None) -> Subscription:
        """A live receiver of every event from now on, with fragments; `all` adds bookkeeping.

        `depth` is how many may wait, in place of `event_queue_depth`; `math.inf` loses none.
        """
        if depth is None:
            depth = self._writer.state.session.config.event_queue_depth
        subscription = Subscription(depth, all, self._unsubscribe)
        with self._subscriptions_lock:
            self._subscriptions = [*self._subscriptions, subscription]
        return subscription

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._subscriptions_lock:
            self._subscriptions = [one for one in self._subscriptions if one is not subscription]

    def history(self, *, all: bool = False) -> list[Record]:
        """Every record, oldest first, those from before this opening included."""
        with self._writer.lock:
            self._catch_up()
            return [one for one in self._records if all or one.seq is not None]

    def history_since(self, seq: int, *, all: bool = False) -> list[Record]:
        """Records numbered higher than `seq`; with `all`, from the first of them on."""
        found = self.history(all=all)
        start = next((n for n, one in enumerate(found) if (one.seq or 0) > seq), len(found))
        return found[start:]

    def _catch_up(self) -> None:
        """Make the records of what was committed since they were last asked for."""
        now = self._writer.state.position
        values = self._values(self._told.position)
        told = states(self._told, values, self._log.content, now, path=path_of(self._log))
        for before, commit, after in told:
            self._records.extend(records(before, commit, after))
            self._told = after

    def _values(self, since: int) -> Iterator[bytes]:
        """The commits behind a position; of a closed log as well."""
        path = getattr(self._log, "path", None)
        if not self._is_closed or path is None:
            yield from self._log.values(since)
            return
        with read_log(path) as view:
            yield from itertools.islice((value for _, value in view.commits), since, None)

    def last_seq(self) -> int:
        return self._writer.state.last_seq

    def state_at(self, position: int) -> State:
        """The state as it was after the commit at `position`; 0 is before the first."""
        with self._writer.lock:
            now = self._writer.state
            if not 0 <= position <= now.position:
                raise InvalidInput(f"position {position} is not in 0..{now.position}")
            if position == now.position:
                return now
            first = state = initial_of(read_header(self._log))
            load, path = self._log.content, path_of(self._log)
            for _, _, after in states(first, self._values(0), load, position, path=path):
                state = after
            return state

    def _publish(self, before: State, commit: Commit, after: State) -> None:
        if not self._subscriptions:
            return
        made = records(before, commit, after)
        for subscription in self._subscriptions:
            for record in made:
                subscription.put(record)

    def _on_delta(self, effect: str, delta: Delta) -> None:
        self._emit(ModelDelta(effect, delta))

    def _on_output(self, call: str, tool: str, chunk: str) -> None:
        self._emit(ToolProgress(call, tool, chunk))

    def _emit(self, event: Live) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)
