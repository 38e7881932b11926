"""The pairing law over one request after another: never less strict than over each alone."""

import itertools

import pytest

from nachalnik.redrawing import PairsAgain
from reducers.linear import pairing_problem
from reducers.projection import Chained
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.json import EMPTY_OBJECT
from reducers.vocabulary.messages import Message

SAID = Message("user", Text("hello"))


def asks(*ids: str) -> Message:
    calls = tuple(ToolCall(id, "add", EMPTY_OBJECT) for id in ids)
    return Message("assistant", None, tool_calls=calls)


def answers(id: str) -> Message:
    return Message("tool", Text("3"), tool_call_id=id, name="add")


class Request(Chained):
    """One that shares its beginning with any other request of the same beginning."""

    __slots__ = ("begin", "whole")

    def __init__(self, begin: tuple[Message, ...], tail: tuple[Message, ...]) -> None:
        self.begin = begin
        self.whole = (*begin, *tail)

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self):
        return iter(self.whole)

    def __getitem__(self, place):
        return self.whole[place]

    def shared(self, other: "Request") -> int:
        return len(self.begin) if self.begin is other.begin else 0


def test_a_request_alone_is_judged_as_the_law_has_it():
    for messages in ((asks("a"), SAID), (answers("a"),), (asks("a"), answers("a"), asks("a"))):
        assert PairsAgain().problem(messages) == pairing_problem(messages) is not None


TAILS = [(), (SAID,), (answers("b"),), (answers("b"), asks("a"), answers("a")), (asks("c"),)]


@pytest.mark.parametrize("tails", list(itertools.permutations(TAILS, 2)))
@pytest.mark.parametrize("end", [(), (asks("b"),)])
def test_what_two_requests_share_hides_nothing(end, tails):
    """Where the shared stretch ends in the middle of an exchange, and where it does not."""
    begin = (SAID, asks("a"), answers("a"), *end)
    pairs = PairsAgain()
    for tail in tails:
        messages = Request(begin, tail)
        is_broken = pairing_problem(messages) is not None
        assert (pairs.problem(messages) is not None) == is_broken, tail
