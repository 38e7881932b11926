"""Logs that are faultless in their bytes and impossible in what they tell: an error with a line."""

import re
import zlib

import msgspec
import pytest

from effects.logs.contents import ContentFolder
from effects.logs.file import FileLog
from effects.logs.memory import MemoryLog
from effects.logs.port import LogDamaged, LogUnreadable, LogUnsound
from effects.logs.scan import read_log
from effects.logs.syscalls import SYSCALLS
from effects.replay import initial_of, read_header, redrive, restore, states
from nachalnik import ContextItem, Kernel
from nachalnik.checking import check
from reducers import chain
from reducers.statecodec import FINGERPRINT, encode_state
from tests.nachalnik.samples import make_log, rewritten

pytestmark = pytest.mark.timeout(20)
"""A jump in the numbers of five kilobytes once cost minutes."""

DEEP = b"[" * 100_000 + b"]" * 100_000
IMPOSSIBLE = (0, -1, 10**6, 2**63 - 1, 10**30)


@pytest.fixture
def path(tmp_path):
    make_log(tmp_path / "s.jsonl")
    return tmp_path / "s.jsonl"


def forged(path, old, new):
    """The position of the commit that was changed."""
    values = [value for _, value in read_log(path).commits]
    (position,) = [place for place, value in enumerate(values, 1) if old in value]
    rewritten(path, (old, new))
    return position


def with_header(path, header):
    values = [value for _, value in read_log(path).commits]
    line, link = chain.frame_header(header)
    lines = [line]
    for value in values:
        line, link = chain.frame_commit(link, value)
        lines.append(line)
    path.write_bytes(b"".join(lines))


def folded(path, **options):
    load = ContentFolder(SYSCALLS, str(path)).read
    with read_log(path) as view:
        values = (value for _, value in view.commits)
        first = initial_of(read_header(view))
        return [after for _, _, after in states(first, values, load, path=view.path, **options)]


def driven(path, **options):
    load = ContentFolder(SYSCALLS, str(path)).read
    with read_log(path) as view:
        values = (value for _, value in view.commits)
        return redrive(read_header(view), values, load, path=view.path, **options)


def refused(path, position, says, *readers):
    """Each reader names file, line and reason, and what to do; nothing is written."""
    data = path.read_bytes()
    for reader in (Kernel.open, *readers):
        with pytest.raises(LogUnsound) as caught:
            reader(path)
        told = str(caught.value)
        assert told.startswith(f"{path}, line {position + 1}: "), told
        assert re.search(says, told), told
        assert "`nachalnik check` tells what is sound" in told
        assert caught.value.line == position + 1
        assert isinstance(caught.value, LogDamaged)
    assert path.read_bytes() == data


def folded_thin(path):
    return folded(path, has_inputs=False)


@pytest.mark.parametrize("id", IMPOSSIBLE)
def test_an_impossible_id_of_an_item(path, id):
    position = forged(path, b'"item":{"id":2,', b'"item":{"id":%d,' % id)
    says = rf"position {position}: it does not fold: ValueError: {id} is not the id of an item"
    refused(path, position, says, folded, folded_thin)
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (position + 1, "fold")
    assert driven(path).divergence.position == position


@pytest.mark.parametrize("id", IMPOSSIBLE)
def test_an_impossible_id_of_a_question(path, id):
    position = forged(path, b'"id":1,"call":"a0"', b'"id":%d,"call":"a0"' % id)
    says = rf"position {position}: it does not fold: ValueError: {id} is not the id of a question"
    refused(path, position, says, folded, folded_thin)
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (position + 1, "fold")


@pytest.mark.parametrize("place", ["event", "input"])
def test_nesting_deeper_than_a_decoder_goes(path, place):
    old, new = b'"text":"Add them."}', b'"text":"Add them.","zz":' + DEEP + b"}"
    if place == "input":
        old, new = b'"input":{"tag":"turn.run"}', b'"input":{"tag":"turn.run","zz":' + DEEP + b"}"
    position = forged(path, old, new)
    refused(path, position, rf"position {position}: .*recursion", folded, folded_thin, driven)
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (position + 1, "fold")


def test_bytes_that_are_no_text(path):
    position = forged(path, b"Add them.", b"Add \xffhem.")
    says = rf"position {position}: it is not what this version writes: Invalid UTF-8"
    refused(path, position, says, folded, folded_thin, driven)


def test_an_event_of_another_version(path):
    position = forged(path, b'"tag":"policy.changed"', b'"tag":"policy.changad"')
    says = rf"position {position}: the event 'policy.changad' is not known to this version"
    refused(path, position, says, folded, folded_thin, driven)


def test_the_first_commit_is_folded_for_its_seams(path):
    """Before anything can be judged again."""
    old = b'"events":[{"tag":"session.started"'
    item = (
        b'{"tag":"context.added","seq":1,"item":{"id":0,"kind":{"tag":"user_message"},'
        b'"source":"user","label":"user","content":{"tag":"text","text":"x"},"tokens":1}},'
    )
    position = forged(path, old, old.replace(b"[", b"[" + item))
    assert position == 1
    refused(path, 1, "position 1: it does not fold: ValueError: 0 is", folded, driven)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"{}", "missing required field `log`"),
        (b'{"log":5,"session":"x","parent":null,"made_by":"y"}', "Expected `str`, got `int`"),
        (b'{"log":"a","zz":' + DEEP + b"}", "recursion"),
        (DEEP, ""),
    ],
    ids=["empty", "wrong", "deep", "brackets"],
)
def test_a_header_of_other_fields(path, header, says):
    with_header(path, header)
    refused(path, 0, rf"line 1: the header cannot be read: .*{says}", folded, driven)
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (1, "header")


def test_without_a_path_the_log_is_named_as_what_it_is(path):
    with read_log(path) as view:
        log = MemoryLog(view.header)
        for _, value in view.commits:
            log.append(value.replace(b'"item":{"id":2,', b'"item":{"id":0,'))
    with pytest.raises(LogUnsound, match=r"^the log, line 7: position 6: "):
        restore(log)


def test_a_bad_line_behind_many_is_counted_from_the_beginning(path):
    """They are decoded in batches."""
    with Kernel.open(path, durability="memory") as kernel:
        for n in range(150):
            kernel.push(ContextItem.user(f"<{n}>"))
        position = kernel.position
    assert forged(path, b'"text","text":"<149>"', b'"texd","text":"<149>"') == position
    refused(path, position, rf"position {position}: .*texd", folded)


def test_a_content_that_the_system_refuses_is_named(path):
    """By a loader that knows nothing of logs."""
    rewritten(
        path, (b'{"tag":"text","text":"Add them."}', b'{"tag":"stored","digest":"0","size":1}')
    )

    def load(digest):
        raise PermissionError(13, "Permission denied", f"{path}.d/{digest}")

    with read_log(path) as view:
        values = (value for _, value in view.commits)
        with pytest.raises(LogUnreadable, match=r"s\.jsonl\.d/0: the system refuses: Permission"):
            list(states(initial_of(read_header(view)), values, load))


# -- the state cache ---------------------------------------------------------------------------


@pytest.fixture
def cached(path):
    """A log with a state cache, and the state at its end."""
    with FileLog.open(path, "memory") as log:
        state = restore(log)
        log.write_cache(encode_state(state), FINGERPRINT)
    return path, path.with_name("s.jsonl.state"), state


def put(cache, state, **changes):
    """Another state in the place of the one that is kept, its checksum good."""
    head = msgspec.json.decode(cache.read_bytes().split(b"\n", 1)[0])
    head |= {"state_bytes": len(state), "checksum": f"{zlib.crc32(state):08x}", **changes}
    cache.write_bytes(msgspec.json.encode(head) + b"\n" + state)


def opened(path):
    with FileLog.open(path, "memory", FINGERPRINT) as log:
        return restore(log), log.cached_position, log.cache_problem


def test_a_good_cache_is_used(cached):
    path, _, state = cached
    assert opened(path) == (state, state.position, None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: b"[]", "its state cannot be read: ValidationError: "),
        (lambda _: b"{}", "its state cannot be read: ValidationError: "),
        (lambda raw: raw[:-5], "its state cannot be read: DecodeError: "),
        (lambda raw: raw[:-1] + b',"zz":' + DEEP + b"}", "its state cannot be read: RecursionErr"),
        (lambda raw: b"\xff" + raw, "its state cannot be read: "),
        (
            lambda raw: re.sub(rb'"position":\d+', b'"position":3', raw, count=1),
            "its state is that of another log or position",
        ),
        (
            lambda raw: re.sub(rb'"log":"\w+"', b'"log":"0011223344556677"', raw, count=1),
            "its state is that of another log or position",
        ),
    ],
    ids=["list", "object", "cut", "deep", "bytes", "position", "log"],
)
def test_a_cache_whose_state_is_none_is_ignored_and_the_reason_told(cached, change, says):
    path, cache, state = cached
    changed = change(encode_state(state))
    assert changed != encode_state(state)
    put(cache, changed)
    again, position, problem = opened(path)
    assert (again, position) == (state, 0)
    assert problem.startswith(says), problem
    with Kernel.open(path, durability="memory") as kernel:
        assert kernel._cached_at == 0, "closing writes a good one where it pays"
        assert kernel.state_at(state.position) == state


def test_a_cache_with_an_empty_state_is_ignored(cached):
    path, cache, state = cached
    put(cache, b"")
    assert opened(path) == (state, 0, "its first line has a number that cannot be true")


def test_a_cache_that_the_log_does_not_go_on_from_is_ignored(cached):
    path, cache, state = cached
    with Kernel.open(path, durability="memory") as kernel:
        kernel.undo()
    with FileLog.open(path, "memory") as log:
        whole = restore(log)
    plain = msgspec.json.decode(encode_state(state))
    plain["context"]["undo"] = [{"number": 1, "at": 1, "edits": [[0, None]]}]
    put(cache, msgspec.json.encode(plain))
    again, position, problem = opened(path)
    assert (again, position) == (whole, 0)
    assert problem.startswith("the log does not go on from it: position ")


def test_a_log_that_is_unsound_behind_a_good_cache_is_an_error(cached):
    path, _, state = cached
    with Kernel.open(path, durability="memory") as kernel:
        kernel.push(ContextItem.user("more"))
    lines = path.read_bytes().splitlines(keepends=True)
    position = len(lines) - 1
    assert position > state.position
    value = chain.value_of(lines[-1]).replace(b'"item":{"id":', b'"item":{"id":-')
    before = bytes.fromhex(lines[-2][10:42].decode())
    path.write_bytes(b"".join(lines[:-1]) + chain.frame_commit(before, value)[0])
    with pytest.raises(LogUnsound, match=f"line {position + 1}: position {position}: "):
        opened(path)
