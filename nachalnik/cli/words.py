"""Text of models, tools and strangers, made safe to show: no control character reaches a terminal,
and nothing that is there is hidden."""

import re

_CONTROLS = re.compile(
    # C0 but tab and newline, DEL, C1, and what turns or hides the text around it.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with every control character spelt out; line breaks and tabs stay."""
    return _CONTROLS.sub(_spelt, text)


def on_one_line(text: str) -> str:
    """As `visible`, line breaks and tabs spelt out too: nothing can pass for another line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shortened(text: str, width: int) -> str:
    """At most `width` characters on one line; what is left out is counted."""
    # No more is spelt out than can be shown: a result may have many megabytes.
    line = on_one_line(text[: width + 1])
    if len(text) <= width and len(line) <= width:
        return line
    note = f"... ({len(text)} characters)"
    return line[: max(0, width - len(note))] + note


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
