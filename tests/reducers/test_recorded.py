"""Recorded sessions: logs that must fold for ever, and sessions that are judged again."""

import json
from collections import Counter

import pytest
from msgspec.structs import replace

from effects.replay import redrive
from reducers import Reducer, fold, initial, step
from reducers import chain as chains
from reducers.codec import decode_commit, decode_header, decode_stored, encode_commit
from reducers.machines.context import present
from reducers.statecodec import decode_state, encode_state
from reducers.vocabulary import inputs as i
from reducers.vocabulary.events import Event
from reducers.vocabulary.items import sends_content
from tests.reducers.driving import LOG, MODEL, NAME
from tests.reducers.sessions import HEADER, HISTORIES, LOGS, SCRIPTS, SESSIONS, framed


def read(path):
    """The values of a log, its chain verified."""
    header_line, *lines = path.read_bytes().splitlines(keepends=True)
    header, chain = chains.open_header(header_line)
    assert decode_header(header) == HEADER
    return list(chains.open_commits(lines, chain))


def folded(values):
    state = initial(LOG, NAME)
    for value in values:
        state = fold(state, decode_stored(value).events)
    return state


# -- logs of before ----------------------------------------------------------------------------

RECORDED = {
    "history_132": (137, 352, 62),
    "history_574": (116, 282, 51),
    "one_permitted_call": (9, 22, 4),
}
"""By the name of a log: its last position, its last seq, and its items. Each was written once; what
it says must be read the same by every later version."""


def test_every_log_is_listed():
    assert {path.stem for path in LOGS.glob("*")} == set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_a_log_of_before_is_read_the_same(name):
    values = read(LOGS / f"{name}.jsonl")
    state = folded(values)
    items = present(state.context)
    assert (state.position, state.last_seq, len(items)) == RECORDED[name]
    assert state.context.tokens == sum(one.tokens for one in items if sends_content(one.state))
    assert decode_state(encode_state(state)) == state
    for value in values:
        assert encode_commit(decode_commit(value)) == (value, [])


@pytest.mark.parametrize("name", RECORDED)
def test_a_log_of_before_goes_on(name):
    state = folded(read(LOGS / f"{name}.jsonl"))
    opened = step(state, i.SessionOpened(model=MODEL), Reducer())
    assert opened.state.position == state.position + 1


def test_the_histories_say_nearly_everything():
    said = Counter(
        event["tag"]
        for seed in HISTORIES
        for value in read(LOGS / f"history_{seed}.jsonl")
        for event in json.loads(value)["events"]
    )
    never = {str(kind.__struct_config__.tag) for kind in Event.__args__} - set(said)
    assert never <= {"timer.started", "timer.fired", "question.left"}


# -- sessions that are judged again ------------------------------------------------------------


def test_every_session_is_recorded():
    assert {path.stem for path in SESSIONS.glob("*")} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_session_is_judged_again_as_it_was(name):
    """Where this differs, a rule has changed: `python -m tests.reducers.sessions` shows which."""
    values = read(SESSIONS / f"{name}.jsonl")
    again = redrive(HEADER, iter(values), bytes.fromhex)
    assert again.divergence is None
    assert again.commits == len(values)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_session_is_what_its_script_makes(name):
    assert framed(SCRIPTS[name]()) == (SESSIONS / f"{name}.jsonl").read_bytes()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_change_of_a_session_is_seen(name):
    """The redrive is no formality: another input at any place diverges there or later."""
    commits = [decode_commit(value) for value in read(SESSIONS / f"{name}.jsonl")]
    for place, commit in enumerate(commits):
        if isinstance(commit.input, i.PushItems):
            item = replace(commit.input.items[0], label="another")
            changed = replace(commit, input=replace(commit.input, items=(item,)))
            values = [encode_commit(one)[0] for one in (*commits[:place], changed)]
            divergence = redrive(HEADER, iter(values), bytes.fromhex).divergence
            assert divergence is not None
            assert divergence.position == commit.position
