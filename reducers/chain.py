"""The chain that ties the lines of a log together (format 1). Bytes in, bytes out; no JSON is read.

A line is fixed wrapper bytes around one raw JSON value:

    {"nachalnik":1,"chain":"<32 hex>","header":<value>}     the first line
    {"chain":"<32 hex>","commit":<value>}                   every other line

The chain of a line is BLAKE2b-128 over the 16 raw bytes of the chain before it (zeros for the first
line) and the raw bytes of its value, stored as 32 lower-case hexadecimal digits and compared as
those bytes. It detects a flipped bit, a lost, repeated or moved line and a foreign tail; it does
not authenticate.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

FORMAT: Final = 1
CHAIN_BYTES: Final = 16
GENESIS: Final = bytes(CHAIN_BYTES)

_FORMAT_KEY = b'{"nachalnik":'
_CHAIN_KEY = b'"chain":"'
_HEADER_OPENING = _FORMAT_KEY + b"%d," % FORMAT + _CHAIN_KEY
_HEADER_MIDDLE = b'","header":'
_COMMIT_OPENING = b"{" + _CHAIN_KEY
_COMMIT_MIDDLE = b'","commit":'
_ENDING = b"}\n"

_BLANK = blake2b(digest_size=CHAIN_BYTES)
"""Copied, it is a hash sooner than a new one, and takes its bytes where they are."""

_HEX_BYTES = 2 * CHAIN_BYTES
_HEADER_HEX_END = len(_HEADER_OPENING) + _HEX_BYTES
_HEADER_VALUE = _HEADER_HEX_END + len(_HEADER_MIDDLE)
_COMMIT_HEX = len(_COMMIT_OPENING)
_COMMIT_HEX_END = _COMMIT_HEX + _HEX_BYTES
_COMMIT_VALUE = _COMMIT_HEX_END + len(_COMMIT_MIDDLE)

_VALUE_OPENING = b'{"at":'
_STAMP_BYTES_MAX = 32
"""Room for the digits of a commit's time stamp; 64 bits need 20."""
_FORMAT_DIGITS_MAX = 9

HEAD_BYTES: Final = 64
"""How much of a file's beginning `is_ours` wants to see."""


class Damage(Exception):
    """A line that is not what was written; `reason` says in what way."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class NewerFormat(Exception):
    """A header of a format this version does not know."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"format {number}; this version reads format {FORMAT}")


# -- writing ---------------------------------------------------------------------------


def link(previous: bytes, value: bytes) -> bytes:
    """The chain after `value`: 16 raw bytes."""
    return blake2b(previous + value, digest_size=CHAIN_BYTES).digest()


def frame_header(value: bytes) -> tuple[bytes, bytes]:
    """The first line, its newline included, and its chain. A newline in the value: ValueError."""
    return _frame(_HEADER_OPENING, _HEADER_MIDDLE, GENESIS, value)


def frame_commit(previous: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The line of one commit, its newline included, and its chain. Newline inside: ValueError."""
    return _frame(_COMMIT_OPENING, _COMMIT_MIDDLE, previous, value)


def _frame(opening: bytes, middle: bytes, previous: bytes, value: bytes) -> tuple[bytes, bytes]:
    if b"\n" in value:
        raise ValueError("a value with a newline would be two lines of the log")
    chain = blake2b(previous + value, digest_size=CHAIN_BYTES).digest()
    return b"".join((opening, chain.hex().encode(), middle, value, _ENDING)), chain


def has_position(value: bytes, position: int) -> bool:
    """Whether a commit's raw value begins `{"at":<stamp>,"position":<position>,`."""
    comma = value.find(b",", len(_VALUE_OPENING), _STAMP_BYTES_MAX)
    return value.startswith(b',"position":%d,' % position, comma) and value.startswith(
        _VALUE_OPENING
    )


# -- reading one line ------------------------------------------------------------------


def open_header(line: bytes) -> tuple[bytes, bytes]:
    """Value and chain of the first line, newline included. Raises `Damage`, `NewerFormat`."""
    refuse_newer(line)
    if not line.startswith(_HEADER_OPENING):
        raise Damage("it is not a header: its first bytes are changed or the header line is lost")
    value = line[_HEADER_VALUE : -len(_ENDING)]
    chain = link(GENESIS, value)
    stored = line[len(_HEADER_OPENING) : _HEADER_HEX_END]
    _compare(line, line[_HEADER_HEX_END:_HEADER_VALUE] == _HEADER_MIDDLE, stored, chain)
    return value, chain


def open_commit(previous: bytes, line: bytes) -> tuple[bytes, bytes]:
    """Value and chain of a commit's line, newline included. Raises `Damage`."""
    if not line.startswith(_COMMIT_OPENING):
        raise Damage("its first bytes are not those of a commit")
    value = line[_COMMIT_VALUE : -len(_ENDING)]
    chain = link(previous, value)
    stored = line[_COMMIT_HEX:_COMMIT_HEX_END]
    _compare(line, line[_COMMIT_HEX_END:_COMMIT_VALUE] == _COMMIT_MIDDLE, stored, chain)
    return value, chain


def is_line_of(line: bytes, chain: bytes, position: int) -> bool:
    """Whether these bytes look like the one line of a commit that has this chain and position.

    For a reader that does not know the chain before it, and so cannot verify the value.
    """
    opening = b"".join((_COMMIT_OPENING, chain.hex().encode(), _COMMIT_MIDDLE))
    return (
        line.startswith(opening)
        and line.find(b"\n") == len(line) - 1
        and line.endswith(_ENDING)
        and has_position(value_of(line), position)
    )


def value_of(line: bytes) -> bytes:
    """The value in a commit's line that is known to be whole."""
    return line[_COMMIT_VALUE : -len(_ENDING)]


def _compare(line: bytes, is_wrapped: bool, stored: bytes, chain: bytes) -> None:
    """Raise `Damage` with the first of three reasons that holds."""
    if not line.endswith(_ENDING):
        raise Damage("its end is missing or changed")
    if not is_wrapped:
        raise Damage("the fixed bytes between chain and value are changed")
    if stored != chain.hex().encode():
        told = stored.decode("ascii", "backslashreplace")
        raise Damage(f"the chain stored is {told}, the chain of these bytes is {chain.hex()}")


def refuse_newer(beginning: bytes) -> None:
    """Raise `NewerFormat` when a file begins as a log of a later format does."""
    if beginning.startswith(_FORMAT_KEY):
        after = len(_FORMAT_KEY)
        digits, comma, _ = beginning[after : after + _FORMAT_DIGITS_MAX + 1].partition(b",")
        if comma and digits.isdigit() and int(digits) > FORMAT:
            raise NewerFormat(int(digits))


def is_ours(head: bytes) -> bool:
    """Whether a file with these first bytes was a log once, however damaged its first line is.

    One damaged byte cannot hide both words of the wrapper, and a log that lost its first line
    begins with the second.
    """
    return _FORMAT_KEY[1:] in head or _CHAIN_KEY in head


def is_torn_header(content: bytes) -> bool:
    """Whether a whole file is what a crash leaves of a log's creation: it holds no commit."""
    is_prefix = _HEADER_OPENING.startswith(content) or content.startswith(_HEADER_OPENING)
    return is_prefix and b"\n" not in content and begin_header(content) is None


# -- reading what a crash left ---------------------------------------------------------


def begin_header(tail: bytes) -> tuple[bytes, bytes, int] | None:
    """Value, chain and length (without newline) of the whole header that `tail` begins with."""
    return _begin(GENESIS, tail, _HEADER_OPENING, _HEADER_MIDDLE)


def begin_commit(previous: bytes, position: int, tail: bytes) -> tuple[bytes, bytes, int] | None:
    """The same for a commit at `position`; None when `tail` begins with no whole commit."""
    begun = _begin(previous, tail, _COMMIT_OPENING, _COMMIT_MIDDLE)
    return begun if begun is not None and has_position(begun[0], position) else None


def _begin(
    previous: bytes, tail: bytes, opening: bytes, middle: bytes
) -> tuple[bytes, bytes, int] | None:
    # Where the value ends is not known: whatever follows may be garbage of any kind. So each brace
    # is tried as the one that closes the line, hashing on from brace to brace: one pass.
    hex_end = len(opening) + _HEX_BYTES
    start = hex_end + len(middle)
    if not tail.startswith(opening) or tail[hex_end:start] != middle:
        return None
    stored = tail[len(opening) : hex_end]
    running = blake2b(previous, digest_size=CHAIN_BYTES)
    hashed = start
    brace = tail.find(b"}", start)
    while brace >= 0:
        running.update(tail[hashed:brace])
        hashed = brace
        if running.hexdigest().encode() == stored:
            return tail[start:brace], running.digest(), brace + 1
        brace = tail.find(b"}", brace + 1)
    return None


# -- reading many lines ----------------------------------------------------------------


class Verifier:
    """Opens the lines of commits in their order; `chain` and `position` are those of the last."""

    __slots__ = ("chain", "position")

    def __init__(self, chain: bytes, position: int = 0) -> None:
        self.chain = chain
        self.position = position

    def open(self, line: bytes) -> bytes:
        """The raw value of the next line. Raises `Damage`, and then stands where it stood."""
        position = self.position + 1
        value = line[_COMMIT_VALUE : -len(_ENDING)]
        running = _BLANK.copy()
        running.update(self.chain)
        running.update(value)
        chain = running.digest()
        opening = b"".join((_COMMIT_OPENING, chain.hex().encode(), _COMMIT_MIDDLE, _VALUE_OPENING))
        comma = line.find(b",", len(opening), _COMMIT_VALUE + _STAMP_BYTES_MAX)
        if not (
            line.startswith(opening)
            and line.startswith(b',"position":%d,' % position, comma)
            and line.endswith(_ENDING)
        ):
            open_commit(self.chain, line)  # says what is wrong with it, if it is not its place
            raise Damage(f"position {position} is due here, and this commit is not it")
        self.chain = chain
        self.position = position
        return value


def open_commits(lines: Iterable[bytes], chain: bytes, position: int = 0) -> Iterator[bytes]:
    """The raw values of many lines, each verified before it is given. Raises `Damage`."""
    return map(Verifier(chain, position).open, lines)
