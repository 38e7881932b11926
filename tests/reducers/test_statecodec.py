"""States as bytes: the cache beside a log. Its fingerprint follows the vocabulary by hand."""

import msgspec
from hypothesis import given

from reducers import Reducer, initial, step
from reducers.statecodec import FINGERPRINT, StoredState, decode_state, encode_state
from reducers.vocabulary import inputs as i
from reducers.vocabulary.digests import digest_of
from tests.properties.histories import examples, histories, settings_of_a_session
from tests.properties.player import ANYTHING, Player, moves_from
from tests.reducers.driving import LOG, NAME, Core

SCHEMA = "b916716391c0415d556a8b2286ade5f0"
"""Of what a stored state is made of. When this changes, old caches read wrongly: change
FINGERPRINT with it, always to a new word."""


def without_words(schema):
    """Descriptions and titles do not change the bytes."""
    if isinstance(schema, list):
        return [without_words(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: without_words(value)
        for name, value in schema.items()
        if name not in ("description", "title") or not isinstance(value, str)
    }


def test_the_fingerprint_follows_the_schema():
    schema = msgspec.json.encode(
        without_words(msgspec.json.schema(StoredState)), order="deterministic"
    )
    assert (FINGERPRINT, digest_of(schema)) == ("state-3", SCHEMA)


@given(histories, settings_of_a_session)
@examples(30)
def test_a_session_goes_on_from_a_stored_state_as_if_nothing_had_been(moves, setting):
    """Vectors, sets and maps come back as what they were, and the next request says the same."""
    half = len(moves) // 2
    player = Player(*setting).play(moves[:half])
    other = Core()
    other.state, other.reducer = decode_state(encode_state(player.state)), Reducer()
    assert other.state == player.state
    position = player.state.position
    player.play(moves[half:])
    for commit in player.commits:
        if commit.position > position:
            assert other.feed(commit.input).events == commit.events
    assert encode_state(other.state) == encode_state(player.state)


def test_equal_states_have_equal_bytes_however_they_came_about():
    player = Player().play(moves_from(3, 60, ANYTHING))
    raw = encode_state(player.state)
    assert encode_state(decode_state(raw)) == raw
    folded = step(initial(LOG, NAME), player.commits[0].input).state
    assert encode_state(folded) == encode_state(decode_state(encode_state(folded)))


def test_sets_are_written_sorted():
    core = Core()
    core.feed(i.SessionOpened())
    core.feed(i.ReserveCalls(tuple(f"c{n * 37 % 101}" for n in range(100))))
    seen = msgspec.json.decode(encode_state(core.state))["calls"]["seen"]
    assert seen == sorted(seen)
    assert len(seen) == 100
