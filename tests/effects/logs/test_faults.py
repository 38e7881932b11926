"""What a failing or interrupted call of the system does to a log, whichever call it is."""

import contextlib
import errno
import gc
import os
from itertools import count

import pytest

from effects.logs.file import FileLog
from effects.logs.port import (
    LogError,
    LogExists,
    LogNotMade,
    LogUnreadable,
    LogUnusable,
    LogWriteFailed,
    SideFileRefused,
)
from effects.logs.scan import check_log, read_log
from tests.effects.logs import faults
from tests.effects.logs.faults import BROKEN, NO_SPACE, Faults, failing, failing_after
from tests.effects.logs.samples import HEADER, commit, commits, large, stored, write_log

ALWAYS = 10**9


@pytest.fixture
def path(tmp_path):
    return tmp_path / "demo.log"


@pytest.fixture(autouse=True)
def no_file_stays_open():
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    yield
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


# -- every call, and every error -------------------------------------------------------


class Stubborn:
    """Lives a session to its end, doing after each error what the error allows.

    `met` are the errors it met, `commits` what it was promised.
    """

    def __init__(self, path, calls):
        self.path = path
        self.calls = calls
        self.met = []
        self.commits = []
        self.log = None

    def live(self):
        self.create()
        self.append([])
        self.append([large("one"), large("two")])
        self.sync()
        with self.noting():
            self.log.write_cache(b"state", "v1")
        self.append([])
        self.end()
        with self.path.open("ab") as file:
            file.write(b"torn")
        self.begin()
        assert self.again(lambda: list(self.log.values())) == self.commits
        self.again(lambda: self.log.content(large("two")[0]))
        self.append([large("three")])
        self.sync()
        self.end()
        self.begin()
        self.end()

    def create(self):
        try:
            self.log = FileLog.create(self.path, HEADER, calls=self.calls)
            return
        except (LogError, KeyboardInterrupt) as error:
            self.met.append(error)
        try:
            self.log = FileLog.create(self.path, HEADER, calls=self.calls)
        except LogExists:  # an interrupt may come when all is done; an error may not
            assert isinstance(self.met[-1], KeyboardInterrupt)
            self.begin()

    def again(self, action):
        try:
            return action()
        except (LogError, KeyboardInterrupt) as error:
            self.met.append(error)
            return action()

    def begin(self):
        self.log = self.again(lambda: FileLog.open(self.path, fingerprint="v1", calls=self.calls))

    def end(self):
        with self.noting(LogUnusable):
            self.log.close()

    @contextlib.contextmanager
    def noting(self, *kinds):
        try:
            yield
        except (*kinds, KeyboardInterrupt) as error:
            self.met.append(error)

    def append(self, contents):
        value = commit(len(self.commits) + 1)
        with self.noting(LogWriteFailed, LogUnusable):
            self.log.append(value, contents)
            self.commits.append(value)
            return
        if isinstance(self.met[-1], LogWriteFailed):  # not accepted, and the log goes on
            assert stored(self.path) == self.commits
        else:
            self.reopen_if_unusable(value)
        if self.log.position == len(self.commits):
            self.log.append(value, contents)
        self.commits.append(value)
        assert self.log.position == len(self.commits)

    def reopen_if_unusable(self, value):
        """Whether the commit that was not acknowledged is there is known only now."""
        try:
            self.log.append(b"no commit")
        except LogUnusable:
            self.end()
            self.begin()
        except ValueError:
            pass
        assert list(self.log.values()) in (self.commits, [*self.commits, value])

    def sync(self):
        try:
            self.log.sync()
        except LogUnusable as error:
            self.met.append(error)
            with pytest.raises(LogUnusable):
                self.log.append(commit(len(self.commits) + 1))
            self.end()
            self.begin()
            self.log.sync()
        except KeyboardInterrupt as error:
            self.met.append(error)
            self.log.sync()


def lives(folder, act, times=1):
    """The same life with `act` at call 1, 2, 3, ..., until there is no such call."""
    for k in count(1):
        calls = Faults(k, act, times)
        path = folder / str(k) / "demo.log"
        yield Stubborn(path, calls)
        if not calls.has_acted:
            assert k > 60, "a life has many calls"
            return


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES])
def test_any_call_may_fail_once(tmp_path, number):
    kinds = set()
    for life in lives(tmp_path, failing(number)):
        life.live()
        assert len(life.met) <= 1
        kinds.update(type(error) for error in life.met)
        assert all(isinstance(error.__cause__, OSError) for error in life.met)
        assert stored(life.path) == life.commits == commits(1, 4)
        assert list(check_log(life.path)) == []
        assert life.path.with_name("demo.log.torn").read_bytes().endswith(b"torn")
    assert kinds == {LogNotMade, LogWriteFailed, LogUnreadable, LogUnusable, SideFileRefused}


@pytest.mark.parametrize("act", ["interrupted_before", "interrupted_half", "interrupted_after"])
def test_any_call_may_be_interrupted(tmp_path, act):
    met = 0
    for life in lives(tmp_path, getattr(faults, act)):
        life.live()
        met += len(life.met)
        assert stored(life.path) == life.commits == commits(1, 4)
        assert list(check_log(life.path)) == []
    assert met > 60


def test_a_disk_that_stays_broken_damages_nothing(tmp_path):
    kinds = set()
    for life in lives(tmp_path, BROKEN, ALWAYS):
        try:
            life.live()
        except LogError as error:
            life.met.append(error)
        kinds.update(type(error) for error in life.met)
        if life.log is not None:
            with contextlib.suppress(LogUnusable):
                life.log.close()
        life.calls.arm(0, None)
        with contextlib.suppress(LogExists):
            FileLog.create(life.path, HEADER).close()
        with FileLog.open(life.path) as log:
            values = list(log.values())
            assert values[: len(life.commits)] == life.commits
            assert len(values) <= len(life.commits) + 1
            log.append(commit(len(values) + 1))
        assert list(check_log(life.path)) == []
    assert kinds == {LogNotMade, LogWriteFailed, LogUnreadable, LogUnusable}


def test_writes_may_be_short(tmp_path):
    life = Stubborn(tmp_path / "demo.log", Faults(1, faults.short, ALWAYS))
    life.live()
    assert life.met == []
    assert stored(life.path) == commits(1, 4)
    assert list(check_log(life.path)) == []
    assert sum(name == "write" for name, *_ in life.calls.trace) > 500


def test_a_system_that_takes_no_bytes_is_an_error_not_a_wait(path):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        calls.arm(1, lambda *_: 0, ALWAYS, only="write")
        with pytest.raises(LogWriteFailed, match="takes no more bytes"):
            log.append(commit(1))
        calls.arm(0, None)
        log.append(commit(1))
    assert stored(path) == [commit(1)]


# -- one append ------------------------------------------------------------------------


def a_commit_of_400_bytes(position):
    value = commit(position, "x" * 400)
    surplus = len(value) + len(b'{"chain":"","commit":}') + 32 - 400
    return commit(position, "x" * (400 - surplus))


@pytest.mark.parametrize("count", [0, 1, 200, 399, 400])
def test_disk_01_a_full_disk_accepts_nothing_and_the_session_goes_on(path, count):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        log.append(commit(1))
        before = (path.read_bytes(), log.position, log.chain)
        calls.arm(1, failing_after(errno.ENOSPC, count), times=2, only="write")
        with pytest.raises(LogWriteFailed, match="No space left on device") as caught:
            log.append(a_commit_of_400_bytes(2))
        assert calls.has_acted
        assert caught.value.path == str(path)
        assert (path.read_bytes(), log.position, log.chain) == before
        calls.arm(0, None)
        log.append(a_commit_of_400_bytes(2))
        log.append(commit(3))
        log.sync()
        assert list(log.values()) == [commit(1), a_commit_of_400_bytes(2), commit(3)]
    assert len(path.read_bytes().splitlines()[2]) == 400
    assert list(check_log(path)) == []


@pytest.mark.parametrize("count", [0, 1, 200, 399, 400])
def test_disk_01_after_a_crash_at_that_byte_it_opens(path, count):
    line = b'{"chain":"'
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        before = path.read_bytes()
        log.append(a_commit_of_400_bytes(2))
        line = path.read_bytes()[len(before) :]
    path.write_bytes(before + line[:count])
    is_whole = count == 400
    with FileLog.open(path) as log:
        assert (log.position, log.torn) == ((2, 0) if is_whole else (1, count))
        log.append(commit(log.position + 1))
    assert list(check_log(path)) == []


def test_what_cannot_be_cut_off_again_ends_the_writing(path):
    calls = Faults()
    log = FileLog.create(path, HEADER, calls=calls)
    log.append(commit(1))

    def half_and_then_nothing(name, call, arguments):
        if name == "ftruncate":
            raise OSError(errno.EIO, "I/O error")
        return failing_after(errno.ENOSPC, 0)(name, call, arguments)

    with path.open("ab") as file:  # the half that arrived
        file.write(b'{"chain"')
    calls.arm(1, half_and_then_nothing, times=2)
    with pytest.raises(LogUnusable, match="not cut off: I/O error"):
        log.append(commit(2))
    calls.arm(0, None)
    for action in (log.sync, lambda: log.append(commit(2))):
        with pytest.raises(LogUnusable, match="not cut off: I/O error"):
            action()
    assert list(log.values()) == [commit(1)]
    log.close()
    with FileLog.open(path) as log:
        assert (log.position, log.torn) == (1, 8)
        log.append(commit(2))
    assert stored(path) == commits(1, 2)


def test_an_interrupted_append_is_taken_back(path):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        calls.arm(1, faults.interrupted_half)
        with pytest.raises(KeyboardInterrupt):
            log.append(commit(1))
        assert log.position == 0
        assert stored(path) == []
        log.append(commit(1))
        assert stored(path) == [commit(1)]


def test_an_exception_behind_the_write_ends_the_writing(path, monkeypatch):
    """Between the write and its end in memory: the line is there, and nobody was told."""
    with FileLog.create(path, HEADER) as log:
        log.append(commit(1))
        monkeypatch.setattr("effects.logs.file.MARK_EVERY", 0)
        with pytest.raises(ZeroDivisionError):
            log.append(commit(2))
        monkeypatch.undo()
        with pytest.raises(LogUnusable, match="an append was interrupted"):
            log.append(commit(3))
        log.write_cache(b"state", "v1")
        assert not path.with_name("demo.log.state").exists()
    with FileLog.open(path) as log:
        assert list(log.values()) == commits(1, 2)


# -- sync ------------------------------------------------------------------------------


def test_disk_04_a_failed_sync_ends_the_writing(path):
    calls = Faults()
    log = FileLog.create(path, HEADER, calls=calls)
    log.append(commit(1))
    calls.arm(1, BROKEN, only="fsync")
    with pytest.raises(LogUnusable, match="fsync: Input/output error") as caught:
        log.sync()
    assert isinstance(caught.value.__cause__, OSError)
    calls.arm(0, None)
    for action in (log.sync, lambda: log.append(commit(2)), log.sync):
        with pytest.raises(LogUnusable, match="fsync: Input/output error"):
            action()
    log.write_cache(b"state", "v1")
    log.close()
    assert {name for name, *_ in calls.trace} == {"unlink", "close"}
    with FileLog.open(path) as log:
        assert list(log.values()) == [commit(1)]
        log.append(commit(2))
        log.sync()


def test_a_sync_that_fails_on_closing_is_told_and_the_log_is_free(path):
    calls = Faults()
    log = FileLog.create(path, HEADER, calls=calls)
    log.append(commit(1))
    calls.arm(1, BROKEN, only="fsync")
    with pytest.raises(LogUnusable, match="may be lost"):
        log.close()
    log.close()
    FileLog.open(path).close()


@pytest.mark.parametrize(
    ("durability", "syncs"), [("fsync", [1, 0, 1, 0]), ("os", [0, 0, 0, 1]), ("memory", [0] * 4)]
)
def test_a_sync_waits_for_the_disk_once_and_only_as_promised(path, durability, syncs):
    write_log(path, 1)
    calls = Faults()
    log = FileLog.open(path, durability, calls=calls)

    def fsyncs(action):
        calls.arm(0, None)
        action()
        return sum(name == "fsync" for name, *_ in calls.trace)

    # The first is for what a process that died may have written and never synced.
    found = [fsyncs(log.sync), fsyncs(log.sync)]
    log.append(commit(2))
    found += [fsyncs(log.sync), fsyncs(log.close)]
    assert found == syncs


def test_a_sync_with_nothing_new_asks_the_system_nothing(path):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        log.append(commit(1))
        log.sync()
        calls.arm(0, None)
        log.sync()
        assert calls.trace == []


# -- contents --------------------------------------------------------------------------


def test_a_content_that_cannot_be_written_keeps_its_commit_out(path):
    digest, content = large("content")
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        calls.arm(1, NO_SPACE, only="write")
        with pytest.raises(LogWriteFailed, match=r"demo\.log\.d: not written: No space"):
            log.append(commit(1), [(digest, content)])
        assert list(path.with_name("demo.log.d").iterdir()) == []
        assert stored(path) == []
        log.append(commit(1), [(digest, content)])
        assert log.content(digest) == content


def test_a_content_that_cannot_be_synced_ends_the_writing(path):
    calls = Faults()
    log = FileLog.create(path, HEADER, calls=calls)
    calls.arm(1, BROKEN, only="fsync")
    with pytest.raises(LogUnusable, match="a content may be lost"):
        log.append(commit(1), [large("content")])
    with pytest.raises(LogUnusable, match="a content may be lost"):
        log.append(commit(1))
    log.close()
    assert stored(path) == []


# -- the order of calls ----------------------------------------------------------------


def trace_of(calls, folder):
    """Names of calls, with the file a path names or the kind of bytes written."""
    lines = []
    for name, *arguments in calls.trace:
        paths = [os.path.relpath(one, folder) for one in arguments if isinstance(one, str)]
        data = [bytes(one[:9]).decode() for one in arguments if isinstance(one, bytes)]
        lines.append(" ".join([name, *paths, *data]))
    return lines


def test_an_append_is_one_write(path):
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        calls.arm(0, None)
        log.append(commit(1))
        assert trace_of(calls, path.parent) == ['write {"chain":']


def test_a_content_is_durable_before_the_commit_that_names_it(path):
    digest, content = large("large content")
    calls = Faults()
    with FileLog.create(path, HEADER, calls=calls) as log:
        calls.arm(0, None)
        log.append(commit(1), [(digest, content)])
        assert trace_of(calls, path.parent) == [
            "mkdir demo.log.d",
            "open .",
            "fsync",
            "close",
            f"stat demo.log.d/{digest}",
            f"open demo.log.d/{digest}.new",
            "fstat",
            "write large con",
            "fsync",
            "close",
            f"rename demo.log.d/{digest}.new demo.log.d/{digest}",
            "open demo.log.d",
            "fsync",
            "close",
            'write {"chain":',
        ]


def test_torn_bytes_are_durable_elsewhere_before_they_are_cut_off(path):
    write_log(path, 1)
    with path.open("ab") as file:
        file.write(b"torn")
    calls = Faults()
    with FileLog.open(path, calls=calls):
        trace = trace_of(calls, path.parent)
        assert trace[trace.index("open demo.log.torn") :] == [
            "open demo.log.torn",
            "fstat",
            "pread",
            "write torn",
            "pread",
            "fsync",
            "close",
            "open .",
            "fsync",
            "close",
            "ftruncate",
        ]


def test_a_reading_error_is_named_and_passes(path):
    write_log(path, 600)
    calls = Faults()
    with FileLog.open(path, calls=calls) as log:
        log.append(commit(601))
        calls.arm(1, BROKEN, only="pread")
        with pytest.raises(LogUnreadable, match="Input/output error"):
            list(log.values())
        assert list(log.values()) == commits(1, 601)
        calls.arm(1, BROKEN, only="pread")
        with pytest.raises(LogUnreadable):
            read_log(path, calls)
