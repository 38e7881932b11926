"""Text that can be encoded, and its size. Nothing here changes a valid string."""

import re

REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNITS = ("kB", "MB", "GB")


def mend(text: str) -> tuple[str, int]:
    """The text with each lone surrogate replaced by U+FFFD, and how many there were."""
    return _SURROGATE.subn(REPLACEMENT, text)


def escape_halves(text: str) -> str:
    """Each lone surrogate written as its JSON escape: valid text that strict JSON refuses."""
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def mend_bytes(raw: bytes) -> tuple[str, int]:
    """Bytes read as UTF-8, each undecodable stretch replaced by U+FFFD, and how many there were."""
    text = raw.decode("utf-8", "replace")
    return text, text.count(REPLACEMENT) - raw.count(REPLACEMENT.encode())


def byte_len(text: str) -> int:
    """Length in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def human_size(size: int) -> str:
    """Bytes in decimal units: `999B`, `1.00kB`, `5000.00GB` (kernel.md 1.8)."""
    if size < 1000:
        return f"{size}B"
    amount = float(size)
    for unit in _UNITS:
        amount /= 1000
        if amount < 1000 or unit == _UNITS[-1]:
            return f"{amount:.2f}{unit}"
    raise AssertionError("unreachable")
