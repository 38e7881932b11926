"""Figures: what a counter makes of contents, and what a provider's reports teach (kernel.md 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers.machines.calibration import UNTAUGHT, Calibration
from reducers.tokens import (
    BytesPerToken,
    Calibrating,
    tool_figures,
    uncounted_item,
    uncounted_message,
)
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    Content,
    JsonContent,
    Text,
    TextBlock,
    ToolCall,
    blobs_of,
    content_len,
)
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.messages import Message
from reducers.vocabulary.models import ModelInfo, ModelResponse, Overrun, Usage
from reducers.vocabulary.tools import ToolSpec
from tests.properties.strategies import values_of
from tests.reducers.driving import Core, started, told

COUNTER = BytesPerToken()
PICTURE = Blob("image/png", "A" * 4000)
CALL = ToolCall("c", "peek", Json('{"path":"src/a.rs"}'))


def taught(estimated: int, reported: int, observations: int = 1) -> Calibration:
    return Calibration(observations, estimated, reported)


# -- bytes per token ---------------------------------------------------------------------------


@pytest.mark.accepts(230, 238, 239, 240, 241, 303)
@pytest.mark.parametrize(
    ("content", "tokens", "uncounted"),
    [
        (Text(""), 0, 0),
        (Text("abcd"), 1, 0),
        (Text("abcde"), 2, 0),
        (Text("żółw"), 2, 0),
        (JsonContent(Json('{"a":1}')), 2, 0),
        (PICTURE, 0, 1),
        (Blocks((TextBlock(Text("abcde")), TextBlock(PICTURE), TextBlock(PICTURE))), 2, 2),
        (Blocks((TextBlock(Text("abc")), CallBlock(CALL))), 7, 0),
    ],
)
def test_what_a_content_costs(content, tokens, uncounted):
    assert COUNTER.count(content) == tokens
    assert COUNTER.uncounted(content) == uncounted
    assert Calibrating().uncounted(content) == uncounted


@given(values_of(Content), st.integers(-2, 9))
def test_bytes_per_token_is_a_division_rounded_up(content, per_token):
    counter = BytesPerToken(per_token)
    size = content_len(content) - sum(blob.wire_len() for blob in blobs_of(content))
    assert counter.count(content) == -(-size // max(1, per_token))


@pytest.mark.accepts(230, 232, 233, 234)
def test_the_worked_figure_of_an_assistant_turn():
    item = ContextItem.assistant("looking", (CALL,)).with_reasoning("i should look")
    assert COUNTER.count_item(item) == 2 + 1 + 5 + 4
    message = Message("assistant", Text("looking"), Text("i should look"), (CALL,))
    assert COUNTER.count_message(message) == 12
    signed = ToolCall("c", "peek", CALL.args, Json('{"s":1}'))
    assert COUNTER.count_item(ContextItem.assistant("looking", (signed,))) == 2 + 1 + 5 + 2
    assert COUNTER.count_item(ContextItem.file("src/a.rs", "fn a() {}")) == 3
    assert COUNTER.count_message(Message("user", None)) == 0


@pytest.mark.accepts(268)
def test_pieces_of_a_turns_reasoning_are_unpriced_too():
    item = ContextItem.assistant(PICTURE).with_reasoning(PICTURE)
    assert uncounted_item(COUNTER, item) == 2
    assert uncounted_message(COUNTER, Message("assistant", PICTURE, PICTURE)) == 2
    assert uncounted_message(COUNTER, Message("user")) == 0


def test_tools_cost_their_schema_and_their_words():
    tools = (ToolSpec("add", "Add.", Json("{" + " " * 6 + "}")), ToolSpec("b", "B", Json("{}")))
    assert tool_figures(COUNTER, tools) == (2, 2, 1, 1)


# -- learning ----------------------------------------------------------------------------------


@pytest.mark.accepts(242, 243)
def test_scales():
    assert UNTAUGHT.scale == 1.0
    assert taught(3000, 4000).scale == pytest.approx(4 / 3)
    assert Calibrating().price(100, UNTAUGHT) == 100
    assert Calibrating().price(100, taught(3000, 4000)) == 133
    assert Calibrating().price(1, taught(2, 3)) == 2, "halves go up"
    assert BytesPerToken().price(100, taught(3000, 4000)) == 100
    assert taught(1, 1000).scale == 10.0
    assert taught(1000, 1).scale == 0.1


@pytest.mark.accepts(243, 246, 247, 254, 255)
@pytest.mark.parametrize(
    ("estimated", "reported", "own"),
    [
        (3000, 4000, 3000),
        (256, 256, 256),
        (255, 3000, 0),
        (3000, 255, 0),
        (0, 4000, 0),
        (4000, 0, 0),
        (300, 3000, 300),
        (300, 3001, 0),
        (3000, 300, 3000),
        (3001, 300, 0),
        (31, 933, 0),
        (1000, 200, 0),
        (200, 1000, 0),
        (1000, 10**15, 0),
        (2**64 - 1, 2**64 - 1, 2**64),
        (2**64 - 1, 1, 0),
        (1, 2**64 - 1, 0),
    ],
)
def test_what_a_report_teaches(estimated, reported, own):
    assert Calibrating().teaches(UNTAUGHT, estimated, reported) == own
    assert BytesPerToken().teaches(UNTAUGHT, estimated, reported) == 0


def test_an_estimate_is_taken_back_to_the_counters_own_units():
    assert Calibrating().teaches(taught(1000, 2000), 2000, 2000) == 1000


# -- in a session ------------------------------------------------------------------------------


def asked(text: str, **how) -> Core:
    core = started(tools=(), **how)
    core.push(text)
    core.feed(i.RunTurn())
    return core


def model_of(core: Core) -> Calibration:
    return core.reducer.calibration(core.state)


@pytest.mark.accepts(158, 259, 260)
def test_a_report_corrects_what_is_counted_from_then_on():
    core = asked("x" * 4000)
    core.say("done", Usage(2000, 1))
    assert model_of(core) == taught(1000, 2000)
    assert core.state.context.items[0].tokens == 1000, "what is stored does not move"
    core.push("y" * 400)
    assert core.state.context.items[2].tokens == 200
    before = core.state.context.tokens
    step = core.feed(i.RecountItems())
    assert [told(event) for event in step.events] == [
        f"context.recounted {before}>{core.state.context.tokens}"
    ]
    assert core.state.context.items[0].tokens == 2000
    assert [moved.id for moved in step.events[0].moved] == [1], "the others were counted since"


def test_a_recount_tells_the_sum_of_what_is_sent():
    core = asked("x" * 4000)
    core.push("y" * 4000)
    core.feed(i.SetState((2,), "excluded"))
    core.say("", Usage(2000, 1))
    recounted = core.feed(i.RecountItems()).events[0]
    assert (recounted.tokens_before, recounted.tokens_after) == (1000, 2000)
    assert [moved.id for moved in recounted.moved] == [1, 2]
    assert (core.state.context.tokens, core.state.context.withheld) == (2000, 2000)


@pytest.mark.accepts(340, 341)
def test_undo_measures_what_comes_back_anew():
    core = asked("x" * 4000)
    core.feed(i.SetState((1,), "excluded"))
    core.say("", Usage(2000, 1))
    core.feed(i.Undo())
    step = core.feed(i.Undo())
    assert [told(event).split(" ")[0] for event in step.events] == [
        "context.undone",
        "context.recounted",
    ]
    assert core.state.context.items[0].tokens == 2000


def test_what_a_model_taught_is_that_models():
    core = asked("x" * 4000)
    core.say("done", Usage(2000, 1))
    core.feed(i.PartsDescribed(model=ModelInfo("scripted", "other", 8000)))
    assert model_of(core) == UNTAUGHT
    core.feed(i.PartsDescribed(model=ModelInfo("scripted", "m1", 9000)))
    assert model_of(core) == taught(1000, 2000)


def test_a_report_is_about_the_model_that_was_asked():
    core = asked("x" * 4000)
    core.feed(i.PartsDescribed(model=ModelInfo("scripted", "other", 8000)))
    core.say("done", Usage(2000, 1))
    assert model_of(core) == UNTAUGHT
    assert [name for name, _ in core.state.calibrations.models] == ["scripted/m1"]


@pytest.mark.accepts(270)
def test_a_request_with_something_unpriced_teaches_nothing():
    core = started(tools=())
    core.feed(i.PushItems((ContextItem.user(PICTURE), ContextItem.user("x" * 4000))))
    core.feed(i.RunTurn())
    step = core.say("done", Usage(2000, 1))
    assert not any(told(event).startswith("[counter") for event in step.events)
    assert core.state.requests.uncounted == 1


@pytest.mark.accepts(272, 274)
def test_a_refusal_with_an_overrun_teaches_the_refused_size():
    core = asked("x" * 4000)
    failure = i.Failure("too long", "model.too_long", Overrun(1500, 1200))
    step = core.feed(i.ModelSettled(core.effect(), failure=failure))
    assert model_of(core) == taught(1000, 1500)
    assert [told(event) for event in step.events] == ["[counter.observed]", "model.failed", ">idle"]
    assert step.events[1].overrun == Overrun(1500, 1200)
    assert step.raised.__cause__.overrun == Overrun(1500, 1200)


def test_an_absurd_report_is_noted_and_teaches_nothing():
    core = asked("x" * 4000)
    step = core.say("done", Usage(2**63 - 1, 1))
    assert told(step.events[0]) == "[counter.observed]"
    assert model_of(core) == UNTAUGHT


@pytest.mark.accepts(277, 279, 280, 281)
def test_a_request_is_sent_up_to_the_limit_and_refused_above_it():
    exact = started(tools=(), model=ModelInfo("p", "m", 1000))
    exact.push("x" * 4000)
    exact.feed(i.RunTurn())
    assert exact.state.requests.in_flight
    over = started(tools=(), model=ModelInfo("p", "m", 999))
    over.push("x" * 4000)
    step = over.feed(i.RunTurn())
    failed = step.events[-2]
    assert failed.overrun == Overrun(1000, 999)
    for model, config in (
        (ModelInfo("p", "m", 0), {}),
        (ModelInfo("p", "m"), {}),
        (ModelInfo("p", "m", 10), {"refuse_oversized_requests": False}),
    ):
        core = started(tools=(), model=model, **config)
        core.push("x" * 4000)
        core.feed(i.RunTurn())
        assert core.state.requests.in_flight


@pytest.mark.accepts(304)
def test_a_requests_figure_is_messages_and_tools():
    core = started(tools=(ToolSpec("add", "Add.", Json("{}")),))
    core.feed(i.PushItems((ContextItem.file("a.txt", "abcd"),)))
    core.feed(i.RunTurn())
    assert core.state.requests.estimated == 3 + 1 + 2, "the label is sent, so it counts"
    assert ModelResponse.of_text("x").usage is None
