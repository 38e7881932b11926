"""One subscription alone: its order, its limit, and what it loses first."""

import math

import pytest

from nachalnik.subscriptions import ModelDelta, Subscription, ToolProgress
from reducers.views import Record
from reducers.vocabulary import events as e
from reducers.vocabulary.models import Delta


def subscription(depth: float) -> Subscription:
    return Subscription(depth, with_bookkeeping=False, leave=lambda _: None)


def record(seq: int) -> Record:
    return Record(seq, 0, e.TurnInterrupted(seq=seq))


def fragment(text: str) -> ModelDelta:
    return ModelDelta("1.0", Delta("text", text))


def words(stream: Subscription) -> list:
    """What is waiting: the number of a record, the text of a fragment."""
    return [word_of(one) for one in stream.drain()]


def word_of(one) -> int | str:
    match one:
        case Record():
            return one.seq
        case ModelDelta():
            return one.delta.text
        case ToolProgress():
            return one.chunk


def test_both_kinds_come_out_in_the_order_in_which_they_went_in():
    stream = subscription(9)
    for one in (record(1), fragment("a"), fragment("b"), record(2), ToolProgress("c", "t", "d")):
        stream.put(one)
    assert word_of(stream.next_or_none()) == 1
    assert word_of(stream.next_or_none()) == "a"
    stream.put(record(3))
    assert words(stream) == ["b", 2, "d", 3]
    assert (stream.next_or_none(), stream.missed) == (None, 0)


@pytest.mark.anyio
async def test_whoever_iterates_gets_the_same_order():
    stream = subscription(9)
    for one in (fragment("a"), record(1), fragment("b")):
        stream.put(one)
    stream.close()
    assert [word_of(one) async for one in stream] == ["a", 1, "b"]


def test_fragments_never_push_a_record_out():
    stream = subscription(3)
    stream.put(record(1))
    for text in "abcdef":
        stream.put(fragment(text))
    stream.put(record(2))
    assert (words(stream), stream.missed) == ([1, "f", 2], 5)


def test_a_fragment_that_comes_when_all_is_records_is_the_one_that_is_lost():
    stream = subscription(2)
    for one in (record(1), record(2), fragment("a"), fragment("b")):
        stream.put(one)
    assert (words(stream), stream.missed) == ([1, 2], 2)


def test_among_records_the_oldest_is_lost():
    stream = subscription(2)
    for one in (record(1), fragment("a"), record(2), record(3)):
        stream.put(one)
    assert (words(stream), stream.missed) == ([2, 3], 2)


def test_without_a_limit_nothing_is_lost():
    stream = subscription(math.inf)
    for number in range(5000):
        stream.put(fragment(str(number)))
    assert words(stream) == [str(number) for number in range(5000)]
    assert stream.missed == 0
