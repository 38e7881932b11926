"""The log as a file: what creating and opening do with whatever they find."""

import errno
import gc
import os
import stat
import threading

import pytest

from effects.logs import opening
from effects.logs.file import FileLog
from effects.logs.port import (
    LogDamaged,
    LogError,
    LogExists,
    LogMissing,
    LogUnreadable,
    LogUnusable,
    LogWriteFailed,
    NewerLog,
    NotALog,
)
from effects.logs.scan import read_log
from effects.logs.syscalls import Syscalls
from reducers import chain as chains
from tests.effects.logs.faults import Faults
from tests.effects.logs.samples import (
    HEADER,
    commit,
    commits,
    everything,
    large,
    stored,
    write_log,
)

HEADER_LINE, _ = chains.frame_header(HEADER)
SEVERAL = [0x01, 0x20, 0x80, ord("\n") ^ ord("}"), ord("a") ^ ord("\n")]
"""Masks tried on every byte; the last two also make and unmake newlines."""
ALL = range(1, 256)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.log"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# -- creating --------------------------------------------------------------------------


def test_files_are_for_their_owner_alone_from_the_first_moment(tmp_path):
    path = tmp_path / "above" / "store" / "demo.log"
    before = os.umask(0)
    try:
        with FileLog.create(path, HEADER) as log:
            log.append(commit(1), [large("content")])
            log.write_cache(b"state", "fingerprint")
            modes = {mode(found) for found in path.parent.rglob("*") if found.is_file()}
            names = {found.name for found in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert names == {f"demo.log{end}" for end in ("", ".lock", ".owner", ".state", ".d")}
    assert modes == {0o600}
    assert (
        mode(path.parent) == mode(path.parent.parent) == mode(path.parent / "demo.log.d") == 0o700
    )


@pytest.mark.parametrize("end", [".lock", ".torn", ".owner.new", ".state.new"])
def test_a_link_in_the_place_of_a_side_file_is_not_followed(tmp_path, path, end):
    write_log(path, 1)
    with path.open("ab") as file:
        file.write(b"torn")
    precious = tmp_path / "precious"
    precious.write_bytes(b"somebody else's")
    path.with_name(f"demo.log{end}").unlink(missing_ok=True)
    path.with_name(f"demo.log{end}").symlink_to(precious)
    try:
        with FileLog.open(path) as log:
            log.write_cache(b"state", "v1")
            assert end in (".owner.new", ".state.new")
    except LogUnreadable:
        assert end in (".lock", ".torn")
    assert precious.read_bytes() == b"somebody else's"
    assert stored(path) == [commit(1)]


def test_a_new_file_holds_its_header_and_nothing_else(path):
    FileLog.create(path, HEADER).close()
    assert path.read_bytes() == HEADER_LINE


def test_a_log_is_not_created_over_another(path):
    before = write_log(path, 2)
    with pytest.raises(LogExists):
        FileLog.create(path, b'{"session":"other"}')
    assert path.read_bytes() == before
    assert FileLog.open(path).position == 2


@pytest.mark.parametrize(
    "door", [FileLog.open, lambda path, word: FileLog.create(path, HEADER, word)]
)
def test_an_unknown_durability_is_a_fault_and_touches_nothing(tmp_path, path, door):
    with pytest.raises(ValueError, match="one of fsync, os, memory; not 'disk'"):
        door(path, "disk")
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_cannot_be_a_line_touches_nothing(tmp_path):
    with pytest.raises(ValueError, match="newline"):
        FileLog.create(tmp_path / "store" / "demo.log", b"{\n}")
    assert everything(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", range(len(HEADER_LINE) - 1))
def test_a_creation_cut_anywhere_is_no_log_and_can_be_made_again(path, length):
    path.write_bytes(HEADER_LINE[:length])
    with pytest.raises(LogMissing, match="cut its creation short"):
        FileLog.open(path)
    with pytest.raises(LogMissing, match="cut its creation short"):
        read_log(path)
    with FileLog.create(path, HEADER, "memory") as log:
        assert log.torn == length
        log.append(commit(1))
    assert stored(path) == [commit(1)]
    aside = path.with_name("demo.log.torn")
    assert (aside.read_bytes() if length else b"") == HEADER_LINE[:length]


@pytest.mark.parametrize("behind", [b"", b"\0", b'{"chain":"'])
def test_a_whole_header_without_newline_is_kept(path, behind):
    path.write_bytes(HEADER_LINE[:-1] + behind)
    with pytest.raises(LogExists):
        FileLog.create(path, HEADER)
    with FileLog.open(path) as log:
        assert (log.header, log.position, log.torn) == (HEADER, 0, len(behind))
        log.append(commit(1))
        assert list(log.values()) == [commit(1)]
    assert stored(path) == [commit(1)]


# -- what is no log --------------------------------------------------------------------

FOREIGN = [
    b"hello\n",
    b"hello",
    b"\n",
    b"\0" * 4096,
    b'{"id":1,"role":"user","content":"an ordinary line of JSON, longer than a wrapper"}\n',
    b"a text without any newline" * 1000,
]


@pytest.mark.parametrize("content", FOREIGN)
@pytest.mark.parametrize("door", [FileLog.open, lambda path: FileLog.create(path, HEADER)])
def test_a_foreign_file_is_refused_and_nothing_is_left_beside_it(tmp_path, path, content, door):
    path.write_bytes(content)
    with pytest.raises(NotALog, match="not touched"):
        door(path)
    assert everything(tmp_path) == {"demo.log": content}


@pytest.mark.parametrize(
    "door", [FileLog.open, read_log, lambda path: FileLog.create(path, HEADER)]
)
def test_a_folder_and_a_pipe_are_no_logs(tmp_path, door):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotALog, match="a folder"):
        door(tmp_path / "folder")
    with pytest.raises(NotALog, match="no ordinary file"):
        door(tmp_path / "pipe")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["folder", "pipe"]


@pytest.mark.parametrize("door", [FileLog.open, read_log])
@pytest.mark.parametrize("name", ["demo.log", "no/such/folder/demo.log"])
def test_a_log_that_is_not_there_is_missing_and_nothing_is_made(tmp_path, door, name):
    with pytest.raises(LogMissing, match=name):
        door(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize(
    "door", [FileLog.open, read_log, lambda path: FileLog.create(path, HEADER)]
)
def test_a_newer_log_is_named_and_not_touched(tmp_path, path, door, end):
    content = HEADER_LINE.replace(b'"nachalnik":1', b'"nachalnik":2')[:-1] + end
    path.write_bytes(content)
    with pytest.raises(NewerLog, match="format 2") as caught:
        door(path)
    assert caught.value.number == 2
    assert everything(tmp_path) == {"demo.log": content}


# -- torn tails ------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_opens_at_its_last_whole_commit(path):
    whole = write_log(path, 3)
    ends = line_ends(whole)
    for length in range(ends[0] - 1, len(whole) + 1):
        path.write_bytes(whole[:length])
        aside = path.with_name("demo.log.torn")
        aside.unlink(missing_ok=True)
        # A commit that lacks nothing but its newline is whole.
        count = sum(end - 1 <= length for end in ends) - 1
        torn = max(0, length - ends[count])
        with FileLog.open(path, "memory") as log:
            assert (log.position, log.torn) == (count, torn), length
            assert list(log.values()) == commits(1, count)
            log.append(commit(count + 1, "after"))
        assert stored(path) == [*commits(1, count), commit(count + 1, "after")]
        assert (aside.read_bytes() if torn else b"") == whole[:length][ends[count] :]


def line_ends(data):
    """Offsets behind each newline."""
    return [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]


@pytest.mark.parametrize("behind", [b"\0", b"}", b"\0" * 4096, b'{"chain":"', b"}}}}\r\r"])
def test_a_whole_commit_in_the_tail_is_kept_and_what_follows_set_aside(path, behind):
    whole = write_log(path, 2)
    path.write_bytes(whole[:-1] + behind)
    with FileLog.open(path) as log:
        assert (log.position, log.torn) == (2, len(behind))
        assert path.with_name("demo.log.torn").read_bytes() == behind
        assert path.read_bytes() == whole
        log.append(commit(3))
    assert stored(path) == commits(1, 3)


def test_what_is_set_aside_adds_up(path):
    write_log(path, 1)
    for piece in (b"first", b"second"):
        with path.open("ab") as file:
            file.write(piece)
        with FileLog.open(path) as log:
            assert log.torn == len(piece)
    assert path.with_name("demo.log.torn").read_bytes() == b"firstsecond"


def test_ckpt_01_nothing_is_glued_to_a_torn_tail(path):
    write_log(path, 3)
    for position in (4, 5):
        with path.open("ab") as file:
            file.write(b'{"seq":4,"ki')
        with FileLog.open(path) as log:
            assert log.torn == 12
            log.append(commit(position))
    assert stored(path) == commits(1, 5)
    assert len(path.read_bytes().splitlines()) == 6


def test_a_tail_longer_than_any_block_is_set_aside_whole(path):
    whole = write_log(path, 1)
    tail = b'{"chain":"' + b"x}" * 1_500_000
    path.write_bytes(whole + tail)
    with FileLog.open(path) as log:
        assert (log.position, log.torn) == (1, len(tail))
    assert path.with_name("demo.log.torn").read_bytes() == tail
    assert path.read_bytes() == whole


# -- damage ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("masks", [SEVERAL, pytest.param(ALL, marks=pytest.mark.deep)])
def test_every_changed_byte_is_found_with_its_line(path, count, masks):
    whole = write_log(path, count)
    for place in range(len(whole)):
        for mask in masks:
            byte = whole[place] ^ mask
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            assert read_all(path) == verdict(whole, place, byte), (place, byte)


def verdict(whole, place, byte):
    """What a reader must say of `whole` with `byte` at `place`."""
    line = whole[:place].count(b"\n") + 1
    if place == len(whole) - 1:  # the last newline: everything acknowledged is still there
        return (whole.count(b"\n") - 1, "torn", 1)
    if place == whole.index(b":") + 1 and byte in b"23456789":
        return (0, "newer", byte - ord("0"))
    return (max(0, line - 2), "damaged", line)


def read_all(path):
    """How many good commits come first, and what ends them."""
    good = []
    try:
        with read_log(path) as view:
            good.extend(value for _, value in view.commits)
        end = ("torn", view.torn)
    except LogDamaged as damage:
        end = ("damaged", damage.line)
    except NewerLog as newer:
        end = ("newer", newer.number)
    assert good == commits(1, len(good))
    return (len(good), *end)


@pytest.mark.parametrize("masks", [SEVERAL[-1:], pytest.param(ALL, marks=pytest.mark.deep)])
def test_a_damaged_log_is_not_opened_and_not_touched(path, masks):
    whole = write_log(path, 2)
    for place in range(len(whole) - 1):
        for mask in masks:
            damaged = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
            path.write_bytes(damaged)
            kind = NewerLog if verdict(whole, place, damaged[place])[1] == "newer" else LogDamaged
            with pytest.raises(kind):
                FileLog.open(path, "memory")
            assert path.read_bytes() == damaged
    path.write_bytes(whole)
    FileLog.open(path).close()  # and no failed opening has kept the lock


@pytest.mark.parametrize(
    ("order", "line"),
    [
        ([0, 1, 3], 3),
        ([0, 2, 3], 2),
        ([1, 2, 3], 1),
        ([0, 1, 1, 2, 3], 3),
        ([0, 2, 1, 3], 2),
        ([0, 1, 2, 3, 3], 5),
        ([0, 0, 1, 2, 3], 2),
    ],
)
def test_a_lost_repeated_or_moved_line_is_damage(path, order, line):
    lines = write_log(path, 3).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(LogDamaged, match=f"line {line}:") as caught:
        FileLog.open(path)
    assert caught.value.line == line


def test_the_tail_of_another_session_is_damage(path, tmp_path):
    ours = write_log(path, 2)
    theirs = write_log(tmp_path / "other.log", 3, "theirs")
    path.write_bytes(ours + theirs.splitlines(keepends=True)[3])
    with pytest.raises(LogDamaged, match="line 4:"):
        FileLog.open(path)


def test_a_gap_in_positions_is_damage_even_where_the_chain_holds(path):
    header, chain = chains.frame_header(HEADER)
    first, chain = chains.frame_commit(chain, commit(1))
    third, _ = chains.frame_commit(chain, commit(3))
    path.write_bytes(header + first + third)
    with pytest.raises(LogDamaged, match="line 3: damaged: position 2 is due"):
        FileLog.open(path)


def test_a_torn_line_in_the_middle_is_damage_not_a_tail(path):
    write_log(path, 2)
    with path.open("ab") as file:
        file.write(b'{"seq":4,"ki\n')
    before = path.read_bytes()
    with pytest.raises(LogDamaged, match="line 4:"):
        FileLog.open(path)
    assert path.read_bytes() == before
    assert not path.with_name("demo.log.torn").exists()


def test_a_log_that_another_made_meanwhile_is_not_overwritten(tmp_path, path):
    """Between the look at the file and the lock on it."""
    whole = write_log(tmp_path / "other.log", 2)

    def made_meanwhile(name, call, arguments):
        path.write_bytes(whole)
        return call(Syscalls(), *arguments)

    with pytest.raises(LogExists):
        FileLog.create(path, HEADER, calls=Faults(1, made_meanwhile, only="flock"))
    assert path.read_bytes() == whole
    FileLog.open(path).close()


def test_a_foreign_file_is_not_read_to_its_end(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: no byte of it is on the disk
    with pytest.raises(NotALog):
        FileLog.open(path)
    with pytest.raises(NotALog):
        read_log(path)


# -- contents --------------------------------------------------------------------------


def test_equal_contents_are_stored_once(path):
    content = large("shared")
    with FileLog.create(path, HEADER, "memory") as log:
        log.append(commit(1), [content])
        file = path.with_name("demo.log.d") / content[0]
        first = file.stat()
        log.append(commit(2), [content])
        assert file.stat().st_ino == first.st_ino
        assert file.read_bytes() == content[1]


@pytest.mark.parametrize("left", [b"a c", bytes(len(b"a content")), b"a content and more"])
def test_a_content_with_other_bytes_is_written_again(path, left):
    """Cut by a crash, or changed; of the right length, too."""
    digest, content = large("a content")
    with FileLog.create(path, HEADER, "memory") as log:
        log.append(commit(1), [(digest, content)])
        file = path.with_name("demo.log.d") / digest
        file.write_bytes(left)
        with pytest.raises(LogDamaged, match="another digest"):
            log.content(digest)
        log.append(commit(2), [(digest, content)])
        assert log.content(digest) == content


@pytest.mark.parametrize("damage", ["gone", "flipped", "folder", "pipe"])
def test_a_missing_or_wrong_content_is_named(path, damage):
    digest, content = large("a content")
    file = path.with_name("demo.log.d") / digest
    with FileLog.create(path, HEADER, "memory") as log:
        log.append(commit(1), [(digest, content)])
        file.unlink()
        if damage == "flipped":
            file.write_bytes(content.replace(b"c", b"d"))
        elif damage == "folder":
            file.mkdir()
        elif damage == "pipe":
            os.mkfifo(file)
        with pytest.raises(LogDamaged, match=digest) as caught:
            log.content(digest)
    assert caught.value.line is None
    assert caught.value.path == str(file)


@pytest.mark.parametrize("digest", ["../demo.log", "", "a" * 32 + "\n", "A" * 32, "a/" * 16])
def test_what_is_no_digest_never_reaches_the_system(path, digest):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        calls.arm(0, None)
        with pytest.raises(LogDamaged, match="is not a digest"):
            log.content(digest)
        assert calls.trace == []


# -- owning ----------------------------------------------------------------------------


def test_a_log_dropped_without_close_can_be_opened_again(path):
    log = FileLog.create(path, HEADER)
    log.append(commit(1))
    del log
    gc.collect()
    with FileLog.open(path) as again:
        assert list(again.values()) == [commit(1)]


def test_a_reader_goes_on_while_the_log_is_closed_and_opened(path):
    write_log(path, 600)
    log = FileLog.open(path)
    values = log.values(300)
    assert next(values) == commit(301)
    log.close()
    with FileLog.open(path) as again:
        again.append(commit(601))
        assert list(values) == commits(302, 600)


def test_another_thread_may_sync_while_this_one_appends(path):
    problems = []

    def sync_all_the_time():
        try:
            while log.position < 300:
                log.sync()
        except LogError as error:
            problems.append(error)

    with FileLog.create(path, HEADER) as log:
        syncer = threading.Thread(target=sync_all_the_time)
        syncer.start()
        for value in commits(1, 300):
            log.append(value)
        syncer.join()
        assert problems == []
    assert stored(path) == commits(1, 300)


def test_values_of_a_closed_log_are_refused(path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
    with pytest.raises(LogUnusable, match="it is closed"):
        list(log.values())


@pytest.mark.parametrize("since", range(7))
@pytest.mark.parametrize("room", [0, 100, 200, 10_000])
def test_opening_keeps_what_it_read_only_while_it_is_small(path, monkeypatch, room, since):
    write_log(path, 5)
    monkeypatch.setattr(opening, "KEPT_BYTES_MAX", room)
    with FileLog.open(path, "memory") as log:
        assert list(log.values(since)) == commits(since + 1, 5)
        log.append(commit(6))
        assert list(log.values(since)) == commits(since + 1, 6)
    with FileLog.open(path, "memory") as log:
        log.append(commit(7))
        assert list(log.values(since)) == commits(since + 1, 7)


@pytest.mark.parametrize("count", [255, 256, 257, 600])
def test_values_begin_at_remembered_places_after_opening_too(path, count):
    whole = write_log(path, count)
    path.write_bytes(whole[:-1])
    with FileLog.open(path, "memory") as log:
        log.append(commit(count + 1))
        for since in (0, 255, 256, 257, 512, count - 1, count, count + 1):
            assert list(log.values(since)) == commits(since + 1, count + 1)


def test_a_file_removed_by_others_is_found_before_anything_leaves_the_process(path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        path.unlink()
        with pytest.raises(LogUnusable, match="removed or replaced"):
            log.sync()
        with pytest.raises(LogUnusable, match="removed or replaced"):
            log.append(commit(2))


def test_a_file_cut_by_others_is_found_before_anything_leaves_the_process(path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        os.truncate(path, 20)
        with pytest.raises(LogUnusable, match="cut the file to 20 of"):
            log.sync()
        with pytest.raises(LogDamaged, match="ends before commit 1"):
            list(log.values())


@pytest.mark.parametrize("durability", ["fsync", "os", "memory"])
def test_bytes_of_others_are_found_before_anything_leaves_the_process(path, durability):
    with FileLog.create(path, HEADER, durability) as log:
        log.append(commit(1))
        log.sync()
        with path.open("ab") as file:
            file.write(b"xx\n")
        log.append(commit(2))
        size = path.stat().st_size
        says = f"somebody else wrote to it: it has {size} bytes, not {size - 3}"
        with pytest.raises(LogUnusable, match=says):
            log.sync()
        with pytest.raises(LogUnusable, match=says):
            log.append(commit(3))


def test_a_line_that_another_thread_writes_during_a_sync_is_our_own(path):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        log.append(commit(1))

        def appending(name, call, arguments):
            log.append(commit(2))
            return call(calls, *arguments)

        calls.arm(1, appending, only="fstat")
        log.sync()
        assert calls.has_acted
        log.sync()
    assert stored(path) == commits(1, 2)


def test_a_line_that_is_taken_back_during_a_sync_is_our_own(path):
    calls = Faults()
    found = []
    with FileLog.create(path, HEADER, calls=calls) as log:
        log.append(commit(1))

        def appending(name, call, arguments):
            if name == "fstat":
                with pytest.raises(LogWriteFailed):
                    log.append(commit(2))
                return found[0]  # what it would have seen while the line was there in part
            if name == "write":
                os.write(arguments[0], arguments[1][:9])
                raise OSError(errno.ENOSPC, "No space left on device")
            if name == "ftruncate":
                found.append(os.fstat(arguments[0]))
            return call(calls, *arguments)

        calls.arm(1, appending, times=10**9)
        log.sync()
        assert found[0].st_size == path.stat().st_size + 9
        calls.arm(0, None)
    assert stored(path) == [commit(1)]


def test_a_forked_copy_writes_nothing_and_lets_the_owner_keep_the_log(path):
    log = FileLog.create(path, HEADER)
    log._pid += 1  # what a copy of this object sees in a child process
    with pytest.raises(LogUnusable, match="fork"):
        log.append(commit(1))
    log._pid -= 1
    log.append(commit(1))
    log.close()
    assert stored(path) == [commit(1)]


def test_every_error_says_where_and_what_to_do(path):
    write_log(path, 1)
    errors = [
        LogMissing("a.log"),
        LogExists("a.log"),
        NotALog("a.log", "why"),
        NewerLog("a.log", 2),
        LogDamaged("a.log", 3, "why"),
    ]
    for error in errors:
        assert isinstance(error, LogError)
        assert str(error).startswith("a.log")
    assert str(errors[-1]).startswith("a.log, line 3: damaged: why.")
    with FileLog.create(path.with_name("b.log"), HEADER) as log:
        log.close()
        with pytest.raises(
            LogUnusable, match=r"b\.log: takes no more commits: it is closed\. Close"
        ):
            log.append(commit(1))
