"""A request as a body: what strict servers of this dialect accept, and nothing of it invented."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effects.providers.openai_chat import encode_request
from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    JsonContent,
    ReasoningBlock,
    Text,
    TextBlock,
    ToolCall,
)
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import object_problem
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.tools import ToolSpec

PICTURE = Blob("image/png", "aGk=")
PAPER = Blob("application/pdf", "aGk=")


def messages(*given, **options):
    return encode_request(ModelRequest(given), "m1", **options)["messages"]


def message(*args, **fields):
    """The one message on the wire, or None."""
    found = messages(Message(*args, **fields))
    return found[0] if found else None


def params(text, **options):
    return encode_request(ModelRequest((), params=text), "m1", **options)


# -- messages ------------------------------------------------------------------------------


def test_a_whole_conversation():
    spec = ToolSpec("add", "Add two integers.", '{"type":"object","properties":{}}')
    request = ModelRequest(
        (
            Message("system", Text("Be brief.")),
            Message("user", Text("add 1 and 2")),
            Message("assistant", tool_calls=(ToolCall("c1", "add", '{"x": 1,"y":2}'),)),
            Message("tool", Text("3"), tool_call_id="c1", name="add"),
            Message("assistant", Text("It is 3."), reasoning=Text("easy")),
        ),
        (spec,),
        '{"temperature":0.1}',
    )
    function = {"name": "add", "arguments": '{"x": 1,"y":2}'}
    call = {"id": "c1", "type": "function", "function": function}
    schema = {"type": "object", "properties": {}}
    told = {"name": "add", "description": "Add two integers.", "parameters": schema}
    assert encode_request(request, "m1") == {
        "model": "m1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "add 1 and 2"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "3", "tool_call_id": "c1", "name": "add"},
            {"role": "assistant", "content": "It is 3.", "reasoning_content": "easy"},
        ],
        "tools": [{"type": "function", "function": told}],
        "temperature": 0.1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("blank", [None, Text(""), Text("  \n")])
def test_blank_text_is_not_sent(blank):
    """EMPT-01, W5."""
    call = ToolCall("c1", "add", "{}")
    wire = message("assistant", blank, tool_calls=(call,))
    assert wire["content"] is None
    assert len(wire["tool_calls"]) == 1
    assert message("assistant", blank, reasoning=Text("hm")) is None
    assert message("user", blank) is None
    assert message("system", blank) is None
    blocks = Blocks((TextBlock(blank or Text(" ")), CallBlock(call)))
    assert message("assistant", blocks) == wire
    assert message("assistant", Blocks()) is None


@pytest.mark.parametrize("blank", [None, Text(""), Text(" \n"), Blocks((TextBlock(Text("")),))])
def test_a_tool_without_output_has_a_marker(blank):
    """EMPT-03, W1."""
    assert message("tool", blank, tool_call_id="c1")["content"] == "(no output)"


def test_an_error_result_is_its_text():
    wire = message("tool", Text("boom"), tool_call_id="c1", is_error=True)
    assert wire == {"role": "tool", "content": "boom", "tool_call_id": "c1"}


@pytest.mark.parametrize("role", ["user", "system", "tool", "assistant"])
def test_json_is_its_compact_text(role):
    content = JsonContent('{"id":2512292042121000001,"s":"é"}')
    assert message(role, content)["content"] == content.json


def test_images_of_a_user_are_parts():
    said = Blocks((TextBlock(Text("see")), TextBlock(PICTURE), TextBlock(Text(" ")),
                   TextBlock(PAPER)))  # fmt: skip
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert message("user", PICTURE)["content"] == [image]
    assert message("user", said)["content"] == [
        {"type": "text", "text": "see"},
        image,
        {"type": "text", "text": "[application/pdf, 4B]"},
    ]


def test_without_an_image_content_is_a_plain_string():
    """CH10: what this dialect has no sure part for is named."""
    assert message("user", PAPER)["content"] == "[application/pdf, 4B]"
    blocks = Blocks((TextBlock(Text("a")), TextBlock(PAPER)))
    assert message("user", blocks)["content"] == "a\n[application/pdf, 4B]"


@pytest.mark.parametrize("role", ["tool", "system", "assistant"])
def test_only_users_send_images(role):
    """CH11."""
    assert message(role, PICTURE)["content"] == "[image/png, 4B]"


@pytest.mark.parametrize(
    "args", ["", "[1]", "3", "null", '{"x":1}{"y":2}', '{"x":1,"x":2}', '{"text":"lor', '{"x":NaN}']
)
def test_arguments_that_are_not_one_object_are_sent_as_none(args):
    """SA-07, JSON-05: the model reads the error beside the call."""
    wire = message("assistant", tool_calls=(ToolCall("c1", "add", args),))
    assert wire["tool_calls"][0]["function"]["arguments"] == "{}"


def test_arguments_go_out_as_they_came():
    """JSON-03: digits and blanks."""
    args = '{ "id": 2512292042121000001, "n": -9007199254740993,"f":1.10 }'
    wire = message("assistant", tool_calls=(ToolCall("c 1", "no such tool", args),))
    assert wire["tool_calls"][0]["function"] == {"name": "no such tool", "arguments": args}
    assert wire["tool_calls"][0]["id"] == "c 1"


def test_what_a_vendor_hung_on_a_call_goes_back_with_it():
    """GE13: and nothing another provider put there."""
    mine = ToolCall("a", "f", "{}", '{"extra_content":{"google":{"thought_signature":"c2ln"}}}')
    others = [ToolCall("b", "f", "{}", text) for text in ('{"caller":1}', "[1]", "3", "{")]
    wire = message("assistant", tool_calls=(mine, *others))["tool_calls"]
    assert wire[0]["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert all(set(one) == {"id", "type", "function"} for one in wire[1:])


def test_reasoning_goes_back_under_the_names_asked_for():
    turn = Message("assistant", Text("x"), reasoning=Text("hm"))
    assert messages(turn)[0]["reasoning_content"] == "hm"
    both = messages(turn, reasoning_fields=("reasoning", "reasoning_content"))[0]
    assert (both["reasoning"], both["reasoning_content"]) == ("hm", "hm")
    assert set(messages(turn, reasoning_fields=())[0]) == {"role", "content"}


def test_details_go_back_instead_of_their_text():
    """OR1: unmodified, in their order."""
    details = [{"type": "reasoning.text", "text": "hm", "signature": "c2ln"}, {"type": "x"}]
    extra = json.dumps({"reasoning_details": details, "other": 1})
    wire = message("assistant", Text("x"), reasoning=Text("hm"), extra=extra)
    assert wire == {"role": "assistant", "content": "x", "reasoning_details": details}


def test_a_turn_in_blocks_is_flattened():
    blocks = Blocks(
        (
            ReasoningBlock(Text("hm")),
            TextBlock(Text("a")),
            CallBlock(ToolCall("c1", "f", "{}")),
            ReasoningBlock(Text("so")),
            TextBlock(Text("b")),
        )
    )
    wire = message("assistant", blocks)
    assert (wire["content"], wire["reasoning_content"]) == ("a\nb", "hm\nso")
    assert [call["id"] for call in wire["tool_calls"]] == ["c1"]


# -- parameters and tools ------------------------------------------------------------------


def test_a_parameter_replaces_nothing_that_is_built():
    """CH17."""
    body = params('{"model":"x","messages":[],"tools":[1],"stream":false,"seed":7,"n":null}')
    assert body == {
        "model": "m1",
        "messages": [],
        "seed": 7,
        "n": None,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ('{"include_obfuscation":false}', {"include_usage": True, "include_obfuscation": False}),
        ('{"include_usage":false}', {"include_usage": False}),
        ("null", None),
    ],
)
def test_options_of_the_stream_are_merged(given, sent):
    """CH9; a null takes them out, for a server that knows none."""
    assert params(f'{{"stream_options":{given}}}').get("stream_options") == sent


def test_options_of_the_stream_need_a_stream():
    """CH9."""
    body = params('{"stream_options":{"include_usage":true},"stream":true}', stream=False)
    assert body == {"model": "m1", "messages": []}


@pytest.mark.parametrize("text", ["[]", "", "null", '{"a":NaN}'])
def test_parameters_that_are_no_object_are_refused(text):
    with pytest.raises(InvalidInput, match="parameters"):
        params(text)


def test_a_schema_that_is_not_json_is_refused_by_name():
    request = ModelRequest((), (ToolSpec("add", "", "{"),))
    with pytest.raises(InvalidInput, match="'add'"):
        encode_request(request, "m1")


def test_a_tool_without_description_has_none():
    tool = encode_request(ModelRequest((), (ToolSpec("add", ""),)), "m1")["tools"][0]
    assert set(tool["function"]) == {"name", "parameters"}


# -- any request ---------------------------------------------------------------------------

texts = st.sampled_from(["", " ", "a", "é\ud83e", "\n"]).map(Text)
contents = st.none() | texts | st.sampled_from([PICTURE, PAPER, JsonContent("[1]")])
blocks = st.lists(
    st.builds(TextBlock, contents.filter(bool)) | st.builds(ReasoningBlock, texts), max_size=3
).map(lambda found: Blocks(tuple(found)))
calls = st.builds(
    ToolCall,
    st.sampled_from(["a", "b"]),
    st.just("f"),
    st.sampled_from(["{}", "", "{", '{"x":1}']),
    st.sampled_from(["null", "{}", '{"extra_content":1}', "["]),
)
turns = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    contents | blocks,
    reasoning=st.none() | texts,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=st.none() | st.just("a"),
    extra=st.sampled_from(["null", '{"reasoning_details":[]}', "3"]),
)


@given(st.lists(turns, max_size=6))
def test_any_request_is_fit_to_send(given):
    """W5 and W7."""
    body = encode_request(ModelRequest(tuple(given)), "m1")
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    for wire in body["messages"]:
        content = wire["content"]
        parts = content if isinstance(content, list) else [{"text": content}]
        assert all(part.get("text", "x") is None or part.get("text", "x").strip() for part in parts)
        assert content or wire["tool_calls"]
        for call in wire.get("tool_calls", []):
            assert object_problem(call["function"]["arguments"]) is None
    answered = [one for one in given if one.role == "tool"]
    assert len([one for one in body["messages"] if one["role"] == "tool"]) == len(answered)
