"""Thinking that a model wrote into its content, told apart from the answer.

A server without a reasoning parser passes it through. Where the model opens it (`<think>`), it is
known as thinking from its first word. Where the prompt had opened it already, only a lone
`</think>` arrives, after all of it was taken for text: that is put right when the answer is whole.
"""

import re

OPENER = "<think>"
CLOSER = "</think>"

# A closer in quotes or in a code span is spoken about, not used.
_LONE_CLOSER = re.compile(r"(?<![`'\"])</think>(?![`'\"])")

Part = tuple[str, bool]
"""A stretch of content, and whether it is thinking."""


class ThinkingSplitter:
    """Content as it comes, split at the tags; a tag may be cut in two by the stream."""

    __slots__ = ("_at", "_held", "_skip_blanks", "is_opened")

    def __init__(self) -> None:
        self._at = "start"
        self._held = ""
        self._skip_blanks = False
        self.is_opened = False
        """Whether the content began with an opener."""

    def add(self, text: str) -> list[Part]:
        if self._at == "answer":
            return self._part(text, False)
        self._held += text
        return self._start() if self._at == "start" else self._inside()

    def end(self) -> list[Part]:
        """What was held because it could have become a tag."""
        held, self._held = self._held, ""
        return self._part(held, self._at == "inside")

    def _start(self) -> list[Part]:
        said = self._held.lstrip()
        if not said or (len(said) < len(OPENER) and OPENER.startswith(said)):
            return []
        if said.startswith(OPENER):
            self._at, self.is_opened, self._skip_blanks = "inside", True, True
            self._held = said[len(OPENER) :]
            return self._inside()
        self._at = "answer"
        return self.end()

    def _inside(self) -> list[Part]:
        thought, closer, rest = self._held.partition(CLOSER)
        if closer:
            self._held = ""
            parts = self._part(thought, True)
            self._at, self._skip_blanks = "answer", True
            return parts + self._part(rest, False)
        cut = len(thought) - _begun(thought)
        self._held = thought[cut:]
        return self._part(thought[:cut], True)

    def _part(self, text: str, is_thinking: bool) -> list[Part]:
        if self._skip_blanks:
            text = text.lstrip()
            self._skip_blanks = not text
        return [(text, is_thinking)] if text else []


def _begun(text: str) -> int:
    """How many characters at the end could be the beginning of a closer."""
    lengths = range(min(len(CLOSER) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(CLOSER[:length])), 0)


def split_at_lone_closer(text: str) -> tuple[str, str] | None:
    """Thinking and answer, or None: the first closer only, since a later one is talk about it."""
    found = _LONE_CLOSER.search(text)
    if found is None:
        return None
    return text[: found.start()].strip(), text[found.end() :].lstrip()
