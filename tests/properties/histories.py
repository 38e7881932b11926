"""Histories for properties: short lists of moves to shrink to, and long ones."""

from hypothesis import settings
from hypothesis import strategies as st

from tests.properties.player import ANYTHING, CONFIGS, POLICIES, Move


def examples(count: int, **how: int) -> settings:
    """So many examples for each hundred of the profile in force."""
    return settings(max_examples=max(5, count * settings.default.max_examples // 100), **how)


NUMBERS = st.integers(0, 60)


def moves_of(*verbs: str, max_size: int = 40) -> st.SearchStrategy[list[Move]]:
    """Lists of any size are hardly ever long, so half of these must be."""
    move = st.tuples(st.sampled_from(verbs), NUMBERS, NUMBERS)
    long = st.lists(move, min_size=max_size // 2, max_size=max_size)
    return st.lists(move, max_size=max_size // 4) | long | long


histories = moves_of(*ANYTHING)
"""Everything that can happen to a session, with a bent to going on."""

settings_of_a_session = st.tuples(
    st.integers(0, len(CONFIGS) - 1), st.integers(0, len(POLICIES) - 1)
)
