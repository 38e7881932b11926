"""Pure seams of the user's: what they may do, and what becomes of one that fails."""

import hashlib

import pytest
from attrs import evolve as evolve_attrs

from reducers import Reducer, root, step, work
from reducers.linear import LinearProjector, Projection
from reducers.reducer import Projector
from reducers.tokens import BytesPerToken, Calibrating
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Text
from reducers.vocabulary.errors import InvalidInput, SeamFailed, StaleEffect
from reducers.vocabulary.events import ModelRequested, Splice, TurnInterrupted
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.messages import Message
from reducers.vocabulary.models import ModelResponse, Usage
from reducers.vocabulary.phases import Idle
from tests.properties.strategies import encode
from tests.reducers.driving import Core, started, told


class Latest:
    """A projector that sends the last two things people said."""

    def project(self, items):
        whole = LinearProjector().project([one for one in items if one.source == "user"][-2:])
        return evolve_attrs(whole, repairs=("the rest was left out",))


def with_seams(projector=None, counter=None) -> Core:
    core = started()
    core.reducer = Reducer(projector, counter)
    return core


# -- projectors --------------------------------------------------------------------------------


def test_a_projector_of_ones_own_decides_what_is_sent():
    core = with_seams(Latest())
    assert isinstance(Latest(), Projector)
    core.push("one", "two", "three")
    step = core.feed(i.RunTurn())
    request = next(event for event in step.events if isinstance(event, ModelRequested))
    assert (request.messages, request.items.put) == (2, (2, 3))
    assert request.repairs.put == ("the rest was left out",)
    drawn = work(core.state, step.effects[0], core.reducer)
    assert [message.content.text for message in drawn.request.messages] == ["two", "three"]
    core.say("well")
    core.push("four")
    again = core.feed(i.RunTurn()).events[2]
    assert (again.items.cut, again.items.put) == (2, (3, 5))
    assert again.repairs == Splice(keep=1)


def test_its_digest_covers_messages_tools_and_parameters():
    core = with_seams(Latest())
    core.push("one")

    def digest(raw):
        return hashlib.blake2b(raw, digest_size=16).digest()

    parts = core.state.parts
    expected = [
        *(digest(encode(one)) for one in core.reducer.draw(core.state).request.messages),
        digest(encode(parts.tools)),
        digest(parts.params.encode()),
    ]
    assert core.reducer.draw(core.state).digest == digest(b"".join(expected)).hex()


class Returns:
    """A projector that returns what it was given."""

    def __init__(self, **lists):
        made = {"messages": (Message("user", Text("x")),), "included": (1,), "skipped": ()}
        self.made = Projection(**{**made, **lists})

    def project(self, items):
        return self.made


@pytest.mark.parametrize(
    "projector",
    [
        Returns(messages=("text",)),
        Returns(included=("1",)),
        Returns(included=None),
        Returns(skipped=(1,)),
        Returns(repairs=(1,)),
        Returns(messages=(Message("tool", Text("x"), tool_call_id="c"),)),
    ],
)
def test_a_projector_that_talks_nonsense_is_a_failed_step(projector):
    core = with_seams(projector)
    core.push("go")
    step = core.feed(i.RunTurn())
    assert [told(event) for event in step.events][1:] == [">requesting", "step.failed", ">idle"]
    assert isinstance(step.raised, SeamFailed)


def test_a_projector_that_raises_is_a_failed_step_with_its_own_error():
    class Broken:
        def project(self, items):
            raise LookupError("no such item")

    core = with_seams(Broken())
    core.push("go")
    step = core.feed(i.RunTurn())
    assert isinstance(step.raised, LookupError)
    assert step.events[-2].error == "no such item"
    assert core.state.loop.phase == Idle()


def test_a_request_that_draws_otherwise_is_not_sent():
    core = started()
    core.push("go")
    (effect,) = core.feed(i.RunTurn()).effects
    with pytest.raises(StaleEffect, match="digest"):
        work(core.state, effect, Reducer(Returns()))


# -- counters ----------------------------------------------------------------------------------


class Gives(BytesPerToken):
    def __init__(self, figure):
        super().__init__()
        self.figure = figure

    def count_item(self, item):
        return self.figure


@pytest.mark.parametrize("figure", [-1, 1.5, float("nan"), None, "3", True, 2**63])
def test_a_counter_that_talks_nonsense_is_refused_on_a_push(figure):
    core = with_seams(counter=Gives(figure))
    before = core.state
    with pytest.raises(SeamFailed, match="integer"):
        core.push("go")
    assert core.state is before


def test_a_counter_that_fails_to_price_a_request_is_a_failed_step():
    class Broken(BytesPerToken):
        def count_message(self, message):
            raise ZeroDivisionError("no figure")

    core = with_seams(counter=Broken())
    core.push("go")
    step = core.feed(i.RunTurn())
    assert [told(event) for event in step.events][-2:] == ["step.failed", ">idle"]
    assert isinstance(step.raised, ZeroDivisionError)


def test_an_answer_is_never_lost_to_a_counter_that_fails_to_learn():
    class Broken(Calibrating):
        def teaches(self, calibration, estimated, reported):
            raise ValueError("I never learn")

    core = with_seams(counter=Broken())
    core.push("go")
    core.feed(i.RunTurn())
    step = core.say("done", Usage(12, 3))
    assert "context.added 2 o" in [told(event) for event in step.events]
    assert core.state.context.items[1].content == Text("done")
    assert str(step.raised) == "I never learn"


def test_another_counter_starts_to_learn_anew():
    core = started(tools=())
    core.push("x" * 4000)
    core.feed(i.RunTurn())
    core.say("done", Usage(2000, 1))
    core.feed(i.PartsDescribed(counter="mine:Counter"))
    assert core.reducer.calibration(core.state).observations == 0


# -- faults and inputs that cannot be ----------------------------------------------------------


def test_rules_that_never_fall_silent_are_a_fault_that_names_them(monkeypatch):
    def chatter(draft):
        draft.say(TurnInterrupted())

    monkeypatch.setitem(root.RULES, Idle, (chatter,))
    with pytest.raises(AssertionError, match=r"never fall silent: .*chatter"):
        started()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"response": ModelResponse.of_text("x"), "failure": i.Failure("no")},
    ],
)
def test_a_settled_request_has_one_outcome(given):
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    with pytest.raises(InvalidInput, match="either a response or a failure"):
        core.feed(i.ModelSettled(core.effect(), **given))


def test_a_step_needs_no_reducer_of_its_own():
    core = started()
    made = step(core.state, i.PushItems((ContextItem.user("go"),)))
    assert made.events[0].item.tokens == 1
