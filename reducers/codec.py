"""Bytes to commits and back (format 1). The raw value of a line; the chain around it is `chain`.

A content stands once: in the events. What the input holds too is written `{"held": n}`, held by
event n, judged by equality; decoding puts equal values back. Large contents go to files of their
own, by digest. A fold needs neither: it reads the events alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reducers.state import Commit
from reducers.vocabulary.content import AnyContent, Content, Held, Stored, content_len
from reducers.vocabulary.digests import digest_of
from reducers.vocabulary.errors import KernelError
from reducers.vocabulary.events import (
    CallAnswered,
    ContextAdded,
    ContextReplaced,
    Event,
    ModelChanged,
    ModelFinished,
    PartsDescribed,
    PolicyChanged,
    ToolLate,
    ToolsChanged,
)
from reducers.vocabulary.inputs import Input
from reducers.vocabulary.items import AssistantMessage

LARGE_BYTES = 256 * 1024
"""Contents whose encoding is longer stand in a file beside the log (format.md)."""
HELD_MIN = 64
"""A second equal content among the events is written as held only where that is shorter."""

Loader = Callable[[str], bytes]
Contents = list[tuple[str, bytes]]


class UnreadableCommit(KernelError):
    """A commit this version cannot read: says the position and what in it is not known."""


class Parent(Struct, frozen=True, gc=False):
    """Where a branch left its parent."""

    log: str
    position: int
    chain: str


class Header(Struct, frozen=True, gc=False):
    """The first line of a log."""

    log: str
    session: str
    parent: Parent | None
    made_by: str


class StoredCommit(Struct, frozen=True, gc=False):
    """A commit as it stands on its line. The input is decoded only where somebody asks."""

    at: int
    position: int
    input: msgspec.Raw
    events: tuple[Event, ...]
    cause: str = ""


_encoder = msgspec.json.Encoder()
_commits = msgspec.json.Decoder(StoredCommit)
_headers = msgspec.json.Decoder(Header)
_content = msgspec.json.Decoder(AnyContent)


def encode_header(header: Header) -> bytes:
    return _encoder.encode(header)


def decode_header(value: bytes) -> Header:
    return _headers.decode(value)


# -- encoding ----------------------------------------------------------------------------------


def encode_commit(commit: Commit) -> tuple[bytes, Contents]:
    """The raw value of a commit, and the large contents that must be stored before it."""
    contents: Contents = []
    thin = msgspec.to_builtins(commit.input)
    _thin(thin, commit.input, commit.events)
    _store_input(thin, contents)
    events = _thin_events(commit.events, contents)
    parts = [
        b'{"at":%d,"position":%d,"input":' % (commit.at, commit.position),
        _encoder.encode(thin),
        b',"events":',
        _encoder.encode(events),
    ]
    if commit.cause:
        parts += [b',"cause":', _encoder.encode(commit.cause)]
    parts.append(b"}")
    return b"".join(parts), contents


def content_in(event: Event) -> AnyContent | None:
    """The content an event carries, where it is one that carries any."""
    match event:
        case ContextAdded():
            return event.item.content
        case ContextReplaced():
            return event.content
        case CallAnswered() | ToolLate():
            return event.output.content
        case _:
            return None


def with_content(event: Event, content: AnyContent) -> Event:
    match event:
        case ContextAdded():
            return replace(event, item=replace(event.item, content=content))
        case ContextReplaced():
            return replace(event, content=content)
        case CallAnswered() | ToolLate():
            return replace(event, output=replace(event.output, content=content))
        case _:
            return event


def _turn_part(event: Event, name: str) -> Any:
    if isinstance(event, ContextAdded) and isinstance(event.item.kind, AssistantMessage):
        return getattr(event.item.kind, name) or None
    return None


HOLDERS: dict[str, Callable[[Event], Any]] = {
    "content": content_in,
    "calls": lambda event: _turn_part(event, "tool_calls"),
    "reasoning": lambda event: _turn_part(event, "reasoning"),
    "usage": lambda event: event.usage if isinstance(event, ModelFinished) else None,
    "model": lambda event: event.to if isinstance(event, ModelChanged) else None,
    "policy": lambda event: event.to if isinstance(event, PolicyChanged) else None,
    "tools": lambda event: (
        event.tools if isinstance(event, ToolsChanged | PartsDescribed) else None
    ),
}
"""By the name of an input's field: what of an event may hold it."""
INNER = ("items", "item", "response", "output")
"""Fields of inputs whose values have such fields themselves."""


def _pairs(thin: Any, input: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each part of the input that may have held fields, plain and typed."""
    yield thin, input
    for name in INNER:
        plain, typed = thin.get(name), getattr(input, name, ())
        if isinstance(plain, list | tuple):
            yield from zip(plain, typed, strict=True)
        elif isinstance(plain, dict):
            yield plain, typed


def _thin(thin: Any, input: Input, events: tuple[Event, ...]) -> None:
    for plain, typed in _pairs(thin, input):
        for name, held_by in HOLDERS.items():
            if name not in plain:
                continue
            value = getattr(typed, name)
            if value is None or value == ():
                continue
            for place, event in enumerate(events):
                if held_by(event) == value:
                    plain[name] = {"held": place}
                    break


def _thin_events(events: tuple[Event, ...], contents: Contents) -> list[Event]:
    first: dict[AnyContent, int] = {}
    written: list[Event] = []
    for place, event in enumerate(events):
        content = content_in(event)
        if content is not None and not isinstance(content, Held | Stored):
            size = content_len(content)
            if size > HELD_MIN:
                holder = first.setdefault(content, place)
                if holder != place:
                    event = with_content(event, Held(holder))
                elif size * 6 > LARGE_BYTES:
                    event = with_content(event, _stored(content, contents))
        written.append(event)
    return written


def _stored(content: Content, contents: Contents) -> AnyContent:
    raw = _encoder.encode(content)
    if len(raw) <= LARGE_BYTES:
        return content
    digest = digest_of(raw)
    contents.append((digest, raw))
    return Stored(digest, len(raw))


def _store_input(thin: dict[str, Any], contents: Contents) -> None:
    """A large content that no event holds (an output that was cut, say) is stored as well."""
    for name in INNER:
        value = thin.get(name)
        for plain in value if isinstance(value, list | tuple) else [value]:
            if isinstance(plain, dict) and isinstance(plain.get("content"), dict):
                raw = _encoder.encode(plain["content"])
                if len(raw) > LARGE_BYTES:
                    digest = digest_of(raw)
                    contents.append((digest, raw))
                    plain["content"] = {"tag": "stored", "digest": digest, "size": len(raw)}


# -- decoding ----------------------------------------------------------------------------------


def decode_stored(value: bytes, load: Loader | None = None) -> StoredCommit:
    """A commit with its events whole and its input still raw: all that a fold needs."""
    try:
        stored = _commits.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableCommit(_why(value, error)) from error
    events = _whole_events(stored.events, load)
    if events is not stored.events:
        stored = replace(stored, events=events)
    return stored


def decode_commit(value: bytes, load: Loader | None = None) -> Commit:
    """A whole commit, equal to the one that was encoded."""
    stored = decode_stored(value, load)
    return Commit(
        stored.at,
        stored.position,
        decode_input(stored.input, stored.events, load, stored.position),
        stored.events,
        stored.cause,
    )


def decode_input(
    raw: bytes | msgspec.Raw, events: tuple[Event, ...], load: Loader | None, position: int
) -> Input:
    try:
        plain = msgspec.json.decode(raw)
        _thick(plain, events, load)
        return msgspec.convert(plain, Input)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as error:
        raise UnreadableCommit(f"position {position}: its input cannot be read: {error}") from error


def _thick(plain: dict[str, Any], events: tuple[Event, ...], load: Loader | None) -> None:
    inner = [plain.get(name) for name in INNER]
    parts = [plain]
    for value in inner:
        parts += value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    for part in parts:
        for name, held_by in HOLDERS.items():
            value = part.get(name)
            if not isinstance(value, dict):
                continue
            place = value.get("held")
            if isinstance(place, int) and len(value) == 1 and place < len(events):
                part[name] = msgspec.to_builtins(held_by(events[place]))
            elif value.get("tag") == "stored":
                stored = msgspec.convert(value, Stored)
                part[name] = msgspec.to_builtins(_loaded(stored, load))


def _whole_events(events: tuple[Event, ...], load: Loader | None) -> tuple[Event, ...]:
    whole: list[Event] | None = None
    for place, event in enumerate(events):
        if type(event) not in _CARRIERS:
            continue
        content = content_in(event)
        if type(content) is Held and isinstance(content.by, int):
            whole = list(events) if whole is None else whole
            held = content_in(whole[content.by])
            assert held is not None
            whole[place] = with_content(event, held)
        elif type(content) is Stored:
            whole = list(events) if whole is None else whole
            whole[place] = with_content(event, _loaded(content, load))
    return events if whole is None else tuple(whole)


_CARRIERS = frozenset({ContextAdded, ContextReplaced, CallAnswered, ToolLate})


def _loaded(stored: Stored, load: Loader | None) -> AnyContent:
    if load is None:
        raise UnreadableCommit(f"the content {stored.digest} stands in a file that is not at hand")
    return _content.decode(load(stored.digest))


def _why(value: bytes, error: Exception) -> str:
    """The position and the tag that is not known, as far as the value can be read at all."""
    try:
        plain = msgspec.json.decode(value)
        position = plain["position"]
        tags = [event["tag"] for event in plain["events"]]
    except Exception:
        return f"a commit is not what this version writes: {error}"
    known = {str(kind.__struct_config__.tag) for kind in Event.__args__}
    unknown = next((tag for tag in tags if tag not in known), None)
    if unknown is not None:
        return f"position {position}: the event {unknown!r} is not known to this version"
    return f"position {position}: {error}"
