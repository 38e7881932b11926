"""The set of texts against a list: versions share what they hold, and none sees another's."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from reducers.vocabulary.persistent import NO_TEXTS, TextSet
from tests.properties.histories import examples

TEXTS = [f"c{n}" for n in range(6)]
INSERTS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(TEXTS)), max_size=25)


def same(texts, plain):
    assert list(texts) == plain
    assert len(texts) == len(plain)
    assert [text for text in TEXTS if text in texts] == sorted(plain)


@given(INSERTS)
@examples(200)
def test_every_version_stays_what_it_was(inserts):
    """Each insert takes any version there is, so that histories fork at every place."""
    versions = [(NO_TEXTS, [])]
    for which, text in inserts:
        texts, plain = versions[which % len(versions)]
        grown = plain if text in plain else [*plain, text]
        versions.append((texts.insert(text), grown))
    for texts, plain in versions:
        same(texts, plain)
        assert texts == TextSet.of(reversed(plain))
        assert hash(texts) == hash(TextSet.of(plain))


def test_sets_differ_by_what_they_hold():
    one = TextSet.of(["a", "b"])
    assert one != TextSet.of(["a", "c"])
    assert one != TextSet.of(["a"])
    assert one != {"a", "b"}
    assert list(TextSet.of(["b", "a", "b"])) == ["b", "a"]


def test_what_is_there_already_changes_nothing():
    one = TextSet.of(["a"])
    assert one.insert("a") is one


def test_threads_that_grow_one_version_do_not_see_each_other():
    start = TextSet.of(["a"])
    grown = {}

    def grow(name):
        texts = start
        for n in range(200):
            texts = texts.insert(f"{name}{n}")
        grown[name] = texts

    threads = [threading.Thread(target=grow, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(start) == ["a"]
    for name, texts in grown.items():
        assert list(texts) == ["a", *(f"{name}{n}" for n in range(200))]
        assert len([text for text in texts if text in texts]) == 201
