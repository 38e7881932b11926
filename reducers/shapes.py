"""The plain JSON shapes of kernel.md 12: contents, blocks, kinds and items as exports show them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    Held,
    JsonContent,
    ReasoningBlock,
    Stored,
    Text,
    TextBlock,
    ToolCall,
)
from reducers.vocabulary.items import (
    AssistantMessage,
    ContextItem,
    ToolResult,
    kind_name,
)
from reducers.vocabulary.json import NULL
from reducers.vocabulary.persistent import Vector


def shape(value: Any) -> Any:
    """Plain objects, lists and scalars; contents tagged by the name of their one key."""
    find = _SHAPES.get(type(value))
    if find is not None:
        return find(value)
    if isinstance(value, Struct):
        return {name: shape(getattr(value, name)) for name in value.__struct_fields__} | _tag(value)
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Sequence):
        return [shape(one) for one in value]
    return msgspec.to_builtins(value)


def _tag(value: Struct) -> dict[str, Any]:
    config = value.__struct_config__
    return {} if config.tag is None else {str(config.tag_field): config.tag}


def _json(text: str) -> Any:
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def _call(call: ToolCall) -> dict[str, Any]:
    plain = {"id": call.id, "tool": call.tool, "args": _json(call.args)}
    return plain if call.extra == NULL else {**plain, "extra": _json(call.extra)}


def _blob(blob: Blob) -> dict[str, Any]:
    plain: dict[str, Any] = {"media_type": blob.media_type, "data": blob.data}
    return {"blob": plain if blob.meta == NULL else {**plain, "meta": _json(blob.meta)}}


def _part(block: TextBlock | ReasoningBlock) -> dict[str, Any]:
    plain: dict[str, Any] = {"content": shape(block.content)}
    if block.extra != NULL:
        plain["extra"] = _json(block.extra)
    return {"reasoning" if isinstance(block, ReasoningBlock) else "text": plain}


def _assistant(kind: AssistantMessage) -> dict[str, Any]:
    reasoning = None if kind.reasoning is None else shape(kind.reasoning)
    calls = [_call(call) for call in kind.tool_calls]
    return {"kind": "assistant_message", "tool_calls": calls, "reasoning": reasoning}


def _result(kind: ToolResult) -> dict[str, Any]:
    return {"kind": "tool_result", "call": kind.call, "tool": kind.tool, "is_error": kind.is_error}


def _item(item: ContextItem) -> dict[str, Any]:
    kind = item.kind
    special = _SHAPES.get(type(kind))
    return {
        "id": item.id,
        "kind": special(kind) if special else {"kind": kind_name(kind)},
        "source": item.source,
        "label": item.label,
        "content": shape(item.content),
        "tokens": item.tokens,
        "uncounted": item.uncounted,
        "state": item.state,
        "meta": _json(item.meta),
        "included_because": item.included_because,
        "note": item.note,
    }


_SHAPES: dict[type, Any] = {
    Vector: lambda vector: [shape(one) for one in vector],
    Text: lambda content: {"text": content.text},
    JsonContent: lambda content: {"json": _json(content.json)},
    Blocks: lambda content: {"blocks": [shape(block) for block in content.blocks]},
    Blob: _blob,
    Held: lambda content: {"held": content.by},
    Stored: lambda content: {"stored": content.digest},
    ToolCall: _call,
    TextBlock: _part,
    ReasoningBlock: _part,
    CallBlock: lambda block: {"call": _call(block.call)},
    AssistantMessage: _assistant,
    ToolResult: _result,
    ContextItem: _item,
}
