"""What enters the core is what can be written and read back: checked once, for every input.

Inputs hold what strangers gave: a provider's answer, a tool's output, items somebody pushed. Struct
fields are not checked when a struct is made, so a value of the wrong type could be written to the
log that no reader would ever get past.
"""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from reducers.vocabulary.content import (
    AnyContent,
    Blob,
    Blocks,
    CallBlock,
    JsonContent,
    Text,
    ToolCall,
)
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.inputs import (
    Input,
    ModelSettled,
    OutcomeReconciled,
    PushItems,
    ReplaceContent,
    SettleOutcome,
    SupersedeItem,
    ToolSettled,
)
from reducers.vocabulary.items import AssistantMessage, ContextItem
from reducers.vocabulary.text import escape_halves, mend


class NotRecordable(InvalidInput):
    """A value that the log cannot hold; the message says where it stands."""


_encode = msgspec.json.Encoder().encode
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def admitted(input: Input) -> Input:
    """The input itself; or one with every string valid text and the repairs counted, with tuples
    where lists stood. Raises `NotRecordable`.
    """
    try:
        try:
            raw = _encode(input)
        except UnicodeEncodeError:
            input = _mended(input)
            raw = _encode(input)
        again: Input = _decoder(type(input)).decode(raw)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise NotRecordable(f"{input.__struct_config__.tag}: {error}") from None
    if again != input:
        if _plain(again) != _plain(input):
            raise NotRecordable(f"{input.__struct_config__.tag}: a value where a text should stand")
        input = again
    for text in _json_texts(input):
        if text and not _is_json(text):
            raise NotRecordable(f"{input.__struct_config__.tag}: not JSON: {text[:60]!r}")
    return input


def _plain(input: Input) -> Any:
    """Without what JSON would make texts of: bytes, dates, numbers of other kinds."""

    def lists(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [lists(one) for one in value]
        if isinstance(value, dict):
            return {key: lists(one) for key, one in value.items()}
        return value

    return lists(msgspec.to_builtins(input, builtin_types=_NO_TEXTS))


_NO_TEXTS = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)


def _decoder(kind: type) -> "msgspec.json.Decoder[Any]":
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def _mended(input: Input) -> Input:
    count = 0

    def walk(value: Any, name: str = "") -> Any:
        nonlocal count
        if isinstance(value, str):
            if name == "args":
                # Not mended: a call runs with the arguments the model wrote, or not at all.
                return escape_halves(value)
            text, found = mend(value)
            count += found
            return text
        if isinstance(value, list | tuple):
            return [walk(one) for one in value]
        if isinstance(value, dict):
            return {walk(key): walk(one, key) for key, one in value.items()}
        return value

    plain = walk(msgspec.to_builtins(input))
    if "mended" in input.__struct_fields__:
        plain["mended"] = plain.get("mended", 0) + count
    return msgspec.convert(plain, type(input))


# -- texts that say they are JSON ------------------------------------------------------------------


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _json_texts(input: Input) -> Iterator[str]:
    """Every text of the input that is read as JSON later, a call's arguments excepted: those are
    judged by the core, which answers the model."""
    match input:
        case ToolSettled() | SettleOutcome():
            yield from _of_content(input.output.content)
        case OutcomeReconciled(output=output) if output is not None:
            yield from _of_content(output.content)
        case ModelSettled(response=response) if response is not None:
            yield response.extra
            yield from _of_content(response.content)
            yield from _of_content(response.reasoning)
            yield from _of_calls(response.calls)
        case PushItems(items=items):
            for item in items:
                yield from _of_item(item)
        case SupersedeItem(item=item):
            yield from _of_item(item)
        case ReplaceContent(content=content):
            yield from _of_content(content)
        case _:
            return


def _of_item(item: ContextItem) -> Iterator[str]:
    yield item.meta
    yield from _of_content(item.content)
    if isinstance(item.kind, AssistantMessage):
        yield item.kind.extra
        yield from _of_content(item.kind.reasoning)
        yield from _of_calls(item.kind.tool_calls)


def _of_calls(calls: Iterable[ToolCall]) -> Iterator[str]:
    for call in calls:
        yield call.extra


def _of_content(content: AnyContent | None) -> Iterator[str]:
    match content:
        case None | Text():
            return
        case JsonContent(json=text):
            yield text or "nothing"  # an empty text is absent elsewhere; here it is no value
        case Blob(meta=meta):
            yield meta
        case Blocks(blocks=blocks):
            for block in blocks:
                if isinstance(block, CallBlock):
                    yield block.call.extra
                else:
                    yield block.extra
                    yield from _of_content(block.content)
        case _:
            return
