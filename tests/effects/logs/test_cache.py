"""The state cache: used when it is right, ignored and named when it is wrong in any way."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effects.logs.cache import Cache, CacheHead, cache_file
from effects.logs.file import FileLog
from effects.logs.port import LogDamaged
from effects.logs.scan import check_log
from effects.logs.syscalls import Syscalls
from tests.effects.logs.samples import HEADER, commit, commits, everything, stored, write_log

STATE = b"an encoded state\n\0 of any bytes"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.log"


def cached_log(path, at, count, state=STATE):
    """A closed log of `count` commits with a cache written at commit `at`."""
    with FileLog.create(path, HEADER, "memory") as log:
        for value in commits(1, at):
            log.append(value)
        log.write_cache(state, "v1")
        assert log.cache_problem is None
        for value in commits(at + 1, count):
            log.append(value)


def state_file(path):
    return path.with_name("demo.log.state")


def ignored(path, count, problem, fingerprint="v1"):
    """Open, see that the cache was ignored for this reason and the log is all there."""
    with FileLog.open(path, "memory", fingerprint) as log:
        assert log.read_cache() is None
        assert log.cache_problem is not None
        assert problem in log.cache_problem
        assert list(log.values()) == commits(1, count)
        log.append(commit(count + 1))
    assert stored(path) == commits(1, count + 1)


# -- used ------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "count"), [(1, 1), (3, 3), (3, 7), (300, 1000)])
def test_a_good_cache_is_gone_on_from(path, at, count):
    cached_log(path, at, count)
    with FileLog.open(path, "memory", "v1") as log:
        assert log.cache_problem is None
        assert log.position == count
        cache = log.read_cache()
        assert cache == Cache(at, "v1", STATE)
        assert list(log.values(cache.position)) == commits(at + 1, count)
        assert list(log.values()) == commits(1, count)
        log.append(commit(count + 1))
        assert list(log.values(at)) == commits(at + 1, count + 1)
    with FileLog.open(path, "memory") as log:
        assert list(log.values()) == commits(1, count + 1)
    assert list(check_log(path)) == []


def test_the_cache_is_given_once(path):
    cached_log(path, 2, 2)
    with FileLog.open(path, fingerprint="v1") as log:
        assert log.read_cache() is not None
        assert log.read_cache() is None


def test_without_a_cache_or_a_fingerprint_nothing_is_wrong(path):
    write_log(path, 2)
    with FileLog.open(path, fingerprint="v1") as log:
        assert (log.read_cache(), log.cache_problem) == (None, None)
        log.write_cache(STATE, "v1")
    with FileLog.open(path) as log:
        assert (log.read_cache(), log.cache_problem) == (None, None)


def test_a_later_cache_replaces_an_earlier_one(path):
    cached_log(path, 2, 5)
    with FileLog.open(path, fingerprint="v1") as log:
        log.write_cache(b"later", "v2")
    with FileLog.open(path, fingerprint="v2") as log:
        assert log.read_cache() == Cache(5, "v2", b"later")


def test_a_cache_written_right_after_opening_is_good(path):
    """Both after reading the last line and after having skipped it."""
    cached_log(path, 3, 3)
    for state in (b"one", b"two"):
        with FileLog.open(path, fingerprint="v1") as log:
            log.write_cache(state, "v1")
        with FileLog.open(path, fingerprint="v1") as log:
            assert log.read_cache() == Cache(3, "v1", state)
    with FileLog.open(path) as log:
        log.write_cache(b"three", "v1")
    with FileLog.open(path, fingerprint="v1") as log:
        assert log.read_cache() == Cache(3, "v1", b"three")


def test_a_cache_is_good_behind_a_commit_whose_newline_was_mended(path):
    whole = write_log(path, 2)
    path.write_bytes(whole[:-1] + b"torn")
    with FileLog.open(path) as log:
        log.write_cache(STATE, "v1")
    with FileLog.open(path, fingerprint="v1") as log:
        assert log.read_cache() == Cache(2, "v1", STATE)


def test_before_the_first_commit_there_is_nothing_to_cache(path):
    with FileLog.create(path, HEADER) as log:
        log.write_cache(STATE, "v1")
    assert not state_file(path).exists()


class Counting(Syscalls):
    def __init__(self):
        self.bytes_read = 0

    def pread(self, fd, size, offset):
        data = super().pread(fd, size, offset)
        self.bytes_read += len(data)
        return data


def test_opening_with_a_cache_reads_the_cache_the_header_and_the_tail(path):
    with FileLog.create(path, HEADER, "memory") as log:
        for position in range(1, 2001):
            log.append(commit(position, "x" * 1000))
        log.write_cache(b"s" * 50_000, "v1")
        before = path.stat().st_size
        for position in range(2001, 2021):
            log.append(commit(position, "x" * 1000))
    tail = path.stat().st_size - before
    calls = Counting()
    with FileLog.open(path, "memory", "v1", calls) as log:
        values = list(log.values(log.read_cache().position))
        assert values == [commit(position, "x" * 1000) for position in range(2001, 2021)]
        calls.bytes_read, read = 0, calls.bytes_read
        log.append(commit(2021))
        assert list(log.values(2010))[-1] == commit(2021)
        assert calls.bytes_read <= tail * 1.1
    cache = state_file(path).stat().st_size
    line = tail // 20
    header = 2 * 4096 + 2 * 64  # its block, looked at before and after the lock was taken
    assert read <= cache + tail + line + header


# -- ignored ---------------------------------------------------------------------------


def test_ckpt_06_a_cache_newer_than_the_log(path):
    cached_log(path, 20, 20)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:18]))
    ignored(path, 17, "newer than the log, which ends before position 20")


def test_ckpt_06_an_empty_cache(path):
    cached_log(path, 3, 5)
    state_file(path).write_bytes(b"")
    ignored(path, 5, "it is empty")


def test_ckpt_06_a_cache_of_another_session(path, tmp_path):
    other = tmp_path / "other" / "demo.log"
    with FileLog.create(other, b'{"log":"ffffffffffffffff","session":"demo"}', "memory") as log:
        for value in commits(1, 3):
            log.append(value)
        log.write_cache(STATE, "v1")
    write_log(path, 5)
    state_file(path).write_bytes(state_file(other).read_bytes())
    ignored(path, 5, "the log holds something else at position 3")


def test_a_cache_of_a_log_that_went_another_way(path):
    """The log was cut and grew again, past the place of the cache."""
    cached_log(path, 5, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    with FileLog.open(path, "memory") as log:
        log.append(commit(3, "y"))
        for value in commits(4, 8):
            log.append(value)
    with FileLog.open(path, "memory", "v1") as log:
        assert log.read_cache() is None
        assert "something else at position 5" in log.cache_problem
        assert list(log.values(2)) == [commit(3, "y"), *commits(4, 8)]


def test_a_cache_of_another_version(path):
    cached_log(path, 3, 5)
    ignored(path, 5, "its fingerprint differs", fingerprint="v2")


@pytest.mark.parametrize("length", [1, 20, 100, -1])
def test_a_cut_cache(path, length):
    cached_log(path, 3, 5)
    whole = state_file(path).read_bytes()
    state_file(path).write_bytes(whole[:length])
    ignored(path, 5, "its ")


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, ord("a") ^ ord("\n")])
def test_every_changed_byte_of_a_cache_is_noticed(path, mask):
    cached_log(path, 3, 4)
    whole = state_file(path).read_bytes()
    for place in range(len(whole)):
        state_file(path).write_bytes(
            whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
        )
        with FileLog.open(path, "memory", "v1") as log:
            cache = log.read_cache()
            if cache is None:
                assert log.cache_problem is not None
            else:  # hexadecimal digits may change their case and still say the same
                assert bytes([whole[place]]).isalpha()
                assert cache == Cache(3, "v1", STATE)
            assert list(log.values()) == commits(1, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": 0},
        {"offset": -1},
        {"offset": 10**9},
        {"size": 10},
        {"size": 10**9},
        {"position": 0},
        {"position": 2},
        {"position": -3},
        {"chain": "00" * 16},
        {"chain": ""},
        {"chain": "no"},
        {"state_bytes": -1},
        {"state_bytes": 10**9},
        {"state_cache": 2},
        {"checksum": "00" * 16},
        {"position": "three"},
    ],
)
def test_a_cache_that_lies_is_ignored(path, changes):
    cached_log(path, 3, 5)
    first, _, state = state_file(path).read_bytes().partition(b"\n")
    head = json.dumps({**json.loads(first), **changes}).encode()
    state_file(path).write_bytes(head + b"\n" + state)
    ignored(path, 5, "")


HUGE = 10**19
"""Beyond 64 bits."""
FIELDS = tuple(field.name for field in msgspec.structs.fields(CacheHead))
NUMBERS = (
    st.integers(-2, 7)
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([HUGE, -HUGE, 2**63, -(2**63), 10**1000])
)
WRONG = NUMBERS | st.none() | st.booleans() | st.floats() | st.text(max_size=40)


@pytest.fixture(scope="module")
def lying(tmp_path_factory):
    """A log with a cache; what the cache's first line says, and its state."""
    path = tmp_path_factory.mktemp("lying") / "demo.log"
    cached_log(path, 3, 5)
    first, _, state = state_file(path).read_bytes().partition(b"\n")
    return path, json.loads(first), state


@given(
    changes=st.dictionaries(st.sampled_from(FIELDS), WRONG, min_size=1),
    end=st.sampled_from([b"\n", b""]),
)
@example(changes={"offset": -HUGE}, end=b"\n")
@example(changes={"offset": HUGE, "size": 10}, end=b"\n")
@example(changes={"state_bytes": -1, "checksum": "00000000"}, end=b"")
def test_no_first_line_of_a_cache_keeps_a_log_from_opening(lying, changes, end):
    path, head, state = lying
    data = json.dumps({**head, **changes}).encode() + end
    state_file(path).write_bytes(data + (state if end else b""))
    with FileLog.open(path, "memory", "v1") as log:
        cache = log.read_cache()
        assert (cache is None) == (log.cache_problem is not None)
        assert cache in (None, Cache(3, "v1", STATE))
        assert list(log.values()) == commits(1, 5)


def test_a_cache_that_cannot_be_read(path):
    write_log(path, 5)
    state_file(path).mkdir()
    ignored(path, 5, "it cannot be read")


def test_a_cache_that_cannot_be_written_is_no_error(path):
    write_log(path, 2)
    state_file(path).mkdir()
    with FileLog.open(path, "memory") as log:
        log.write_cache(STATE, "v1")
        assert "could not be written" in log.cache_problem
        log.append(commit(3))
    assert stored(path) == commits(1, 3)


# -- the log behind the cache ----------------------------------------------------------


def test_damage_behind_the_cache_is_found_with_its_line(path):
    cached_log(path, 3, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"x"', b'"y"')
    path.write_bytes(b"".join(lines))
    before = everything(path.parent)
    with pytest.raises(LogDamaged, match="line 6:"):
        FileLog.open(path, "memory", "v1")
    assert {**everything(path.parent), **before} == everything(path.parent)


def test_damage_before_the_cache_is_found_when_it_is_read(path):
    cached_log(path, 3, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"x"', b'"y"')
    path.write_bytes(b"".join(lines))
    with FileLog.open(path, "memory", "v1") as log:
        assert log.read_cache() == Cache(3, "v1", STATE)
        assert list(log.values(3)) == commits(4, 6)
        with pytest.raises(LogDamaged, match="line 3:"):
            list(log.values(0))
    assert [finding.line for finding in check_log(path)] == [3]
    with pytest.raises(LogDamaged, match="line 3:"):
        FileLog.open(path, "memory")


def test_a_torn_tail_behind_the_cache_is_set_aside(path):
    cached_log(path, 3, 5)
    with path.open("ab") as file:
        file.write(b"torn")
    with FileLog.open(path, "memory", "v1") as log:
        assert (log.position, log.torn, log.read_cache().position) == (5, 4, 3)
        log.append(commit(6))
    assert stored(path) == commits(1, 6)


def test_a_cache_can_be_deleted(path):
    cached_log(path, 3, 5)
    state_file(path).unlink()
    assert cache_file(str(path)) == str(state_file(path))
    with FileLog.open(path, "memory", "v1") as log:
        assert (log.read_cache(), log.cache_problem) == (None, None)
        assert list(log.values()) == commits(1, 5)
