"""What was sent to a server and must not come back through its words: keys, tokens, passwords."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

SECRET_MIN = 8
"""A shorter value is a word, and taking it out would garble sentences."""
QUOTE_MAX = 200
"""Characters of what is no answer that are repeated in a failure: enough to know it again."""
HIDDEN = "[secret]"
_FORM_MAX = 24
"""Characters that one may be written as: four bytes in an address, quoted twice."""


class Secrets:
    """Values, and every way in which a server may write them: as sent, quoted as in an address, as
    in JSON, as in HTML or by `repr`, in any case. Those under `SECRET_MIN` characters are left out.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        kept = {value for value in values if len(value) >= SECRET_MIN}
        longest_first = sorted(kept, key=lambda value: (-len(value), value))
        self._pattern = re.compile("|".join(map(_written, longest_first)), re.IGNORECASE)
        self._reach = max(map(len, kept), default=0) * _FORM_MAX

    def __repr__(self) -> str:
        return "Secrets(...)"

    def hide(self, text: str) -> str:
        """The text with `[secret]` for each."""
        return self._pattern.sub(HIDDEN, text) if self._reach else text

    def quote(self, text: str, limit: int = QUOTE_MAX) -> str:
        """At most so many characters of a text, and `...` where it is longer.

        Secrets are taken out first: a part of one at the end would not be recognised.
        """
        # What stands behind this cannot come in before the limit, even if all before it is secrets.
        near = text[: limit + (limit // len(HIDDEN) + 1) * self._reach + 1]
        hidden = self.hide(near)
        is_whole = len(near) == len(text) and len(hidden) <= limit
        return hidden if is_whole else hidden[:limit] + "..."


def secrets_in(base_url: str, values: Iterable[str]) -> Secrets:
    """Those of an address, its user, password and query, and of the values of headers."""
    found = [*_of_address(base_url), *values]
    return Secrets(piece for value in found for piece in _pieces(value))


def _pieces(value: str) -> Iterator[str]:
    """The whole, each word (`Bearer ...`), and what a word names (`session=...;`)."""
    yield value
    for word in value.split():
        bare = word.strip(",;")
        yield from (word, bare, bare.partition("=")[2].strip('"'))


def _of_address(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    yield from (user, password)
    if user or password:  # as the header has them
        yield base64.b64encode(f"{user}:{password}".encode("utf-8", "replace")).decode()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        yield value or name


def _written(value: str) -> str:
    """A pattern for all forms of a value."""
    return "".join(map(_form, re.findall(r"\\+|[^\\]", value)))


def _form(one: str) -> str:
    """Of one character, or of a run of backslashes, which every writer of strings doubles.

    What is written twice, as an error inside an error is, has its backslashes and `%` escaped once
    more. An address has `+` for a blank.
    """
    if one[0] == "\\":
        return rf"(?:\\|%(?:25)?5c){{{len(one)},{4 * len(one)}}}"
    forms = {one, json.dumps(one)[1:-1], f"\\u{ord(one):04x}", html.escape(one)}
    patterns = sorted(map(re.escape, forms | ({"+"} if one == " " else set())))
    patterns.append("".join(f"%(?:25)?{byte:02x}" for byte in one.encode("utf-8", "replace")))
    return rf"\\{{0,3}}(?:{'|'.join(patterns)})"


NO_SECRETS = Secrets()
