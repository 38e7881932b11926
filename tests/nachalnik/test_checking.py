"""Checking: every flipped byte is found on its line, and what a log tells must hold together."""

import errno
import itertools
import os
import random
import re
from zlib import crc32

import pytest

from effects.logs.port import LogMissing, LogUnreadable, NewerLog, NotALog
from effects.logs.syscalls import Syscalls
from nachalnik import checking, redrawing
from nachalnik.checking import check, examine
from nachalnik.kernel import CACHE_EVERY
from reducers.statecodec import FINGERPRINT
from reducers.vocabulary.models import ModelResponse
from tests.nachalnik.samples import call, make_log, rewritten, rounds


@pytest.fixture
def path(tmp_path):
    make_log(tmp_path / "s.jsonl")
    return tmp_path / "s.jsonl"


def told(path) -> list[str]:
    return [str(finding) for finding in check(path)]


def test_a_log_without_fault_has_no_finding(path):
    found = examine(path)
    assert (found.findings, found.notes) == ((), ())
    assert found.commits == len(path.read_bytes().splitlines()) - 1
    assert found.events > found.commits


# -- bytes -------------------------------------------------------------------------------------


def flips(path, places) -> None:
    data = path.read_bytes()
    for place in places:
        for bit in (0, 5):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            try:
                lines = [finding.line for finding in check(path)]
            except (NewerLog, NotALog):
                assert place < data.index(b"\n"), "only the header says what a file is"
                continue
            line = data.count(b"\n", 0, place) + 1
            assert line in lines, f"byte {place}, bit {bit}: line {line}, not {lines}"
    path.write_bytes(data)


def test_flipped_bytes_are_found_on_their_line(path):
    size = path.stat().st_size
    newlines = [place for place, byte in enumerate(path.read_bytes()) if byte == 10]
    flips(path, [*random.Random(7).sample(range(size), 80), *newlines, size - 2])


@pytest.mark.deep
def test_every_flipped_byte_is_found_on_its_line(path):
    flips(path, range(path.stat().st_size))


def test_a_log_cut_anywhere_has_a_note_at_most(path):
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for size in [*random.Random(7).sample(range(first, len(data)), 40), first, len(data) - 1]:
        path.write_bytes(data[:size])
        found = examine(path)
        assert found.findings == ()
        begun = size - data.rfind(b"\n", 0, size) - 1
        is_whole = data[size : size + 1] == b"\n"
        assert [note.kind for note in found.notes] == (["bytes"] if begun and not is_whole else [])


def test_a_line_that_its_writer_ends_meanwhile_is_no_finding(path, monkeypatch):
    """`check` looks at the bytes first and folds them then; a log in use grows in between."""
    data = path.read_bytes()
    path.write_bytes(data[:-40])
    real = checking.check_log

    def scanned(path):
        found = list(real(path))
        assert found
        with open(path, "wb") as file:
            file.write(data)
        return found

    monkeypatch.setattr(checking, "check_log", scanned)
    found = examine(path)
    assert (found.findings, found.notes) == ((), ())


@pytest.mark.parametrize("change", ["repeated", "missing", "swapped", "foreign"])
def test_lines_that_are_not_where_they_were_are_found(path, change, tmp_path):
    lines = path.read_bytes().splitlines(keepends=True)
    match change:
        case "repeated":
            lines.insert(5, lines[4])
        case "missing":
            del lines[5]
        case "swapped":
            lines[5], lines[6] = lines[6], lines[5]
        case "foreign":  # the right position, and a chain of its own
            lines[5] = b'{"chain":"' + b"0" * 32 + b'","commit":{"position":5}}\n'
    path.write_bytes(b"".join(lines))
    assert [finding.line for finding in check(path)] == [6]


def test_what_is_no_log_is_not_checked(tmp_path):
    with pytest.raises(LogMissing):
        check(tmp_path / "absent")
    with pytest.raises(NotALog):
        check(tmp_path)
    (tmp_path / "text").write_text("hello\n" * 20)
    with pytest.raises(NotALog):
        check(tmp_path / "text")


# -- what the log tells ------------------------------------------------------------------------


def test_an_event_that_is_not_known_is_named_with_its_position(path):
    rewritten(path, (b'"tag":"model.finished"', b'"tag":"model.finishad"'))
    (finding,) = told(path)
    assert finding.startswith("line 9: fold: position 8: the event 'model.finishad' is not known")


def test_a_number_out_of_order_is_found(path):
    rewritten(path, (b'"tag":"model.finished","seq":', b'"tag":"model.finished","seq":1'))
    assert "order" in {finding.kind for finding in check(path)}


def test_a_request_that_does_not_draw_to_its_digest_is_found(path):
    rewritten(path, (b"Add them.", b"Add this."))
    assert "line 8: request: its digest was " in told(path)[0]


def test_a_figure_that_is_not_what_the_items_come_to_is_found(path):
    rewritten(path, (b'"messages":2,"tools":2', b'"messages":3,"tools":2'))
    assert told(path) == ["line 8: request: its number of messages was 3; drawn again it is 2"]


def test_a_result_that_is_missing_is_found(path):
    """Its call is asked again in a request that leaves it out, against what was recorded."""
    rewritten(
        path,
        (b'"kind":{"tag":"tool_result","call":"a0"', b'"kind":{"tag":"tool_result","call":"a9"'),
    )
    assert "request" in {finding.kind for finding in check(path)}


def test_a_second_start_without_an_order_is_found(path):
    found = re.search(rb'"tag":"tool.started"[^}]*"call":"b0"', path.read_bytes())
    rewritten(path, (found[0], found[0].replace(b"b0", b"a0")))
    assert any("call 'a0' is started again without an order" in text for text in told(path))


def test_a_second_result_for_a_call_is_found(path):
    found = re.search(rb'"tag":"tool.finished"[^}]*"call":"b0"', path.read_bytes())
    rewritten(path, (found[0], found[0].replace(b"b0", b"a0")))
    assert any("call 'a0' has 2 results" in text for text in told(path))


def test_another_name_in_the_first_commit_is_found(path):
    rewritten(path, (b'"session":"s","format"', b'"session":"t","format"'))
    assert told(path)[0].startswith("line 2: header: ")


def test_a_seam_that_is_gone_is_a_note(path):
    rewritten(path, (b"reducers.projection:LinearProjector", b"gone_away:Projector"))
    found = examine(path)
    assert found.findings == ()
    assert "gone_away:Projector" in found.notes[0].text


# -- large contents ----------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "l.jsonl"
    replies = (
        ModelResponse.of_calls(call("c1", "big", '{"size":300000}')),
        ModelResponse.of_text("It is long."),
    )
    make_log(path, *replies)
    (content,) = (tmp_path / "l.jsonl.d").iterdir()
    return path, content


def test_a_large_content_is_read_and_compared(large):
    path, content = large
    assert check(path) == []
    data = content.read_bytes()
    content.write_bytes(data.replace(b"x", b"y", 1))
    assert [(one.line, one.kind) for one in check(path)] == [(10, "content")]


def test_a_large_content_that_is_gone_is_found_with_its_line(large):
    path, content = large
    os.unlink(content)
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (10, "content")
    assert content.name in finding.text
    assert "missing" in finding.text


def test_a_content_that_no_commit_names_is_a_note(large):
    path, content = large
    (content.parent / "0123").write_bytes(b"what is this")
    found = examine(path)
    assert found.findings == ()
    assert [note.kind for note in found.notes] == ["content"]


def test_something_else_in_the_place_of_the_contents_is_found(path):
    folder = path.with_name("s.jsonl.d")
    folder.write_bytes(b"")
    assert told(path) == [f"content: {folder}: Not a directory"]


@pytest.mark.parametrize("name", ["open", "stat", "fstat", "pread", "names"])
def test_what_the_system_refuses_is_named(large, monkeypatch, name):
    """At each of its calls: it is a finding, or the error of a log that cannot be read."""
    path, _ = large
    path.write_bytes(path.read_bytes()[:-1] + b" ")  # so that its last byte is looked at too
    real = getattr(Syscalls, name)
    left = 0

    def refused(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(*arguments)

    monkeypatch.setattr(Syscalls, name, refused)
    met = 0
    for at in itertools.count(1):
        left = at
        try:
            texts = told(path)
        except LogUnreadable as error:
            texts = [str(error)]
        if left > 0:
            break
        met += any("Permission denied" in text and str(path) in text for text in texts)
    assert met > 0


# -- the state cache ---------------------------------------------------------------------------


@pytest.fixture
def cached(tmp_path):
    make_log(tmp_path / "c.jsonl", *rounds(CACHE_EVERY // 3))
    cache = tmp_path / "c.jsonl.state"
    assert cache.exists()
    return tmp_path / "c.jsonl", cache


def test_a_cache_is_compared_with_the_fold(cached):
    path, cache = cached
    assert check(path) == []
    head, state = cache.read_bytes().split(b"\n", 1)
    changed = state.replace(b"Be brief.", b"Be long..")
    head = head.replace(b"%08x" % crc32(state), b"%08x" % crc32(changed))
    cache.write_bytes(head + b"\n" + changed)
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (None, "cache")
    assert "not what the log folds to" in finding.text


def test_a_damaged_cache_is_found_and_a_foreign_one_a_note(cached):
    path, cache = cached
    data = cache.read_bytes()
    cache.write_bytes(data.replace(b"Be brief.", b"Be long.."))
    (finding,) = check(path)
    assert "checksum" in finding.text
    cache.write_bytes(data.replace(FINGERPRINT.encode(), b"another-one", 1))
    found = examine(path)
    assert found.findings == ()
    assert "another version" in found.notes[0].text


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_stands_in_the_place_of_the_cache_is_a_finding(path, what):
    cache = path.with_name("s.jsonl.state")
    os.mkfifo(cache) if what == "pipe" else cache.mkdir()
    (finding,) = check(path)
    assert (finding.line, finding.kind) == (None, "cache")
    reason = "it is no ordinary file" if what == "pipe" else "it is a folder"
    assert finding.text == f"{cache}: it cannot be read: {reason}; it can be deleted"


def test_a_state_that_cannot_be_looked_at_is_a_finding(cached, monkeypatch):
    """Whatever was forged: the rest is looked at all the same."""
    path, _ = cached

    def overflowing(state):
        raise OverflowError("too large")

    monkeypatch.setattr(checking, "encode_state", overflowing)
    (finding,) = check(path)
    assert finding.kind == "fold"
    assert finding.text.endswith("folds to what cannot be used: OverflowError: too large")


def test_a_long_log_is_checked_in_time_that_grows_with_it(tmp_path, monkeypatch):
    """A request is not looked at from its beginning when only its end is new."""
    looked: list[int] = []
    real = redrawing.pairing_problem

    def counted(messages):
        looked.append(len(messages))
        return real(messages)

    monkeypatch.setattr(redrawing, "pairing_problem", counted)
    make_log(tmp_path / "n.jsonl", *rounds(150))
    assert check(tmp_path / "n.jsonl") == []
    assert len(looked) == 151
    assert max(looked) < 100
