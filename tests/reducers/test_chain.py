"""The chain of a log's lines: what verifies, what does not, and what is said about it."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers import chain as chains
from reducers.chain import Damage, NewerFormat, Verifier

SAMPLE = Path(__file__).with_name("chain_sample.jsonl").read_bytes().splitlines(keepends=True)
"""The sample log of format 1: a header and nine commits, made by other hands."""
HEADER, COMMITS = SAMPLE[0], SAMPLE[1:]


def value_at(position, text="x"):
    return b'{"at":1764540000000,"position":%d,"text":%s}' % (position, json.dumps(text).encode())


def a_log(count):
    """Lines of a header and `count` commits, and the chain after each."""
    line, chain = chains.frame_header(b'{"session":"demo"}')
    lines, states = [line], [chain]
    for position in range(1, count + 1):
        line, chain = chains.frame_commit(chain, value_at(position))
        lines.append(line)
        states.append(chain)
    return lines, states


# -- the sample ------------------------------------------------------------------------


def test_the_sample_log_verifies():
    header, chain = chains.open_header(HEADER)
    assert json.loads(header)["session"] == "demo"
    assert chain.hex() == "00a9ad7fd661918e621d9c55f3f04832"
    values = list(chains.open_commits(COMMITS, chain))
    assert [json.loads(value)["position"] for value in values] == list(range(1, 10))
    assert len(COMMITS) == 9


def test_the_sample_log_is_what_framing_writes():
    header, chain = chains.open_header(HEADER)
    assert chains.frame_header(header) == (HEADER, chain)
    for line in COMMITS:
        value, after = chains.open_commit(chain, line)
        assert chains.frame_commit(chain, value) == (line, after)
        chain = after
    assert chain.hex() == "237f9b7e91f0259b973a3f0aa1ff9de5"


def test_a_chain_is_blake2b_over_the_one_before_and_the_value():
    expected = hashlib.blake2b(bytes(16) + b"value", digest_size=16).digest()
    assert chains.link(chains.GENESIS, b"value") == expected
    assert chains.link(bytes(16), b"value") == expected


# -- one line --------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_every_changed_byte_of_a_line_is_damage(mask):
    (header, line), (chain, _) = a_log(1)
    for place in range(len(header)):
        with pytest.raises((Damage, NewerFormat)):
            chains.open_header(changed(header, place, mask))
    for place in range(len(line)):
        with pytest.raises(Damage):
            chains.open_commit(chain, changed(line, place, mask))


def changed(line, place, mask):
    return line[:place] + bytes([line[place] ^ mask]) + line[place + 1 :]


def test_every_cut_of_a_line_is_damage():
    (header, line), (chain, _) = a_log(1)
    for length in range(len(header)):
        with pytest.raises(Damage):
            chains.open_header(header[:length])
    for length in range(len(line)):
        with pytest.raises(Damage):
            chains.open_commit(chain, line[:length])


def test_upper_case_digits_are_damage():
    (_, line), (chain, _) = a_log(1)
    digits = line[10:42]
    assert digits.upper() != digits
    with pytest.raises(Damage, match=f"stored is {digits.upper().decode()}"):
        chains.open_commit(chain, line.replace(digits, digits.upper()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: line[1:], "first bytes are not those of a commit"),
        (lambda line: line[:-1], "end is missing"),
        (lambda line: line.replace(b'"commit"', b'"Commit"'), "fixed bytes between"),
        (lambda line: line.replace(b"demo", b"deml"), "the chain of these bytes is"),
    ],
)
def test_damage_says_what_is_wrong(change, reason):
    line, _ = chains.frame_commit(chains.GENESIS, b'{"session":"demo"}')
    with pytest.raises(Damage, match=reason):
        chains.open_commit(chains.GENESIS, change(line))


@pytest.mark.parametrize("number", [2, 3, 10, 999_999_999])
def test_a_later_format_is_named(number):
    line = HEADER.replace(b'"nachalnik":1,', b'"nachalnik":%d,' % number)
    with pytest.raises(NewerFormat) as caught:
        chains.open_header(line)
    assert caught.value.number == number


@pytest.mark.parametrize("number", [b"0", b"-2", b"x", b"", b"1.5", b"2 ", b"12345678901"])
def test_what_is_no_later_format_is_damage(number):
    with pytest.raises(Damage):
        chains.open_header(HEADER.replace(b'"nachalnik":1,', b'"nachalnik":' + number + b","))


def test_a_newline_in_a_value_is_refused():
    with pytest.raises(ValueError, match="newline"):
        chains.frame_commit(chains.GENESIS, b'{"at":1,\n"position":1,"x":1}')
    with pytest.raises(ValueError, match="newline"):
        chains.frame_header(b"{}\n")


@pytest.mark.parametrize(
    ("value", "is_first"),
    [
        (b'{"at":1764540000007,"position":1,"events":[]}', True),
        (b'{"at":0,"position":1,"events":[]}', True),
        (b'{"at":-5,"position":1,"events":[]}', True),
        (b'{"at":1764540000007,"position":2,"events":[]}', False),
        (b'{"at":1764540000007,"position":11,"events":[]}', False),
        (b'{"at":1764540000007,"position":"1","events":[]}', False),
        (b'{"at":1764540000007,"position":1', False),
        (b'{"position":1,"at":1764540000007,"events":[]}', False),
        (b'{"at":1764540000007, "position":1,"events":[]}', False),
        (b'{"no":1764540000007,"position":1,"events":[]}', False),
        (b"", False),
    ],
)
def test_the_position_is_read_from_the_first_bytes(value, is_first):
    assert chains.has_position(value, 1) is is_first


def test_a_line_can_be_recognised_without_the_chain_before_it():
    lines, states = a_log(3)
    assert chains.is_line_of(lines[2], states[2], 2)
    assert not chains.is_line_of(lines[2], states[1], 2)
    assert not chains.is_line_of(lines[2], states[2], 3)
    assert not chains.is_line_of(lines[2][:-1], states[2], 2)
    assert not chains.is_line_of(lines[2] + lines[3], states[2], 2)
    assert not chains.is_line_of(b"", states[2], 2)
    assert chains.value_of(lines[2]) == value_at(2)


# -- many lines ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "good"),
    [
        ([1, 2, 3, 4], 4),
        ([1, 2, 4], 2),
        ([2, 3, 4], 0),
        ([1, 1, 2], 1),
        ([1, 2, 2, 3], 2),
        ([1, 3, 2, 4], 1),
        ([1, 2, 3, 1], 3),
    ],
)
def test_a_lost_repeated_or_moved_line_is_found_where_it_stands(order, good):
    lines, states = a_log(4)
    verifier = Verifier(states[0])
    for position, number in enumerate(order[:good], 1):
        assert verifier.open(lines[number]) == value_at(position)
    if good < len(order):
        with pytest.raises(Damage):
            verifier.open(lines[order[good]])
    assert (verifier.position, verifier.chain) == (good, states[good])


def test_a_gap_in_positions_is_damage_even_where_the_chain_holds():
    _, chain = chains.frame_header(b"{}")
    first, chain_1 = chains.frame_commit(chain, value_at(1))
    third, _ = chains.frame_commit(chain_1, value_at(3))
    verifier = Verifier(chain)
    verifier.open(first)
    with pytest.raises(Damage, match="position 2 is due"):
        verifier.open(third)
    assert (verifier.position, verifier.chain) == (1, chain_1)


def test_verifying_can_begin_anywhere():
    lines, states = a_log(5)
    values = list(chains.open_commits(lines[4:], states[3], 3))
    assert values == [value_at(4), value_at(5)]


# -- what a crash left -----------------------------------------------------------------

texts = st.text(alphabet='{}",:\\ab\u2028é', max_size=30)
garbage = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"}"))


@given(text=texts, behind=garbage)
def test_a_whole_commit_is_found_at_the_beginning_of_a_tail(text, behind):
    value = value_at(1, text)
    line, chain = chains.frame_commit(chains.GENESIS, value)
    begun = chains.begin_commit(chains.GENESIS, 1, line[:-1] + behind)
    assert begun == (value, chain, len(line) - 1)


@given(text=texts, behind=garbage)
def test_a_whole_header_is_found_at_the_beginning_of_a_tail(text, behind):
    value = value_at(1, text)
    line, chain = chains.frame_header(value)
    assert chains.begin_header(line[:-1] + behind) == (value, chain, len(line) - 1)


@given(text=texts)
def test_a_cut_commit_is_found_nowhere(text):
    line, _ = chains.frame_commit(chains.GENESIS, value_at(1, text))
    for length in range(len(line) - 1):
        assert chains.begin_commit(chains.GENESIS, 1, line[:length]) is None
        assert chains.begin_commit(chains.GENESIS, 1, line[:length] + b"\0" * 64) is None


def test_a_whole_commit_of_another_place_is_not_taken():
    line, _ = chains.frame_commit(chains.GENESIS, value_at(2))
    assert chains.begin_commit(chains.GENESIS, 2, line[:-1]) is not None
    assert chains.begin_commit(chains.GENESIS, 1, line[:-1]) is None
    assert chains.begin_commit(bytes(15) + b"\1", 2, line[:-1]) is None


def test_each_beginning_of_a_header_is_a_torn_creation_but_the_whole_is_not():
    for length in range(len(HEADER) - 1):
        assert chains.is_torn_header(HEADER[:length])
    assert not chains.is_torn_header(HEADER[:-1])
    assert not chains.is_torn_header(HEADER)


@pytest.mark.parametrize("content", [b"hello", b"{", b'{"nachalnik":2,"chain":"', b"\n", b"\0\0"])
def test_other_contents_are_no_torn_creation_unless_a_header_begins_so(content):
    assert chains.is_torn_header(content) is (content == b"{")


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (HEADER, True),
        (COMMITS[0], True),
        (b"\n" + HEADER, True),
        (HEADER.replace(b'"nachalnik"', b'"nAchalnik"'), True),
        (HEADER.replace(b'"chain"', b'"chAin"'), True),
        (b"", False),
        (b"nachalnik is a kernel", False),
        (b'{"id":1,"role":"user"}', False),
    ],
)
def test_one_damaged_byte_does_not_make_a_log_foreign(head, is_ours):
    assert chains.is_ours(head[: chains.HEAD_BYTES]) is is_ours
