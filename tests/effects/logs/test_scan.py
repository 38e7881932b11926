"""Reading a log without owning it."""

import itertools
import os

import pytest

from effects.logs.file import FileLog
from effects.logs.port import LogDamaged, LogMissing, LogUnreadable
from effects.logs.scan import Finding, check_log, follow, read_log
from effects.logs.syscalls import Syscalls
from tests.effects.logs.faults import BROKEN, Faults
from tests.effects.logs.samples import HEADER, commit, commits, everything, large, write_log


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.log"


class ReadingOnly(Syscalls):
    """Fails on every call that could change something, and counts what is still open."""

    def __init__(self):
        self.open_fds = set()

    def open(self, path, flags):
        assert flags == os.O_RDONLY
        fd = super().open(path, flags)
        self.open_fds.add(fd)
        return fd

    def close(self, fd):
        self.open_fds.remove(fd)
        super().close(fd)

    def refuse(self, *arguments):
        raise AssertionError(f"a reader called with {arguments}")

    write = fsync = ftruncate = flock = rename = unlink = mkdir = refuse


# -- read_log --------------------------------------------------------------------------


def test_a_reader_sees_header_lines_and_values(path):
    write_log(path, 3)
    with read_log(path) as view:
        assert view.header == HEADER
        assert list(view.commits) == [(2, commit(1)), (3, commit(2)), (4, commit(3))]
        assert (view.torn, view.place.position) == (0, 3)
        assert view.place.offset == path.stat().st_size


@pytest.mark.parametrize("tail", [b"", b"torn", b'{"chain":"0123'])
def test_a_reader_changes_nothing_and_reports_the_torn_tail(tmp_path, path, tail):
    write_log(path, 2)
    with path.open("ab") as file:
        file.write(tail)
    before = everything(tmp_path)
    with read_log(path, ReadingOnly()) as view:
        assert [value for _, value in view.commits] == commits(1, 2)
        assert view.torn == len(tail)
    assert list(check_log(path, ReadingOnly())) == (
        [
            Finding(
                4,
                f"{len(tail)} bytes at the end belong to no whole commit; opening sets them aside",
            )
        ]
        if tail
        else []
    )
    assert everything(tmp_path) == before


def test_a_reader_keeps_what_opening_would_keep(path):
    whole = write_log(path, 2)
    path.write_bytes(whole[:-1])
    with read_log(path) as view:
        assert [value for _, value in view.commits] == commits(1, 2)
        assert (view.torn, view.place.offset) == (0, len(whole))


def test_good_commits_come_before_the_damage(path):
    lines = write_log(path, 4).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"x"', b'"y"'), lines[4]]))
    with read_log(path) as view:
        commits_read = []
        with pytest.raises(LogDamaged, match="line 4: damaged: the chain stored is") as caught:
            commits_read.extend(view.commits)
    assert caught.value.line == 4
    assert commits_read == [(2, commit(1)), (3, commit(2))]


def test_a_reader_works_beside_the_writer_and_sees_the_moment_it_opened(path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        with read_log(path) as view:
            log.append(commit(2))
            assert [value for _, value in view.commits] == [commit(1)]


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_reader_leaves_no_file_open(path, taken):
    write_log(path, 3)
    calls = ReadingOnly()
    view = read_log(path, calls)
    for _ in range(taken):
        next(view.commits)
    view.close()
    view.close()
    assert calls.open_fds == set()
    read_log(path, calls)  # dropped at once
    assert calls.open_fds == set()
    with read_log(path, calls) as view:
        assert len(list(view.commits)) == 3
        assert calls.open_fds == set()


def test_a_reader_that_finds_damage_leaves_no_file_open(path):
    whole = write_log(path, 3)
    calls = ReadingOnly()
    path.write_bytes(whole[:-2] + b"\0\n")
    with pytest.raises(LogDamaged):
        list(read_log(path, calls).commits)
    path.write_bytes(b"\0" + whole[1:])
    with pytest.raises(LogDamaged):
        read_log(path, calls)
    assert calls.open_fds == set()


# -- follow ----------------------------------------------------------------------------


def test_following_gives_each_commit_once_as_it_is_written(path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        with read_log(path) as view:
            assert len(list(view.commits)) == 1
            place = view.place
        assert follow(path, place) == ([], place)
        for first in (2, 4):
            log.append(commit(first))
            log.append(commit(first + 1))
            values, place = follow(path, place)
            assert values == commits(first, first + 1)
        assert (place.position, place.chain) == (log.position, log.chain)
        assert follow(path, place, ReadingOnly()) == ([], place)


def test_following_waits_for_the_newline(path):
    whole = write_log(path, 2)
    first_end = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    path.write_bytes(whole[:first_end])
    with read_log(path) as view:
        assert len(list(view.commits)) == 1
        place = view.place
    for length in range(first_end, len(whole)):
        path.write_bytes(whole[:length])
        assert follow(path, place) == ([], place)
    path.write_bytes(whole)
    values, place = follow(path, place)
    assert (values, place.position, place.offset) == ([commit(2)], 2, len(whole))


def test_following_goes_on_behind_a_commit_that_lacked_its_newline(path):
    whole = write_log(path, 2)
    path.write_bytes(whole[:-1] + b"\0\0")
    with read_log(path) as view:
        assert len(list(view.commits)) == 2
        place = view.place
    with FileLog.open(path) as log:
        log.append(commit(3))
    values, place = follow(path, place)
    assert values == [commit(3)]


@pytest.mark.parametrize("count", [0, 2])
def test_following_waits_for_a_newline_that_is_due(path, count):
    """Of a header or a commit: its writer is in the middle of it, or was killed there."""
    whole = write_log(path, count + 1)
    begun = sum(map(len, whole.splitlines(keepends=True)[:-1])) - 1
    path.write_bytes(whole[:begun])
    with read_log(path) as view:
        assert [value for _, value in view.commits] == commits(1, count)
        place = view.place
    assert place.offset == begun + 1
    for length in range(begun, len(whole)):
        path.write_bytes(whole[:length])
        assert follow(path, place) == ([], place)
    path.write_bytes(whole)
    assert follow(path, place)[0] == [commit(count + 1)]


def test_following_gives_good_commits_before_the_damage(path):
    with FileLog.create(path, HEADER) as log, read_log(path) as view:
        place = view.place
        log.append(commit(1))
    with path.open("ab") as file:
        file.write(b"damage\n")
    values, place = follow(path, place)
    assert values == [commit(1)]
    with pytest.raises(LogDamaged) as caught:
        follow(path, place)
    assert caught.value.line == 3


def test_a_log_that_became_shorter_is_no_longer_followed(path):
    whole = write_log(path, 3)
    with read_log(path) as view:
        assert len(list(view.commits)) == 3
        place = view.place
    path.write_bytes(whole[:-2])
    with pytest.raises(LogDamaged, match="shorter"):
        follow(path, place)
    path.unlink()
    with pytest.raises(LogMissing):
        follow(path, place)


# -- check_log -------------------------------------------------------------------------


def test_a_whole_log_has_no_findings(path):
    write_log(path, 3)
    assert list(check_log(path)) == []


@pytest.mark.parametrize(("line", "behind"), [(1, 3), (2, 2), (3, 1), (4, 0)])
def test_the_first_bad_line_is_named_and_those_behind_it_counted(path, line, behind):
    lines = write_log(path, 3).splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b"}\n", b"]\n")
    path.write_bytes(b"".join(lines))
    (finding,) = check_log(path)
    assert finding.line == line
    assert finding.text.endswith(f"; {behind} lines behind it cannot be verified")
    assert "end is missing or changed" in finding.text


def test_a_torn_tail_counts_as_a_line_behind_the_bad_one(path):
    write_log(path, 1)
    with path.open("ab") as file:
        file.write(b"bad\ntorn")
    (finding,) = check_log(path)
    assert (finding.line, "; 1 lines behind" in finding.text) == (3, True)


def test_wrong_contents_are_found(path):
    right, wrong = large("right"), large("wrong")
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1), [right, wrong])
    folder = path.with_name("demo.log.d")
    (folder / wrong[0]).write_bytes(b"other")
    (folder / "notes.txt").write_bytes(b"not ours, not judged")
    (finding,) = check_log(path)
    assert finding.line is None
    assert finding.text.startswith(f"{folder / wrong[0]}: the content's bytes have another digest")


@pytest.mark.parametrize("is_damaged", [False, True])
def test_whatever_the_system_refuses_is_named(path, is_damaged):
    with FileLog.create(path, HEADER, "memory") as log:
        log.append(commit(1), [large("content")])
    if is_damaged:
        path.write_bytes(path.read_bytes() + b"bad\nline\n")
    ends = set()
    for at in itertools.count(1):
        calls = Faults(at, BROKEN)
        try:
            ends.update(one.text for one in check_log(path, calls) if one.line is None)
        except LogUnreadable as error:
            ends.add(f"{error.path}: {error.reason}")
        if not calls.has_acted:
            break
    places = (path, f"{path}.d", f"{path}.d/{large('content')[0]}")
    assert ends == {f"{place}: Input/output error" for place in places}


def test_a_log_can_be_read_by_another_name(tmp_path, path):
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1), [large("content")])
    link = tmp_path / "link.log"
    link.symlink_to(path)
    (path.with_name("demo.log.d") / large("content")[0]).write_bytes(b"other")
    assert len(list(check_log(link))) == 1
    with read_log(link) as view:
        assert [value for _, value in view.commits] == [commit(1)]
