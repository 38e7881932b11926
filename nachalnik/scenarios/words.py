"""Reading one line of a script, word by word. Every complaint names the line and what to write."""

import json
import re
from typing import Any

from reducers.vocabulary.json import DIGITS_MAX, Json, NotJson, parse

_WORD = re.compile(r"[^\s\"'{}()\[\],=+]+")
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


class NotationError(Exception):
    """A script that cannot be read; `line` counts from 1."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        self.problem = problem
        super().__init__(f"line {line}: {problem}")


class Words:
    """A line and how far it was read."""

    def __init__(self, text: str, line: int) -> None:
        self.text = text
        self.line = line
        self._at = 0
        self._skip()

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self._at)
        assert match is not None
        self._at = match.end()

    @property
    def rest(self) -> str:
        return self.text[self._at :]

    def error(self, expected: str) -> NotationError:
        found = f"found {self.rest[:40]!r}" if self.rest else "the line ends"
        return NotationError(self.line, f"{expected} is expected, but {found}: {self.text.strip()}")

    # -- what may come -----------------------------------------------------------------------

    def take(self, mark: str) -> bool:
        """Go past this word or sign, if it is the next."""
        is_word = _WORD.fullmatch(mark) is not None
        match = _WORD.match(self.text, self._at)
        found = match is not None and match.group() == mark
        if not (found if is_word else self.text.startswith(mark, self._at)):
            return False
        self._at += len(mark)
        self._skip()
        return True

    def take_all(self, phrase: str) -> bool:
        """Go past several words, or past none of them."""
        before = self._at
        if all(self.take(word) for word in phrase.split()):
            return True
        self._at = before
        return False

    def starts_with(self, mark: str) -> bool:
        return self.text.startswith(mark, self._at)

    def expect(self, *marks: str) -> None:
        for mark in marks:
            if not self.take(mark):
                raise self.error(repr(mark))

    def end(self) -> None:
        if self.rest:
            raise self.error("the end of the line")

    # -- values ------------------------------------------------------------------------------

    def word(self, what: str) -> str:
        match = _WORD.match(self.text, self._at)
        if match is None:
            raise self.error(what)
        self._at = match.end()
        self._skip()
        return match.group()

    def number(self, what: str) -> int:
        before = self._at
        word = self.word(what)
        if not word.isdecimal():
            self._at = before
            raise self.error(what)
        return self.whole(word)

    def whole(self, digits: str) -> int:
        """The number that decimal digits of this line say."""
        if len(digits) > DIGITS_MAX:
            problem = f"a number has {len(digits)} digits; at most {DIGITS_MAX} are read"
            raise NotationError(self.line, problem)
        return int(digits)

    def string(self, what: str) -> str:
        """A JSON string."""
        if not self.starts_with('"'):
            raise self.error(f'{what} in double quotes (as in JSON: \\n, \\", \\u00e9)')
        return str(self._decode(what)[0])

    def string_or_none(self, what: str) -> str | None:
        return self.string(what) if self.starts_with('"') else None

    def json_text(self, what: str) -> Json:
        """The exact text of one strict JSON value."""
        return self._json(what)[1]

    def json_value(self, what: str) -> Any:
        """One strict JSON value."""
        return self._json(what)[0]

    def _json(self, what: str) -> tuple[Any, Json]:
        text = self._decode(f"{what} as JSON")[1]
        try:
            return parse(text), Json(text)
        except NotJson as problem:
            raise NotationError(self.line, f"{what} as JSON: {problem}") from None

    def raw(self, what: str) -> str:
        """Text between single quotes, taken as it stands."""
        end = self.text.find("'", self._at + 1)
        if not self.starts_with("'") or end < 0:
            raise self.error(what)
        text = self.text[self._at + 1 : end]
        self._at = end + 1
        self._skip()
        return text

    def _decode(self, what: str) -> tuple[object, str]:
        """A value and its text, which says where it ends; how strict it is, is seen afterwards."""
        start = self._at
        try:
            value, self._at = _DECODER.raw_decode(self.text, start)
        except ValueError:
            raise self.error(what) from None
        except RecursionError:
            raise NotationError(self.line, f"{what}: it is nested too deeply") from None
        text = self.text[start : self._at]
        self._skip()
        return value, text
