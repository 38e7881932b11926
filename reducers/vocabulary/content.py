"""Content: what items, messages and tool outputs hold. Four kinds, immutable, shared by reference.

`Held` and `Stored` are how a commit writes a content that stands elsewhere; only the codec and the
fold of a parallel batch meet them.
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from reducers.vocabulary.json import NULL, Json, compact, parse
from reducers.vocabulary.text import byte_len, human_size


class Text(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="text"):
    text: str = ""


class JsonContent(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="json"):
    json: Json

    @property
    def value(self) -> Any:
        return parse(self.json)


class Blob(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="blob"):
    """Bytes of a media type taken at face value; `data` is base64 and is never looked into."""

    media_type: str
    data: str
    meta: Json = NULL

    def wire_len(self) -> int:
        return byte_len(self.data) + byte_len(self.media_type)

    def __str__(self) -> str:
        return f"[{self.media_type}, {human_size(byte_len(self.data))}]"


class ToolCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call as the model wrote it. `args` is its exact text, one JSON object or not."""

    id: str
    tool: str
    args: Json
    extra: Json = NULL

    def byte_len(self) -> int:
        return byte_len(self.tool) + byte_len(self.args) + _extra_len(self.extra)


class TextBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="text"):
    content: "Text | JsonContent | Blob"
    extra: Json = NULL

    def byte_len(self) -> int:
        return content_len(self.content) + _extra_len(self.extra)


class ReasoningBlock(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="reasoning"
):
    content: "Text | JsonContent | Blob"
    extra: Json = NULL

    def byte_len(self) -> int:
        return content_len(self.content) + _extra_len(self.extra)


class CallBlock(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="call"):
    call: ToolCall

    def byte_len(self) -> int:
        return self.call.byte_len()


Block = TextBlock | ReasoningBlock | CallBlock


class Blocks(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="blocks"):
    """One model turn as an ordered list."""

    blocks: tuple[Block, ...] = ()


class Held(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="held"):
    """Stands elsewhere: in event number `by` of this commit, or in the call's earlier answer."""

    by: int | Literal["call"]


class Stored(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="tag", tag="stored"):
    """Stands in a file beside the log, named by the digest of its bytes."""

    digest: str
    size: int


Content = Text | JsonContent | Blob | Blocks
AnyContent = Text | JsonContent | Blob | Blocks | Held | Stored
EMPTY = Text()


def content_of(value: "Content | str | Any") -> Content:
    """A str becomes text, a content stays itself, any other JSON value becomes json content."""
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, Text | JsonContent | Blob | Blocks):
        return value
    return JsonContent(compact(value))


def as_text(content: Content) -> str:
    """The text form: of blocks only what was said; of a blob its name in brackets."""
    match content:
        case Text(text=text):
            return text
        case JsonContent(json=text):
            return text
        case Blocks(blocks=blocks):
            return "\n".join(as_text(b.content) for b in blocks if isinstance(b, TextBlock))
        case _:
            return str(content)


def content_len(content: Content) -> int:
    """Length in bytes, everything that would be sent included."""
    match content:
        case Text(text=text):
            return byte_len(text)
        case JsonContent(json=text):
            return byte_len(text)
        case Blocks(blocks=blocks):
            return sum(block.byte_len() for block in blocks)
        case _:
            return content.wire_len()


def blobs_of(content: Content) -> tuple[Blob, ...]:
    """Every blob, those inside text and reasoning blocks included; calls hold none."""
    if isinstance(content, Blob):
        return (content,)
    if isinstance(content, Blocks):
        return tuple(_block_blobs(content.blocks))
    return ()


def _block_blobs(blocks: Iterable[Block]) -> Iterable[Blob]:
    for block in blocks:
        if not isinstance(block, CallBlock):
            yield from blobs_of(block.content)


def calls_in(content: object, slot: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls of a turn: those among its blocks, where it is held as blocks, else its slot."""
    if type(content) is not Blocks:
        return slot
    return tuple([block.call for block in content.blocks if isinstance(block, CallBlock)])


def truncate(content: Content, limit: int) -> tuple[Content, int] | None:
    """Shorten to text of at most `limit` bytes; None when it fits (kernel.md 2.9).

    Returns the text, with a note where there is room for one, and how many bytes were dropped;
    kept and dropped always add up to the length of the original.
    """
    limit = max(0, limit)
    whole = content_len(content)
    if whole <= limit:
        return None
    raw = as_text(content).encode("utf-8", "surrogatepass")
    cut = _boundary(raw, min(limit, len(raw)))
    while cut > 0:
        note = f"\n[{whole - cut} bytes cut by an output limit]"
        room = limit - len(note)
        if cut <= room:
            return Text(raw[:cut].decode("utf-8", "surrogatepass") + note), whole - cut
        # The note never gets shorter as the cut moves down, so go straight to what is left.
        cut = _boundary(raw, min(cut - 1, max(room, 0)))
    cut = _boundary(raw, min(limit, len(raw)))
    return Text(raw[:cut].decode("utf-8", "surrogatepass")), whole - cut


def _boundary(raw: bytes, cut: int) -> int:
    while 0 < cut < len(raw) and raw[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


def _extra_len(extra: Json) -> int:
    return 0 if extra == NULL else byte_len(extra)
