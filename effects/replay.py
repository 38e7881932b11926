"""Running a log again: `restore` folds it, `redrive` judges it anew and compares.

Both run offline, with no provider and no tool. A divergence is a value, not an exception.

Whoever reads a log for others reads it here: a faultless chain says nothing of what stands in the
lines, so whatever decoding and folding them comes to is a `LogUnsound` that names the line.
"""

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import attrs

from effects.logs.port import EventLog, LogError, LogUnreadable, LogUnsound
from effects.logs.syscalls import reason_of
from effects.parts import SEAM_EVENTS, load_reducer
from reducers.codec import (
    Header,
    Loader,
    UnreadableCommit,
    UnreadableHeader,
    decode_commit,
    decode_header,
    decode_stored,
    encode_commit,
)
from reducers.reducer import Reducer
from reducers.root import step
from reducers.state import Commit, State, fold, initial
from reducers.statecodec import FINGERPRINT, decode_state
from reducers.vocabulary.events import Event


def initial_of(header: Header) -> State:
    return initial(header.log, header.session)


class HasHeader(Protocol):
    """A log, or a view of one."""

    header: bytes


def path_of(log: object) -> str:
    """What a log's errors name it by."""
    return str(getattr(log, "path", "the log"))


def read_header(log: HasHeader) -> Header:
    """The header, decoded. Raises `LogUnsound`."""
    try:
        return decode_header(log.header)
    except UnreadableHeader as error:
        reason = str(error).removeprefix("line 1: ")
        raise LogUnsound(path_of(log), 1, reason) from error


def restore(log: EventLog) -> State:
    """The state at the end of a log, from its cache where there is a good one.

    One that is not is told to the log (`refuse_cache`), and everything is folded. Raises
    `LogUnsound`, and what reading the log raises.
    """
    first = initial_of(read_header(log))
    cached = _cached(log, first)
    if cached is not None:
        try:
            return _folded(log, cached)
        except LogUnsound as error:
            _refuse_cache(log, f"the log does not go on from it: {error.reason}")
    return _folded(log, first)


def _cached(log: EventLog, first: State) -> State | None:
    read_cache = getattr(log, "read_cache", None)
    cache = None if read_cache is None else read_cache()
    if cache is None or cache.fingerprint != FINGERPRINT:
        return None
    try:
        state = decode_state(cache.state)
    except Exception as error:
        _refuse_cache(log, f"its state cannot be read: {_said(error)}")
        return None
    if (state.position, state.session.log) != (cache.position, first.session.log):
        _refuse_cache(log, "its state is that of another log or position")
        return None
    return state


def _refuse_cache(log: EventLog, reason: str) -> None:
    refuse = getattr(log, "refuse_cache", None)
    if refuse is not None:
        refuse(reason)


def _folded(log: EventLog, state: State) -> State:
    """The state at the end of a log, from that after one of its commits."""
    values = log.values(state.position)
    with _without_collection():
        while batch := list(itertools.islice(values, BATCH)):
            state = _fold_all(state, batch, log)
    return state


def _fold_all(state: State, values: Sequence[bytes], log: EventLog) -> State:
    load, decoded = log.content, []
    try:
        for value in values:
            decoded.append(decode_stored(value, load).events)  # noqa: PERF401 - counted on errors
    except Exception as error:
        _raise_unsound(path_of(log), state.position + len(decoded) + 1, error)
    try:
        for events in decoded:
            state = fold(state, events)
    except Exception as error:
        _raise_unsound(path_of(log), state.position + 1, error)
    return state


BATCH = 64
"""Commits decoded before they are folded: taking turns, decoder and fold would drive each other out
of the processor's caches (a tenth slower)."""


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """A fold makes no cycles, so looking for them while it grows only costs (cost.md: 8 %)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _raise_unsound(path: str, position: int, error: Exception) -> NoReturn:
    """Tell a reader of a whole line that could not be decoded or folded."""
    if isinstance(error, LogError):
        raise error
    if isinstance(error, OSError):  # of a file beside the log
        raise LogUnreadable(str(error.filename or path), reason_of(error)) from error
    reason = f"position {position}: it does not fold: {_said(error)}"
    if isinstance(error, UnreadableCommit):
        reason = str(error)
    raise LogUnsound(path, position + 1, reason) from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def states(
    state: State,
    values: Iterator[bytes],
    load: Loader,
    until: int | None = None,
    *,
    path: str = "the log",
    has_inputs: bool = True,
) -> Iterator[tuple[State, Commit, State]]:
    """Each commit that follows a state, with the states before and after it.

    Without inputs each stays as it is written, undecoded: that saves as much as all the rest costs.
    Raises `LogUnsound`, which names `path`, and what `load` raises.
    """
    for value in values:
        if until is not None and state.position >= until:
            return
        try:
            commit = decode_commit(value, load) if has_inputs else _undecoded(value, load)
            after = fold(state, commit.events)
        except Exception as error:
            _raise_unsound(path, state.position + 1, error)
        yield state, commit, after
        state = after


def _undecoded(value: bytes, load: Loader) -> Commit:
    stored = decode_stored(value, load)
    raw: Any = stored.input
    return Commit(stored.at, stored.position, raw, stored.events, stored.cause)


# -- redrive -----------------------------------------------------------------------------------


@attrs.frozen
class Divergence:
    """The first commit that today's rules do not make of its input as it was recorded."""

    position: int
    input: str
    expected: tuple[Event, ...]
    got: tuple[Event, ...]
    error: str = ""
    """Where the input was refused or the reducer failed, instead of events."""


@attrs.frozen
class Redriven:
    commits: int
    events: int
    divergence: Divergence | None = None


Load = Callable[[State], Reducer]


def redrive(
    header: Header,
    values: Iterator[bytes],
    load: Loader,
    *,
    until: int | None = None,
    reducer_of: Load | None = None,
    path: str = "the log",
) -> Redriven:
    """Step every recorded input again and compare the bytes; effects are dropped.

    `reducer_of` gives the reducer for a state; without it the seams are those the log names.
    Raises `SeamMissing` for one that cannot be loaded; `LogUnsound`, which names `path`.
    """
    choose = reducer_of or (lambda state: load_reducer(state.session.seams))
    state = initial_of(header)
    reducer: Reducer | None = None
    commits = events = 0
    for value in values:
        if until is not None and state.position >= until:
            break
        try:
            commit = decode_commit(value, load)
            first = fold(state, commit.events) if reducer is None else state
        except Exception as error:
            _raise_unsound(path, state.position + 1, error)
        if reducer is None:
            reducer = choose(first)
        divergence, after = _again(state, commit, reducer)
        if divergence is not None:
            return Redriven(commits, events, divergence)
        commits += 1
        events += len(commit.events)
        state = after
        if any(isinstance(event, SEAM_EVENTS) for event in commit.events):
            reducer = choose(state)
    return Redriven(commits, events)


def _again(state: State, commit: Commit, reducer: Reducer) -> tuple[Divergence | None, State]:
    tag = str(commit.input.__struct_config__.tag)
    try:
        made = step(state, commit.input, reducer)
        again = Commit(commit.at, state.position + 1, commit.input, made.events, commit.cause)
        is_same = made.events == commit.events and encode_commit(again) == encode_commit(commit)
    except Exception as error:
        return Divergence(commit.position, tag, commit.events, (), _said(error)), state
    if not is_same:
        return Divergence(commit.position, tag, commit.events, made.events), state
    return None, made.state


def first_difference(divergence: Divergence) -> tuple[int, Any, Any]:
    """Place in the commit, what the log has there, what came now; None where one ended."""
    expected, got = divergence.expected, divergence.got
    for place in range(max(len(expected), len(got))):
        mine = expected[place] if place < len(expected) else None
        theirs = got[place] if place < len(got) else None
        if mine != theirs:
            return place, mine, theirs
    return 0, None, None
