"""The segmented projection is a function of the items alone."""

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reducers import Reducer, step
from reducers.linear import LinearProjector, Projection
from reducers.machines.calibration import Calibration
from reducers.machines.context import present
from reducers.machines.requests import spliced
from reducers.projection import SEGMENT_MIN, Projected, project
from reducers.reducer import _splice
from reducers.state import State
from reducers.tokens import Calibrating
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.events import ModelRequested
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.persistent import Vector
from tests.properties.histories import examples, histories, moves_of, settings_of_a_session
from tests.properties.player import MOVES, Player, pushed
from tests.properties.strategies import encode
from tests.reducers.driving import Core, started

MOVE_CALL = ToolCall("u9", "add", Json("{}"))
FIELDS = ("messages", "included", "skipped", "repairs", "reordered")
COUNTER = Calibrating()
TAUGHT = Calibration(1, 1000, 1370)


def everything(projected: Projected) -> dict[str, object]:
    """All that a projection says, in values that compare by what they hold."""
    said: dict[str, object] = {name: list(projected.values(name)) for name in FIELDS}
    said["digest"] = projected.digest(b"tools", b"params")
    said["uncounted"] = projected.uncounted
    said["tokens"] = projected.tokens(COUNTER, TAUGHT)
    said["segments"] = [[item.id for item in segment.items] for segment in projected.segments]
    return said


def fresh(state: State, projector: LinearProjector) -> Projected:
    return project(state.context, projector, COUNTER)


# Long ones, so that there are segments: many pushes a move, then edits all over.


def _to_a_cut(player, a, b):
    """As many items as bring the tail to the length at which the next item closes it."""
    tail = fresh(player.state, LinearProjector()).tail
    count = -len(tail.items) % SEGMENT_MIN or SEGMENT_MIN
    return i.PushItems(tuple(ContextItem.user(f"{n}") for n in range(count - b % 2)))


def _block(player, n):
    """Mostly the ids of a stretch of its own, so that pairs seldom lie across a cut."""
    return f"{player.state.position}." if n % 8 else ""


GROWING = (
    *("push_many", "push_talk", "push_to_a_cut") * 2,
    *("push", "supersede", "set_state", "replace", "annotate", "redo"),
    *("undo", "set_state") * 2,
)
MANY = {
    **MOVES,
    "push_many": lambda p, a, b: i.PushItems(
        tuple(pushed(a + n, b + n * n, _block(p, b)) for n in range(a % 45))
    ),
    "push_talk": lambda p, a, b: i.PushItems(tuple(ContextItem.user(f"{n}") for n in range(40))),
    "push_to_a_cut": _to_a_cut,
    "push_call": lambda p, a, b: i.PushItems((ContextItem.assistant("", (MOVE_CALL,)),)),
}
PROJECTORS = st.builds(
    LinearProjector,
    label_references=st.booleans(),
    send_reasoning=st.booleans(),
    send_blocks=st.booleans(),
    elision=st.sampled_from(["elided", "gone"]),
)


class Editor(Player):
    """A player that knows how to push many at once."""

    def move(self, verb, a=0, b=0):
        return self.feed_or_refuse(MANY[verb](self, a, b))

    def feed_or_refuse(self, input):
        try:
            return self.feed(input)
        except Exception as refusal:  # an unknown item, mostly
            self.refused.append((input, refusal))
            return None


@given(
    moves_of(*GROWING, max_size=12),
    PROJECTORS,
    st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
@example(
    # a segment is closed by an item that an undo then removes
    [("push_to_a_cut", 0, 0), ("push", 7, 0), ("undo", 0, 0)],
    LinearProjector(),
    [0],
)
@example(
    # an answer to a call that an earlier segment has given up
    [("push", 2, 0), ("push_talk", 0, 0), ("push_call", 0, 0), ("push_talk", 0, 0), ("push", 4, 0)],
    LinearProjector(),
    [2],
)
@examples(150)
def test_projecting_from_any_earlier_projection_is_projecting(moves, projector, keep):
    """`project(v, any earlier p) == project(v)`, digest and cuts included."""
    player = Editor()
    earlier: list[Projected] = [fresh(player.state, projector)]
    chained = earlier[0]
    for verb, a, b in moves:
        player.move(verb, a, b)
        expected = everything(fresh(player.state, projector))
        chained = project(player.state.context, projector, COUNTER, chained)
        assert everything(chained) == expected
        for place in keep:
            old = earlier[place % len(earlier)]
            again = project(player.state.context, projector, COUNTER, old)
            assert everything(again) == expected
        earlier.append(chained)


@pytest.mark.accepts(118)
@given(moves_of(*GROWING, max_size=12), PROJECTORS)
@examples(100)
def test_segments_make_of_the_items_what_one_stretch_makes(moves, projector):
    """Cutting changes no message and no word about them."""
    player = Editor().play(moves)
    projected = fresh(player.state, projector)
    whole = projector.project(present(player.state.context))
    for name in FIELDS:
        assert list(projected.values(name)) == list(getattr(whole, name)), name
    counted = [COUNTER.count_message(message) for message in whole.messages]
    assert projected.tokens(COUNTER, TAUGHT) == sum(COUNTER.price(raw, TAUGHT) for raw in counted)


def test_the_projection_of_a_state_is_that_of_its_projector():
    player = Editor().play([("push_many", 40, 3), ("push_talk", 0, 0)])
    items = present(player.state.context)
    for projector in (LinearProjector(), LinearProjector(repair_orphans=False), Mirror()):
        mine, whole = Reducer(projector).projection(player.state), projector.project(items)
        assert list(mine.messages) == list(whole.messages)
        assert list(mine.included) == list(whole.included)


class Mirror:
    """A projector of somebody's: what people said, twice."""

    def project(self, items):
        whole = LinearProjector().project(one for one in items if one.source == "user")
        return Projection(whole.messages * 2, whole.included * 2, ())


@given(moves_of(*GROWING, max_size=8))
@examples(60)
def test_a_cut_looks_only_backward_and_at_the_next_item(moves):
    """What is closed stays closed when the context grows, whatever comes (but for a split pair)."""
    player = Editor().play(moves)
    before = fresh(player.state, LinearProjector())
    player.feed(i.PushItems(tuple(ContextItem.user(f"{n}") for n in range(3))))
    after = fresh(player.state, LinearProjector())
    closed = [segment.items for segment in before.segments]
    assert [segment.items for segment in after.segments][: len(closed)] == closed
    assert all(len(segment.items) >= SEGMENT_MIN for segment in after.segments)


def test_long_histories_have_segments_and_split_pairs():
    """The generators reach what the properties are about."""
    player = Editor().play([("push_talk", 0, 0)] * 3)
    assert len(fresh(player.state, LinearProjector()).segments) == 3
    player.feed(i.PushItems((ContextItem.tool_result("u9", "add", "early"),)))
    player.play([("push_talk", 0, 0)] * 2)
    assert len(fresh(player.state, LinearProjector()).segments) > 3
    late = ContextItem.assistant("", (MOVE_CALL,))
    player.feed(i.PushItems((late,)))
    assert fresh(player.state, LinearProjector()).segments == (), "a pair lies across a cut"
    player.feed(i.Undo())
    assert len(fresh(player.state, LinearProjector()).segments) > 3


@pytest.mark.parametrize("name", FIELDS)
def test_a_chained_list_reads_like_a_tuple(name):
    player = Editor().play([("push_many", 44, n) for n in range(5)])
    chained = fresh(player.state, LinearProjector()).values(name)
    plain = tuple(chained)
    assert len(chained) == len(plain)
    assert chained == plain
    for place in (*range(len(plain)), *range(-len(plain), 0)):
        assert chained[place] == plain[place]
    for start, stop in ((0, 5), (30, 70), (-3, None), (None, None), (10, 10), (90, 20)):
        assert chained[start:stop] == plain[start:stop]
        assert chained[start:stop:-1] == plain[start:stop:-1]
        assert chained[start:stop:3] == plain[start:stop:3]
    for outside in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            chained[outside]


# -- splices -----------------------------------------------------------------------------------

SHORT = st.lists(st.integers(0, 3), max_size=8)


@given(SHORT, SHORT)
def test_a_splice_turns_the_old_list_into_the_new_one(old, new):
    splice = _splice(Vector.of(old), new, None, "included")
    assert list(spliced(Vector.of(old), splice)) == new


@given(SHORT, SHORT)
def test_a_splice_keeps_the_longest_prefix_then_the_longest_suffix(old, new):
    splice = _splice(Vector.of(old), new, None, "included")
    keep = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    assert splice.keep == (min(len(old), len(new)) if keep is None else keep)
    rest_old, rest_new = old[splice.keep :], new[splice.keep :]
    suffix = len(rest_old) - splice.cut
    assert suffix == len(rest_new) - len(splice.put)
    assert rest_old[len(rest_old) - suffix :] == rest_new[len(rest_new) - suffix :]
    if splice.cut and splice.put:
        assert rest_old[splice.cut - 1] != splice.put[-1], "the suffix could be longer"


@given(histories, settings_of_a_session)
@examples(40)
def test_what_a_request_says_does_not_depend_on_what_was_kept(moves, setting):
    """A fresh reducer, and one that was last asked about a later state, give the same bytes."""
    player = Player(*setting).play(moves)
    asked = [
        (before, input, made)
        for before, input, made in player.transitions
        if any(isinstance(event, ModelRequested) for event in made.events)
    ]
    confused = Reducer()
    for before, input, made in reversed(asked):
        assert step(before, input, Reducer()).events == made.events
        assert step(before, input, confused).events == made.events


# -- the digest is part of the format ----------------------------------------------------------


def session_of(count: int) -> Core:
    """A plain talk of `count` items: every fourth is a turn with a call, answered by the next."""
    core = started()
    items = []
    for n in range(count):
        if n % 4 == 2:
            call = ToolCall(f"call_{n}", "add", Json(f'{{"x":{n},"y":1}}'))
            items.append(ContextItem.assistant("", (call,)))
        elif n % 4 == 3:
            items.append(ContextItem.tool_result(f"call_{n - 1}", "add", str(n)))
        else:
            items.append(ContextItem.user(f"item {n}"))
    core.feed(i.PushItems(tuple(items)))
    return core


GOLDEN = {
    1: ((), "f130a32075323cb26c6f7917803cf104"),
    32: ((), "ff5aa6e79cb59f15c4d436ca8a45d5f2"),
    33: ((32,), "231d1c2d2e583a08c4c74e7a96c68afb"),
    100: ((32, 64, 96), "2e9daec54a64508dbcfdf628b295c982"),
}
"""By the number of items: where the cuts are, and the digest of the request. Format 1: a change
here is a change of the format, and logs of before it no longer redrive."""


@pytest.mark.parametrize("count", GOLDEN)
def test_the_cuts_and_the_digest_are_those_of_format_1(count):
    core = session_of(count)
    projected = fresh(core.state, LinearProjector())
    cuts = tuple(segment.items[-1].id for segment in projected.segments)
    assert (cuts, core.reducer.draw(core.state).digest) == GOLDEN[count]


def test_a_digest_chains_the_digests_of_the_parts():
    """R8: the closed segments, the open tail, tools and parameters; each BLAKE2b-128."""
    core = session_of(100)
    state = core.state
    projected = fresh(state, LinearProjector())
    assert len(projected.segments) == 3

    def digest(raw: bytes) -> bytes:
        return hashlib.blake2b(raw, digest_size=16).digest()

    parts = []
    for segment in (*projected.segments, projected.tail):
        messages = LinearProjector().project(segment.items).messages
        parts.append(digest(b"".join(digest(encode(message)) for message in messages)))
    parts += [digest(encode(state.parts.tools)), digest(state.parts.params.encode())]
    assert core.reducer.draw(state).digest == digest(b"".join(parts)).hex()


def cuts_of(*items: ContextItem) -> list[int]:
    player = started()
    player.feed(i.PushItems(items))
    return [segment.items[-1].id for segment in fresh(player.state, LinearProjector()).segments]


def talk(count: int) -> list[ContextItem]:
    return [ContextItem.user(f"item {n}") for n in range(count)]


def test_where_a_segment_is_closed():
    """At least 32 items; when no call of it is open, or before the next turn with calls."""
    call, other = MOVE_CALL, ToolCall("u8", "add", Json("{}"))
    asks, answers = ContextItem.assistant("", (call,)), ContextItem.tool_result("u9", "add", "3")
    asks_more = ContextItem.assistant("", (other,))
    assert cuts_of(*talk(32)) == [], "the next item decides"
    assert cuts_of(*talk(33)) == [32]
    assert cuts_of(*talk(31), asks, answers, *talk(1)) == [33], "the pair stays together"
    assert cuts_of(*talk(31), asks, *talk(20)) == [], "its call is open"
    assert cuts_of(*talk(31), asks, *talk(20), asks_more) == [52], "and given up"
    assert cuts_of(*talk(31), asks, *talk(20), asks_more, answers) == [], "but it came"
    assert cuts_of(asks, *talk(519), answers) == [], "it came after all, so nothing is split"
    assert cuts_of(asks, *talk(519))[:2] == [512], "no answer keeps a segment open for ever"
    assert cuts_of(*talk(32), asks.with_state("excluded"), *talk(40)) == [32], "whatever its state"
