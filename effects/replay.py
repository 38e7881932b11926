"""Running a log again: `restore` folds it, `redrive` judges it anew and compares.

Both run offline, with no provider and no tool. A divergence is a value, not an exception.
"""

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from effects.logs.port import EventLog
from effects.parts import SEAM_EVENTS, load_reducer
from reducers.codec import (
    Header,
    Loader,
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


def restore(log: EventLog) -> State:
    """The state at the end of a log, from its cache where there is a good one."""
    state = initial_of(decode_header(log.header))
    read_cache = getattr(log, "read_cache", None)
    cache = None if read_cache is None else read_cache()
    if cache is not None and cache.fingerprint == FINGERPRINT:
        state = decode_state(cache.state)
    values, load = log.values(state.position), log.content
    with _without_collection():
        while batch := list(itertools.islice(values, BATCH)):
            for events in [decode_stored(value, load).events for value in batch]:
                state = fold(state, events)
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


def states(
    state: State, values: Iterator[bytes], load: Loader, until: int | None = None
) -> Iterator[tuple[State, Commit, State]]:
    """Each commit that follows a state, with the states before and after it."""
    for value in values:
        if until is not None and state.position >= until:
            return
        commit = decode_commit(value, load)
        after = fold(state, commit.events)
        yield state, commit, after
        state = after


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
) -> Redriven:
    """Step every recorded input again and compare the bytes; effects are dropped.

    `reducer_of` gives the reducer for a state; without it the seams are those the log names.
    Raises `SeamMissing` for one that cannot be loaded.
    """
    choose = reducer_of or (lambda state: load_reducer(state.session.seams))
    state = initial_of(header)
    reducer: Reducer | None = None
    commits = events = 0
    for value in values:
        if until is not None and state.position >= until:
            break
        commit = decode_commit(value, load)
        if reducer is None:
            reducer = choose(fold(state, commit.events))
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
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        return Divergence(commit.position, tag, commit.events, (), said), state
    again = Commit(commit.at, state.position + 1, commit.input, made.events, commit.cause)
    if made.events != commit.events or encode_commit(again) != encode_commit(commit):
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
