"""The recorded-by-hand streams and what each of them is."""

import json
from pathlib import Path

from effects.providers.openai_chat import ChatDecoder
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.models import ModelResponse, Usage

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "providers" / "openai_chat"

WHOLE = {
    "text": ModelResponse(Text("The three causes are these."), usage=Usage(19, 6, 0, 0)),
    "reasoning": ModelResponse(
        Text("It is 4."), Text("Two and two."), usage=Usage(11, 9, 5, 8), stop="end_turn"
    ),
    "one_call": ModelResponse(
        calls=(ToolCall("call_a7a7", "add", '{"x":1,"y":2}'),),
        stop="tool_use",
        usage=Usage(44, 12, 0, 0),
    ),
    "two_calls_interleaved": ModelResponse(
        calls=(
            ToolCall("call_A", "add", '{"x":1,"y":2}'),
            ToolCall("call_B", "add", '{"x":3,"y":4}'),
        ),
        stop="tool_use",
        usage=Usage(51, 30, 0, 0),
    ),
    "empty_arguments": ModelResponse(
        calls=tuple(ToolCall(f"call_{n}", "now", "{}") for n in (1, 2, 3)),
        stop="tool_use",
        usage=Usage(20, 9, 0, 0),
    ),
    "google_no_index": ModelResponse(
        calls=(
            ToolCall(
                "function-call-1",
                "write",
                '{"path":"a.txt"}',
                '{"extra_content":{"google":{"thought_signature":"c2lnbmF0dXJlLTE="}}}',
            ),
            ToolCall("function-call-2", "write", '{"path":"b.txt"}'),
        ),
        stop="tool_use",
        usage=Usage(40, 35, 15),
    ),
    "index_always_zero": ModelResponse(
        calls=(ToolCall("A", "add", '{"x":1,"y":0}'), ToolCall("B", "add", '{"x":2,"y":0}')),
        stop="tool_use",
    ),
    "usage_on_last_chunk": ModelResponse(Text("hi"), usage=Usage(12, 3, 0, 0)),
    "refusal": ModelResponse(
        Text("I cannot help with that."), stop="refusal", usage=Usage(30, 7, 0, 0)
    ),
    "length": ModelResponse(
        calls=(ToolCall("call_L", "write", '{"path":"a.txt","text":"lor'),),
        stop="length",
        usage=Usage(30, 16, 0, 0),
    ),
    "unicode": ModelResponse(
        Text("é語🦀\u2028"),
        calls=(ToolCall("call_u", "weather", '{"city":"杭州"}'),),
        stop="tool_use",
    ),
}
BROKEN = {"cut": "model.stream_truncated", "error_in_stream": "model.rate_limited"}


def raw(name):
    return (FOLDER / f"{name}.sse").read_bytes()


def data_lines(name):
    return [line[6:] for line in raw(name).decode().split("\n") if line.startswith("data: ")]


def decoded(lines):
    """What a decoder makes of data lines: the answer and all that was streamed."""
    decoder = ChatDecoder()
    deltas = []
    for line in lines:
        deltas += decoder.done() if line == "[DONE]" else decoder.feed(json.loads(line))
    return decoder.finish(), deltas


def streamed(deltas, kind, index=0):
    return "".join(one.text for one in deltas if one.kind == kind and one.index == index)


def chunk(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index=None, id=None, name=None, arguments=None, **more):
    """One entry of `tool_calls`; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    entry = {"index": index, "id": id, **more}
    entry = {key: value for key, value in entry.items() if value is not None}
    return {**entry, "function": {k: v for k, v in function.items() if v is not None}}
