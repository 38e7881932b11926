"""What somebody left in the place of a file beside a log: not waited for, and named."""

import errno
import os

import pytest

from effects.logs.file import FileLog
from effects.logs.port import LogNotMade, LogUnreadable, LogWriteFailed, SideFileRefused
from effects.logs.syscalls import NotAFile, open_side, read_file
from tests.effects.logs.faults import Faults, failing
from tests.effects.logs.samples import HEADER, commit, commits, large, stored, write_log

pytestmark = pytest.mark.timeout(10)
"""Waiting for the other end of a pipe is waiting for ever."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.log"


def put(place, what):
    if what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    else:
        place.symlink_to(place.with_name("elsewhere"))


REASONS = {
    "pipe": "it is no ordinary file",
    "folder": "Is a directory",
    "link": "it is a symbolic link",
}


@pytest.mark.parametrize("what", REASONS)
@pytest.mark.parametrize("suffix", [".lock", ".torn"])
def test_a_log_that_cannot_be_opened_for_a_side_file_names_that(path, suffix, what):
    data = write_log(path, 2) + b"torn"
    path.write_bytes(data)
    side = path.with_name(f"demo.log{suffix}")
    side.unlink(missing_ok=True)
    put(side, what)
    with pytest.raises(SideFileRefused) as caught:
        FileLog.open(path)
    said = f"{side}: cannot be used: {REASONS[what]}. The log {path} is not written without"
    assert str(caught.value).startswith(said)
    assert "move it away, then open the log again" in str(caught.value)
    assert (caught.value.path, caught.value.log) == (str(side), str(path))
    assert path.read_bytes() == data
    assert not path.with_name("elsewhere").exists()
    side.rmdir() if what == "folder" else side.unlink()
    with FileLog.open(path) as log:
        assert log.torn == 4


@pytest.mark.parametrize("what", REASONS)
def test_a_log_that_cannot_be_made_for_its_lock_names_that(path, what):
    side = path.with_name("demo.log.lock")
    put(side, what)
    with pytest.raises(SideFileRefused, match=REASONS[what]) as caught:
        FileLog.create(path, HEADER)
    assert str(caught.value).startswith(f"{side}: cannot be used")
    assert not path.exists()


def test_a_folder_that_cannot_be_written_to_is_no_fault_of_a_side_file(path):
    (path.parent / "file").write_bytes(b"")
    inside = path.parent / "file" / "demo.log"
    with pytest.raises(LogNotMade, match=r"demo\.log: not written: Not a directory"):
        FileLog.create(inside, HEADER)
    write_log(path, 1)
    path.with_name("demo.log.lock").unlink()
    calls = Faults()

    def closed(name, call, arguments):
        if arguments[0].endswith(".lock"):
            raise PermissionError(errno.EACCES, "Permission denied", arguments[0])
        return call(calls, *arguments)

    calls.arm(1, closed, 10**9, only="open")
    with pytest.raises(LogUnreadable, match=r"demo\.log: the system refuses: Permission denied"):
        FileLog.open(path, calls=calls)
    path.with_name("demo.log.lock").write_bytes(b"")
    with pytest.raises(SideFileRefused, match=r"demo\.log\.lock: cannot be used: Permission den"):
        FileLog.open(path, calls=calls)


def test_a_pipe_that_somebody_reads_is_no_file_either(path):
    side = path.with_name("demo.log.lock")
    os.mkfifo(side)
    reader = os.open(side, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(SideFileRefused, match="no ordinary file"):
            FileLog.create(path, HEADER)
    finally:
        os.close(reader)


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_torn_bytes_that_cannot_be_set_aside_name_their_file(path, name):
    path.write_bytes(write_log(path, 1) + b"torn")
    calls = Faults()
    made_for_torn = []

    def full(called, call, arguments):
        fd = arguments[0]
        if os.readlink(f"/dev/fd/{fd}").endswith(".torn"):
            made_for_torn.append(fd)
            return failing(errno.ENOSPC)(called, call, arguments)
        return call(calls, *arguments)

    calls.arm(1, full, 10**9, only=name)
    with pytest.raises(SideFileRefused, match=r"demo\.log\.torn: cannot be used: .*No space"):
        FileLog.open(path, calls=calls)
    assert made_for_torn


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_stands_in_the_place_of_the_state_cache_is_ignored(path, what):
    write_log(path, 2)
    put(path.with_name("demo.log.state"), what)
    with FileLog.open(path, fingerprint="v1") as log:
        assert "it cannot be read: it is" in log.cache_problem
        assert list(log.values()) == commits(1, 2)


@pytest.mark.parametrize("suffix", [".owner", ".owner.new", ".state.new"])
def test_what_is_in_the_way_of_what_may_fail_keeps_nobody_out(path, suffix):
    write_log(path, 1)
    os.mkfifo(path.with_name(f"demo.log{suffix}"))
    with FileLog.open(path, fingerprint="v1") as log:
        log.append(commit(2))
        log.write_cache(b"state", "v1")
        if suffix == ".state.new":
            assert log.cache_problem == "it could not be written: it is no ordinary file"
    assert stored(path) == commits(1, 2)


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_a_content_that_cannot_be_written_names_what_is_in_its_way(path, what):
    digest, content = large("a content")
    with FileLog.create(path, HEADER, "memory") as log:
        folder = path.with_name("demo.log.d")
        folder.mkdir()
        side = folder / (f"{digest}.new" if what == "pipe" else digest)
        put(side, what)
        with pytest.raises(LogWriteFailed) as caught:
            log.append(commit(1), [(digest, content)])
    assert str(caught.value).startswith(f"{side}: not written: ")
    assert stored(path) == []


def test_a_content_that_may_not_be_read_is_an_error_with_a_name(path):
    digest, content = large("a content")
    calls = Faults()
    with FileLog.create(path, HEADER, "memory", calls) as log:
        log.append(commit(1), [(digest, content)])
        calls.arm(1, failing(errno.EACCES), only="open")
        with pytest.raises(LogUnreadable, match=f"{digest}: the system refuses: Permission denied"):
            log.content(digest)


def test_only_a_file_is_read(path):
    os.mkfifo(path)
    with pytest.raises(NotAFile, match="no ordinary file"):
        read_file(Faults(), str(path))
    with pytest.raises(NotAFile, match="it is a folder") as caught:
        open_side(Faults(), str(path.parent), os.O_RDONLY)
    assert caught.value.filename == str(path.parent)


# -- what a failed write says ------------------------------------------------------------------


def test_a_failed_write_says_what_stands_and_what_to_do(path):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        log.append(commit(1))
        calls.arm(1, failing(errno.ENOSPC), only="write")
        with pytest.raises(LogWriteFailed) as caught:
            log.append(commit(2))
    assert str(caught.value) == (
        f"{path}: not written: No space left on device. This commit is not in the log; what was "
        "acknowledged before stands. Mend that (free some space, say) and go on"
    )


def test_a_failed_creation_says_that_there_is_no_log(path):
    calls = Faults(1, failing(errno.ENOSPC), only="write")
    # The first write is the owner's name, which may fail.
    calls.times = 2
    with pytest.raises(LogNotMade, match=r"No space left on device\. There is no log, or one w"):
        FileLog.create(path, HEADER, calls=calls)
