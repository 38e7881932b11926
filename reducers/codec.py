"""Bytes to commits and back (format 1). The raw value of a line; the chain around it is `chain`.

A content stands once: in the events. What the input holds too is written `{"held": n}`, held by
event n, judged by equality; decoding puts equal values back. Large contents go to files of their
own, by digest. A fold needs neither: it reads the events alone.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reducers.state import Commit
from reducers.vocabulary.content import AnyContent, Held, Stored, content_len
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


class UnreadableHeader(KernelError):
    """A header whose bytes are faultless and whose fields are not those of this version."""


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
    return _one_line(_encoder.encode(header))


def _one_line(value: bytes) -> bytes:
    """JSON allows three characters in strings that many readers take for the end of a line."""
    if value.isascii():
        return value
    for raw, escaped in _LINE_ENDS:
        value = value.replace(raw, escaped)
    return value


_LINE_ENDS = tuple((char.encode(), f"\\u{ord(char):04x}".encode()) for char in "\x85\u2028\u2029")


def decode_header(value: bytes) -> Header:
    """Raises `UnreadableHeader`, and nothing else whatever the bytes are."""
    try:
        return _headers.decode(value)
    except Exception as error:  # nesting too deep for the decoder is a RecursionError
        raise UnreadableHeader(f"line 1: the header cannot be read: {error}") from error


# -- encoding ----------------------------------------------------------------------------------


def encode_commit(commit: Commit) -> tuple[bytes, Contents]:
    """The raw value of a commit, and the large contents that must be stored before it."""
    contents: Contents = []
    thin = _thin(commit.input, commit.events, contents)
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
    return _one_line(b"".join(parts)), contents


def content_in(event: Event) -> AnyContent | None:
    """The content an event carries, where it is one that carries any."""
    find = _CARRIERS.get(type(event))
    return None if find is None else find(event)


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


def _turn_part(name: str) -> Callable[[ContextAdded], Any]:
    def of(event: ContextAdded) -> Any:
        kind = event.item.kind
        return getattr(kind, name) or None if isinstance(kind, AssistantMessage) else None

    return of


Holders = dict[type, Callable[[Any], Any]]
_CARRIERS: Holders = {
    ContextAdded: lambda event: event.item.content,
    ContextReplaced: lambda event: event.content,
    CallAnswered: lambda event: event.output.content,
    ToolLate: lambda event: event.output.content,
}
HOLDERS: dict[str, Holders] = {
    "content": _CARRIERS,
    "calls": {ContextAdded: _turn_part("tool_calls")},
    "reasoning": {ContextAdded: _turn_part("reasoning")},
    "usage": {ModelFinished: lambda event: event.usage},
    "model": {ModelChanged: lambda event: event.to},
    "policy": {PolicyChanged: lambda event: event.to},
    "tools": {
        ToolsChanged: lambda event: event.tools,
        PartsDescribed: lambda event: event.tools,
    },
}
"""By the name of an input's field: which events may hold it, and what of them."""
INNER = ("items", "item", "response", "output")
"""Fields of inputs whose values have such fields themselves."""


@functools.cache
def _fields(kind: type[Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which fields of a struct may be held, and which may have such fields inside."""
    names = kind.__struct_fields__
    held = tuple(name for name in HOLDERS if name in names)
    return held, tuple(name for name in INNER if name in names)


def _thin(input: Input, events: tuple[Event, ...], contents: Contents) -> Any:
    """The input without what its events hold."""
    held, inner = _fields(type(input))
    if not held and not inner:
        return input
    thin = msgspec.to_builtins(input)
    places: dict[str, dict[Any, int]] = {}
    _point(thin, input, held, events, places)
    for name in inner:
        plain, typed = thin.get(name), getattr(input, name)
        if type(plain) is dict:
            _point(plain, typed, _fields(type(typed))[0], events, places)  # type: ignore[arg-type]
            _store(plain, contents)
        elif plain:
            for each, one in zip(plain, typed, strict=True):
                _point(each, one, _fields(type(one))[0], events, places)  # type: ignore[arg-type]
                _store(each, contents)
    return thin


def _store(plain: dict[str, Any], contents: Contents) -> None:
    """A large content that no event holds (an output that was cut, say) is stored as well."""
    content = plain.get("content")
    if type(content) is dict and "held" not in content:
        raw = _encoder.encode(content)
        if len(raw) > LARGE_BYTES:
            digest = digest_of(raw)
            contents.append((digest, raw))
            plain["content"] = {"tag": "stored", "digest": digest, "size": len(raw)}


def _point(
    plain: Any,
    typed: Any,
    names: tuple[str, ...],
    events: tuple[Event, ...],
    places: dict[str, dict[Any, int]],
) -> None:
    """Put the event's place where the value stands that it holds."""
    for name in names:
        if name not in plain:
            continue
        value = getattr(typed, name)
        if value is None or value == ():
            continue
        if name not in places:
            places[name] = _places(name, events)
        place = places[name].get(value)
        if place is not None:
            plain[name] = {"held": place}


def _places(name: str, events: tuple[Event, ...]) -> dict[Any, int]:
    """Where each value that may be held under this name stands first."""
    holders = HOLDERS[name]
    found: dict[Any, int] = {}
    for place, event in enumerate(events):
        held_by = holders.get(type(event))
        if held_by is not None:
            found.setdefault(held_by(event), place)
    return found


def _thin_events(events: tuple[Event, ...], contents: Contents) -> Sequence[Event]:
    first: dict[AnyContent, int] = {}
    written: list[Event] | None = None
    for place, event in enumerate(events):
        if type(event) not in _CARRIERS:
            continue
        content = _CARRIERS[type(event)](event)
        thin: AnyContent = content
        size = 0 if type(content) is Held or type(content) is Stored else content_len(content)
        if size > HELD_MIN:
            holder = first.setdefault(content, place)
            thin = Held(holder) if holder != place else _apart(content, size, contents)
        made = event if thin is content else with_content(event, thin)
        reasoning = _reasoning(event)
        if reasoning is not None:
            size = content_len(reasoning)  # type: ignore[arg-type]
            made = _with_reasoning(made, _apart(reasoning, size, contents))
        if made is not event:
            written = list(events) if written is None else written
            written[place] = made
    return events if written is None else written


def _reasoning(event: Event) -> AnyContent | None:
    if type(event) is not ContextAdded:
        return None
    kind = event.item.kind
    return kind.reasoning if type(kind) is AssistantMessage else None


def _with_reasoning(event: Event, reasoning: AnyContent) -> Event:
    assert type(event) is ContextAdded
    assert type(event.item.kind) is AssistantMessage
    kind = event.item.kind
    if reasoning is kind.reasoning:
        return event
    return replace(event, item=replace(event.item, kind=replace(kind, reasoning=reasoning)))


def _apart(content: AnyContent, size: int, contents: Contents) -> AnyContent:
    """The content itself, or what stands for one that is too large for the line."""
    if size * 6 <= LARGE_BYTES or type(content) is Stored:
        return content
    return _stored(content, contents)


def _stored(content: AnyContent, contents: Contents) -> AnyContent:
    raw = _encoder.encode(content)
    if len(raw) <= LARGE_BYTES:
        return content
    digest = digest_of(raw)
    contents.append((digest, raw))
    return Stored(digest, len(raw))


# -- decoding ----------------------------------------------------------------------------------


def decode_stored(value: bytes, load: Loader | None = None) -> StoredCommit:
    """A commit with its events whole and its input still raw: all that a fold needs.

    Raises `UnreadableCommit` whatever the bytes are, and what `load` raises of its own: another
    `KernelError`, OSError.
    """
    try:
        stored = _commits.decode(value)
        events = _whole_events(stored.events, load)
    except (KernelError, OSError):
        raise
    except Exception as error:
        raise UnreadableCommit(_why(value, error)) from error
    if events is not stored.events:
        stored = replace(stored, events=events)
    return stored


def decode_commit(value: bytes, load: Loader | None = None) -> Commit:
    """A whole commit, equal to the one that was encoded. Raises what `decode_stored` raises."""
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
    except (KernelError, OSError):
        raise
    except Exception as error:
        raise UnreadableCommit(f"position {position}: its input cannot be read: {error}") from error


def _thick(plain: dict[str, Any], events: tuple[Event, ...], load: Loader | None) -> None:
    inner = [plain.get(name) for name in INNER]
    parts = [plain]
    for value in inner:
        parts += value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    for part in parts:
        for name, holders in HOLDERS.items():
            value = part.get(name)
            if not isinstance(value, dict):
                continue
            place = value.get("held")
            if isinstance(place, int) and len(value) == 1 and 0 <= place < len(events):
                held_by = holders.get(type(events[place]))
                held = None if held_by is None else held_by(events[place])
                part[name] = msgspec.to_builtins(held)
            elif value.get("tag") == "stored":
                stored = msgspec.convert(value, Stored)
                part[name] = msgspec.to_builtins(_loaded(stored, load))


def _whole_events(events: tuple[Event, ...], load: Loader | None) -> tuple[Event, ...]:
    for event in events:
        kind = type(event)
        if kind is ContextAdded:
            content = event.item.content  # type: ignore[union-attr]
        elif kind in _CARRIERS:
            content = _CARRIERS[kind](event)
        else:
            continue
        if type(content) is Held or type(content) is Stored:
            return _resolved(events, load)
        if type(_reasoning(event)) is Stored:
            return _resolved(events, load)
    return events


def _resolved(events: tuple[Event, ...], load: Loader | None) -> tuple[Event, ...]:
    """With each content in the place of what stands for it; a batch's own answers stay held."""
    whole = list(events)
    for place, event in enumerate(events):
        content = content_in(event)
        if type(content) is Held and isinstance(content.by, int):
            held = content_in(whole[content.by]) if 0 <= content.by < place else None
            if held is None:
                raise ValueError(f"event {place} is held by event {content.by}, which cannot be")
            whole[place] = with_content(event, held)
        elif type(content) is Stored:
            whole[place] = with_content(event, _loaded(content, load))
        reasoning = _reasoning(event)
        if type(reasoning) is Stored:
            whole[place] = _with_reasoning(whole[place], _loaded(reasoning, load))
    return tuple(whole)


def _loaded(stored: Stored, load: Loader | None) -> AnyContent:
    if load is None:
        raise UnreadableCommit(f"the content {stored.digest} stands in a file that is not at hand")
    content = _content.decode(load(stored.digest))
    if type(content) is Held or type(content) is Stored:
        raise ValueError(f"the file of the content {stored.digest} names another content")
    return content


_BEGINNING = re.compile(rb'\{"at":[^,]{1,32},"position":(\d{1,18}),')


def _why(value: bytes, error: Exception) -> str:
    """The position and the tag that is not known, as far as the value can be read at all."""
    try:
        plain = msgspec.json.decode(value)
        position = plain["position"]
        tags = [event["tag"] for event in plain["events"]]
    except Exception:
        begun = _BEGINNING.match(value)
        where = "a commit" if begun is None else f"position {int(begun[1])}"
        return f"{where}: it is not what this version writes: {error}"
    known = {str(kind.__struct_config__.tag) for kind in Event.__args__}
    unknown = next((tag for tag in tags if tag not in known), None)
    if unknown is not None:
        return f"position {position}: the event {unknown!r} is not known to this version"
    return f"position {position}: {error}"
