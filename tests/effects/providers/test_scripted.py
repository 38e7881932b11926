"""The scripted provider."""

import json

import pytest

from effects.ports import DeltaSink, Provider, ProviderFailure
from effects.providers.scripted import ScriptedProvider
from reducers.vocabulary.content import Blocks, Text, TextBlock, ToolCall
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.models import Delta, ModelInfo, ModelResponse, Overrun

ASK = ModelRequest((Message("user", Text("go")),))
pytestmark = pytest.mark.anyio


async def ask(provider):
    deltas = []
    sink = DeltaSink("1.0", lambda _, delta: deltas.append(delta))
    return await provider.respond(ASK, sink), deltas


async def test_replies_come_in_their_order_and_are_streamed_whole():
    calls = ModelResponse.of_calls(ToolCall("c1", "add", "{}"))
    blocks = ModelResponse.of_blocks(Blocks((TextBlock(Text("a")), TextBlock(Text("b")))))
    provider = ScriptedProvider(["one", calls, blocks])
    assert await ask(provider) == (ModelResponse.of_text("one"), [Delta("text", "one")])
    assert await ask(provider) == (calls, [])
    assert await ask(provider) == (blocks, [Delta("text", "a\nb")])
    assert provider.remaining() == 0
    assert provider.requests == [ASK] * 3


async def test_a_reply_may_be_a_function_of_the_request():
    async def later(request):
        return f"later {len(request.messages)}"

    provider = ScriptedProvider([lambda request: request.messages[0].content.text, later])
    assert [(await ask(provider))[0].content.text for _ in range(2)] == ["go", "later 1"]


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: lambda request: error])
async def test_an_exception_is_raised(wrap):
    error = TooLong(Overrun(9, 8))
    provider = ScriptedProvider([wrap(error), "next"])
    with pytest.raises(TooLong) as raised:
        await ask(provider)
    assert raised.value is error
    assert (await ask(provider))[0] == ModelResponse.of_text("next")


async def test_an_empty_script_says_so():
    provider = ScriptedProvider(["one"])
    await ask(provider)
    with pytest.raises(ProviderFailure, match="no reply left for request 2") as failure:
        await ask(provider)
    assert failure.value.code == "model.script_empty"


async def test_nonsense_in_a_script_is_named():
    with pytest.raises(TypeError, match="int"):
        await ask(ScriptedProvider([lambda request: 3]))


async def test_what_it_says_of_itself():
    provider = ScriptedProvider()
    assert isinstance(provider, Provider)
    assert provider.info() == ModelInfo("scripted", "scripted", 128000, tool_calling=True)
    other = ModelInfo("x", "y")
    assert ScriptedProvider(info=other).info() is other
    assert json.loads(provider.render(ASK)) == {
        "model": "scripted",
        "messages": [{"role": "user", "content": "go"}],
    }
