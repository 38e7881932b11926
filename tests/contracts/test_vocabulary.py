"""Whoever adds a word owes it an owner, a fold, a tag of its own and a sample."""

import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

import reducers.machines
import reducers.vocabulary
from reducers import effects_of
from reducers.absorb import ABSORB, OUTSIDE_TURNS
from reducers.codec import StoredCommit
from reducers.state import JOINT, TABLE, UNNUMBERED, Commit, State, Step, evolve, initial
from reducers.statecodec import StoredState
from reducers.vocabulary import events as e
from reducers.vocabulary.content import Content, Held
from reducers.vocabulary.effects import Effect
from reducers.vocabulary.events import BookkeepingEvent, Event, Recorded, RecordedEvent, Splice
from reducers.vocabulary.inputs import Input
from reducers.vocabulary.items import Kind
from reducers.vocabulary.phases import Phase
from tests.properties.strategies import encode, twin, values_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "fixtures" / "events"
EVENTS = get_args(Event)
UNIONS = {"input": Input, "event": Event, "effect": Effect, "phase": Phase, "kind": Kind}

FACTS_ALONE = {e.ToolRepaired, e.ToolPanicked, e.TurnUnfinished}
"""Recorded for people: they change nothing that the fold keeps, but the number of the last one."""


def tag_of(kind: type[Struct]) -> str:
    return str(kind.__struct_config__.tag)


# -- owners ------------------------------------------------------------------------------------


def test_each_input_has_one_owner():
    assert set(ABSORB) == set(get_args(Input))
    assert set(OUTSIDE_TURNS) < set(ABSORB)


def test_each_event_is_folded_or_is_known_to_change_nothing():
    folded = set(TABLE) | set(JOINT)
    assert folded <= set(EVENTS)
    assert set(EVENTS) - folded == FACTS_ALONE


@given(st.sampled_from(sorted(FACTS_ALONE, key=tag_of)).flatmap(values_of))
def test_the_facts_alone_leave_the_state_as_it_was(event):
    before = initial("log", "name")
    assert replace(evolve(before, event), last_seq=0) == before


def test_recorded_and_bookkeeping_events_are_two_ranks():
    assert set(get_args(RecordedEvent)).isdisjoint(get_args(BookkeepingEvent))
    assert set(UNNUMBERED) == set(get_args(BookkeepingEvent))
    for event in EVENTS:
        assert issubclass(event, Recorded) == (event in get_args(RecordedEvent))
        assert ("seq" in event.__struct_fields__) == issubclass(event, Recorded)


@given(st.sampled_from(EVENTS).flatmap(values_of))
def test_every_effect_is_announced_by_an_event(event):
    for effect in effects_of(event, 9):
        assert isinstance(effect, get_args(Effect))
        assert effect.id.startswith("9.")


def test_every_kind_of_effect_is_announced_by_some_event():
    seen = {
        type(effect)
        for sample in SAMPLES.glob("*.json")
        for effect in effects_of(msgspec.json.decode(sample.read_bytes(), type=Event), 1)
    }
    assert seen == set(get_args(Effect))


# -- tags --------------------------------------------------------------------------------------


def test_tags_are_unique_within_their_alphabet():
    for name, union in UNIONS.items():
        tags = [tag_of(kind) for kind in get_args(union)]
        assert len(tags) == len(set(tags)), name


def test_tags_of_the_alphabets_are_dotted_nouns_first():
    for name in ("input", "event", "effect"):
        for kind in get_args(UNIONS[name]):
            assert re.fullmatch(r"[a-z]+\.[a-z_]+", tag_of(kind)), kind


def test_tags_are_written_by_hand():
    """Each stands as a literal behind its class's name; none is derived from that name."""
    for union in (*UNIONS.values(), Content):
        for kind in get_args(union):
            source = Path(importlib.import_module(kind.__module__).__file__ or "").read_text()
            written = re.search(rf"class {kind.__name__}\((.*?)\):", source, re.DOTALL)
            assert written is not None
            assert f'tag="{tag_of(kind)}"' in written[1], kind


# -- samples -----------------------------------------------------------------------------------


@pytest.mark.accepts(132)
def test_each_tag_has_a_sample():
    assert {tag_of(kind) for kind in EVENTS} == {
        path.stem.partition("~")[0] for path in SAMPLES.glob("*.json")
    }


@pytest.mark.accepts(129, 131)
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_sample_reads_and_is_written_the_same(path):
    raw = path.read_bytes().removesuffix(b"\n")
    event = msgspec.json.decode(raw, type=Event)
    assert tag_of(type(event)) == path.stem.partition("~")[0]
    assert encode(event) == raw
    assert encode(twin(event)) == raw


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_event_can_be_applied(path):
    """`evolve` is total: it takes whatever was written once, in whatever state."""
    event = msgspec.json.decode(path.read_bytes(), type=Event)
    if isinstance(event, e.ContextAdded) and isinstance(event.item.content, Held):
        with pytest.raises(ValueError, match="does not have"):  # a log that lost a commit
            evolve(initial("log", "name"), event)
        return
    after = evolve(initial("log", "name"), event)
    assert evolve(after, event).last_seq == getattr(event, "seq", 0)


@pytest.mark.parametrize("kind", EVENTS, ids=tag_of)
def test_the_samples_of_a_tag_show_every_field(kind):
    """`turn` and `step` only where the event belongs to a turn."""
    shown = {
        name
        for path in SAMPLES.glob(f"{tag_of(kind)}[.~]*")
        for name in msgspec.json.decode(path.read_bytes())
    }
    assert set(kind.__struct_fields__) - shown <= {"turn", "step"}


# -- defaults ----------------------------------------------------------------------------------


def vocabulary() -> list[type[Struct]]:
    return structs_of(reducers.vocabulary)


def machines() -> list[type[Struct]]:
    own = [one for one in structs_of(reducers.machines) if "vocabulary" not in one.__module__]
    return [*own, State, Commit, Step, StoredCommit, StoredState]


def structs_of(package: ModuleType) -> list[type[Struct]]:
    found: set[type[Struct]] = set()
    for module in pkgutil.iter_modules(package.__path__):
        words = importlib.import_module(f"{package.__name__}.{module.name}")
        found.update(
            word
            for word in vars(words).values()
            if isinstance(word, type) and issubclass(word, Struct) and word is not Struct
        )
    return sorted(found, key=lambda word: (word.__module__, word.__name__))


@pytest.mark.parametrize("word", [*vocabulary(), *machines()], ids=lambda word: word.__name__)
def test_data_is_frozen_and_no_burden_on_the_collector(word):
    """Kept by the ten thousand: without `gc=False` a log is kept eight times slower."""
    assert word.__struct_config__.frozen
    assert not word.__struct_config__.gc


@pytest.mark.parametrize("word", vocabulary(), ids=lambda word: word.__name__)
def test_defaults_are_left_out_by_their_value(word):
    """msgspec leaves a default out by identity; no byte may depend on which object holds it."""
    assert all(one.default_factory is NODEFAULT for one in fields(word)), "not by a factory"
    defaults = {one.name: one.default for one in fields(word) if one.default is not NODEFAULT}
    if not defaults:
        return

    @given(values_of(Splice[int] if word is Splice else word))
    @settings(max_examples=5, database=None)
    def check(value):
        plain = replace(value, **defaults)
        other = replace(value, **{name: twin(default) for name, default in defaults.items()})
        assert encode(other) == encode(plain)

    check()
