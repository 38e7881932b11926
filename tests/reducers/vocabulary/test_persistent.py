"""The vector against a list: whatever is made of a version, every version stays what it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers.vocabulary.persistent import WIDTH, Vector
from tests.properties.histories import examples

SIZES = st.integers(0, 3 * WIDTH) | st.sampled_from([WIDTH**2 - 1, WIDTH**2, WIDTH**2 + WIDTH + 1])
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "extend", "set", "take", "of"]),
        st.integers(0, 9),
        st.integers(0, 2 * WIDTH**2),
    ),
    max_size=12,
)


def changed(vector, plain, verb, n):
    """One operation, on the vector and on the list."""
    match verb:
        case "append":
            return vector.append(n), [*plain, n]
        case "extend":
            more = list(range(n, n + n % (2 * WIDTH)))
            return vector.extend(more), [*plain, *more]
        case "take":
            count = n % (len(plain) + 1)
            return vector.take(count), plain[:count]
        case "of":
            return Vector.of(plain), list(plain)
        case _ if plain:
            place = n % len(plain)
            return vector.set(place, n), [*plain[:place], n, *plain[place + 1 :]]
        case _:
            return vector, plain


def same(vector, plain):
    assert list(vector) == plain
    assert len(vector) == len(plain)
    assert vector == Vector.of(plain)
    assert hash(vector) == hash(Vector.of(plain))
    assert [one for leaf in vector.leaves() for one in leaf] == plain
    for place in {0, len(plain) // 2, len(plain) - 1, -1} if plain else ():
        assert vector[place] == plain[place]
    for start, stop in ((0, None), (len(plain) // 2, None), (3, 40), (WIDTH, 2 * WIDTH)):
        assert list(vector.slice(start, stop)) == plain[start:stop]


@given(SIZES, OPERATIONS)
@examples(150)
def test_every_version_stays_what_it_was(size, operations):
    versions = [(Vector.of(range(size)), list(range(size)))]
    for verb, which, n in operations:
        vector, plain = versions[which % len(versions)]
        versions.append(changed(vector, plain, verb, n))
    for vector, plain in versions:
        same(vector, plain)
    for mine, my_plain in versions:
        for theirs, their_plain in versions:
            assert (mine == theirs) == (my_plain == their_plain)
            if mine.extends(theirs):
                assert my_plain[: len(their_plain)] == their_plain


@given(SIZES, st.integers(1, 2 * WIDTH + 3))
def test_a_grown_vector_is_seen_to_extend_the_one_before(size, more):
    """The hint must not miss where it matters: plain growth."""
    old = Vector.of(range(size))
    grown = old
    for value in range(more):
        grown = grown.append(value)
        assert grown.extends(old)
    assert old.extends(old)
    assert not old.extends(grown)


def test_an_abandoned_end_is_no_extension():
    """The tree still holds what `take` left behind; the hint must not be taken in by it."""
    old = Vector.of(range(3 * WIDTH))
    other = old.take(WIDTH + 8).extend(range(900, 900 + WIDTH + WIDTH - 8))
    assert len(other) == len(old)
    assert not other.extends(old)
    assert not old.extends(other)


@pytest.mark.parametrize("outside", [3, -4, 99])
def test_there_is_nothing_outside(outside):
    vector = Vector.of("abc")
    with pytest.raises(IndexError):
        vector[outside]
    with pytest.raises(IndexError):
        vector.set(outside, "x")


def test_taking_copies_nothing_that_a_caller_could_change():
    vector = Vector.of(range(100))
    assert vector.take(100) is vector
    assert vector.take(-1) == Vector.of(())
    assert vector != list(range(100))


# -- many at once ------------------------------------------------------------------------------


def test_extending_by_many_leaves():
    count = 3 * WIDTH**2 + 5
    for size in (0, 1, WIDTH, WIDTH + 1):
        same(Vector.of(range(size)).extend(range(size, count)), list(range(count)))


@pytest.mark.parametrize("size", [0, 1, WIDTH, 5 * WIDTH + 3])
def test_padding_reaches_a_length(size):
    vector = Vector.of(range(size))
    assert vector.padded(size, None) is vector
    assert vector.padded(-1, None) is vector
    same(vector.padded(size + 70, None), [*range(size), *[None] * 70])
