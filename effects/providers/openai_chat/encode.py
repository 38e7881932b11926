"""A request as the body of a chat completion. Pure; plain dicts in wire order.

What a server would refuse is not sent: blank text, messages with neither text nor call, arguments
that are not one object. The record keeps them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from effects.providers.openai_chat.calls import CALL_EXTRAS
from effects.providers.openai_chat.reasoning import DETAILS
from reducers.vocabulary.content import (
    Blob,
    Blocks,
    Content,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    as_text,
)
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import NULL, NotJson, object_problem, parse, parse_object
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.text import mend
from reducers.vocabulary.tools import ToolSpec

BUILT = ("model", "messages", "tools", "stream")
"""What a parameter of the same name does not replace: it goes beside the conversation."""
NO_OUTPUT = "(no output)"
"""Stands for a blank tool result: its call must be answered, and no text may be blank."""
REASONING_FIELDS = ("reasoning_content",)
"""Where earlier reasoning goes back. Some servers read only `reasoning`: name it, or both."""


def encode_request(
    request: ModelRequest,
    model: str,
    *,
    stream: bool = True,
    reasoning_fields: Sequence[str] = REASONING_FIELDS,
) -> dict[str, Any]:
    """The whole body. Raises `InvalidInput` for parameters or a schema that are not JSON."""
    messages = (_message(message, reasoning_fields) for message in request.messages)
    body: dict[str, Any] = {
        "model": model,
        "messages": [message for message in messages if message is not None],
    }
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    try:
        params = parse_object(request.params)
    except NotJson as problem:
        raise InvalidInput(f"the request's parameters are not one JSON object: {problem}") from None
    asked = params.pop("stream_options", {})
    body.update({key: value for key, value in params.items() if key not in BUILT})
    if stream:
        body["stream"] = True
        # Only beside `stream`, or it is refused; a null takes it out for a server without it.
        if isinstance(asked, dict):
            body["stream_options"] = {"include_usage": True, **asked}
    return body


# -- messages ----------------------------------------------------------------------------------


def _message(message: Message, reasoning_fields: Sequence[str]) -> dict[str, Any] | None:
    """None where there is nothing to say."""
    if message.role == "assistant":
        return _turn(message, reasoning_fields)
    content: str | list[dict[str, Any]] = _text(message.content)
    if message.role == "tool":
        content = content or NO_OUTPUT
    elif message.role == "user" and message.content is not None:
        content = _parts(message.content) or content
    if not content:
        return None
    wire: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.name:
        wire["name"] = message.name
    return wire


def _turn(message: Message, reasoning_fields: Sequence[str]) -> dict[str, Any] | None:
    text, calls = _text(message.content), message.calls()
    if not text and not calls:
        return None
    wire: dict[str, Any] = {"role": "assistant", "content": text or None}
    details = _kept(message.extra, (DETAILS,))
    if details:
        wire.update(details)  # the same thinking, with its signatures
    elif thought := _thought(message):
        wire.update(dict.fromkeys(reasoning_fields, thought))
    if calls:
        wire["tool_calls"] = [_call(call) for call in calls]
    return wire


def _thought(message: Message) -> str:
    if isinstance(message.content, Blocks):
        blocks = message.content.blocks
        thoughts = [block.content for block in blocks if isinstance(block, ReasoningBlock)]
        return "\n".join(filter(None, map(_text, thoughts)))
    return _text(message.reasoning)


def _call(call: ToolCall) -> dict[str, Any]:
    # The core answers a call with other arguments by an error, which the model reads beside it.
    arguments = call.args if object_problem(call.args) is None else "{}"
    function = {"name": call.tool, "arguments": arguments}
    return {
        "id": call.id,
        "type": "function",
        "function": function,
        **_kept(call.extra, CALL_EXTRAS),
    }


def _kept(extra: str, names: Iterable[str]) -> dict[str, Any]:
    """What this dialect's decoder put by, and nothing another provider did."""
    if extra == NULL:
        return {}
    try:
        value = parse(extra)
    except NotJson:
        return {}
    return {name: value[name] for name in names if name in value} if type(value) is dict else {}


# -- content -----------------------------------------------------------------------------------


def _text(content: Content | None) -> str:
    """What can be said of it in words; blank is nothing."""
    text = "" if content is None else mend(as_text(content))[0]
    return text if text.strip() else ""


def _parts(content: Content) -> list[dict[str, Any]]:
    """Typed parts where an image needs them; else nothing, since some servers read only text."""
    pieces = list(_pieces(content))
    if not any(_is_image(piece) for piece in pieces):
        return []
    return [part for piece in pieces if (part := _part(piece))]


def _pieces(content: Content) -> Iterator[Content]:
    if isinstance(content, Blocks):
        yield from (block.content for block in content.blocks if isinstance(block, TextBlock))
    else:
        yield content


def _part(content: Content) -> dict[str, Any] | None:
    if isinstance(content, Blob) and _is_image(content):
        url = f"data:{content.media_type};base64,{content.data}"
        return {"type": "image_url", "image_url": {"url": url}}
    text = _text(content)
    return {"type": "text", "text": text} if text else None


def _is_image(content: Content) -> bool:
    return isinstance(content, Blob) and content.media_type.startswith("image/")


# -- tools -------------------------------------------------------------------------------------


def _tool(spec: ToolSpec) -> dict[str, Any]:
    try:
        schema = parse(spec.schema)
    except NotJson as problem:
        raise InvalidInput(f"the schema of the tool {spec.id!r} is not JSON: {problem}") from None
    function = {"name": spec.id, "description": spec.description, "parameters": schema}
    if not spec.description:
        del function["description"]
    return {"type": "function", "function": function}
