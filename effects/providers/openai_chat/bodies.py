"""Bodies and heads of answers that are no stream: what they are, or what came in their place."""

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from effects.ports import ProviderFailure
from effects.providers.openai_chat.decode import BAD_ANSWER, parse_chunk
from effects.providers.secrets import NO_SECRETS, Secrets
from reducers.vocabulary.text import mend_bytes

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x9c", b"\x78\x01", b"\x78\xda", b"BZh")
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|h1)[^>]{0,200}>([^<]{1,200})<", re.IGNORECASE)
_STREAM = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")


def read_json(body: bytes, where: str, secrets: Secrets = NO_SECRETS) -> tuple[object, int]:
    """The value of a whole body, and how many stretches of it were no UTF-8 and became U+FFFD.

    Raises `ProviderFailure` that says what came instead.
    """
    text, mended = mend_bytes(body.removeprefix(b"\xef\xbb\xbf"))
    try:
        return parse_chunk(text), mended
    except ProviderFailure:
        came = f"{where} answered with {describe(body, secrets)}"
        advice = "where a chat completion was expected: is the base address right?"
        raise ProviderFailure(f"{came} {advice}", BAD_ANSWER) from None


def read_refusal(body: bytes, secrets: Secrets = NO_SECRETS) -> object:
    """The body of an error: its value where it is JSON, else words for what it is."""
    text, _ = mend_bytes(body)
    try:
        return parse_chunk(text)
    except ProviderFailure:
        return describe(body, secrets)


def describe(body: bytes, secrets: Secrets = NO_SECRETS) -> str:
    if not body.strip():
        return "an empty body"
    if body.startswith(_COMPRESSED):
        return "compressed data that its head does not announce"
    text, mended = mend_bytes(body)
    if mended or "\0" in text:
        return "data that is no text"
    if _PAGE.match(text):
        title = _TITLE.search(text)
        return "a web page" + (f" ({' '.join(title[1].split())!r})" if title else "")
    return f"the text {secrets.quote(' '.join(text.split()))!r}"


def is_event_stream(body: bytes) -> bool:
    """Whether a body is an event stream under another name."""
    return _STREAM.match(body) is not None


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the head asks to wait: milliseconds, seconds or a date; None where it is none."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", value):
            return float(value) * unit
    try:
        then = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):  # no date, or one that no clock here can show
        return None
    return max(0.0, then - time.time())
