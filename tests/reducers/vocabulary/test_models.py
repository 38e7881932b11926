"""Usage as it settles, and answers in their two forms."""

import pytest

from reducers.vocabulary.content import Blocks, CallBlock, Text, TextBlock, ToolCall
from reducers.vocabulary.errors import ProviderError, TooLong
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelInfo, ModelResponse, Overrun, Usage

CALL, OTHER = ToolCall("c", "add", Json("{}")), ToolCall("d", "add", Json("{}"))


@pytest.mark.accepts(441, 442)
@pytest.mark.parametrize(
    ("reported", "settled"),
    [
        (Usage(1000, 5, None, 9000), Usage(10_000, 5, None, 9000)),
        (Usage(1000, 5, None, 1000), Usage(1000, 5, None, 1000)),
        (Usage(1000, 5, 2, 400), Usage(1000, 5, 2, 400)),
        (Usage(None, 5, None, 9000), Usage(None, 5, None, 9000)),
        (Usage(1000), Usage(1000)),
        (Usage(), Usage()),
    ],
)
def test_usage_settles_to_an_input_that_holds_its_cached_part(reported, settled):
    assert reported.settled() == settled


@pytest.mark.accepts(15, 16, 17, 18)
def test_an_answer_in_slots_and_as_blocks():
    assert ModelResponse.of_text("x") == ModelResponse(content=Text("x"), stop="end_turn")
    slots = ModelResponse.of_calls(CALL)
    assert (slots.stop, slots.all_calls()) == ("tool_use", (CALL,))
    made = Blocks((CallBlock(OTHER), TextBlock(Text("x")), CallBlock(CALL)))
    blocks = ModelResponse.of_blocks(made)
    assert (blocks.stop, blocks.all_calls()) == ("tool_use", (OTHER, CALL))
    assert (blocks.calls, blocks.reasoning) == ((), None)
    text = ModelResponse.of_blocks(Blocks((TextBlock(Text("x")),)))
    assert (text.stop, text.all_calls()) == ("end_turn", ())


def test_a_model_is_named_by_provider_and_model():
    assert str(ModelInfo("p", "m")) == "p/m"


@pytest.mark.accepts(205)
def test_an_overrun_is_found_in_the_chain_of_causes():
    long = TooLong(Overrun(9001, 8000))
    assert "9001" in str(long)
    assert "8000" in str(long)
    assert "not sent" in str(long)
    assert "limit" not in str(TooLong(Overrun(9001)))
    error = ProviderError("no")
    assert TooLong.of(error) is None
    error.__cause__ = ValueError("wrapped")
    error.__cause__.__cause__ = long
    assert TooLong.of(error) is long
    long.__cause__ = error
    assert TooLong.of(ProviderError("no")) is None
