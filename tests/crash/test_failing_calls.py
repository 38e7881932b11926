"""The k-th call of the system fails, or is interrupted, through a whole session (DISK, R25)."""

import contextlib
import errno
import os

import pytest

from effects.logs.port import LogError, LogUnusable, LogWriteFailed
from effects.replay import restore
from nachalnik import ContextItem
from reducers.statecodec import encode_state
from tests.crash.session import USERS, Life, Unsynced, check_session
from tests.effects.logs import faults
from tests.effects.logs.faults import BROKEN, NO_SPACE, Faults, failing_after
from tests.effects.logs.power import Disk

MODES = pytest.mark.parametrize("parallel", [False, True], ids=["serial", "parallel"])
ALWAYS = 10**9


class Counted(Faults):
    """Never waits for the disk: what is tested here is what the kernel makes of an error."""

    def pass_on(self, name, call, arguments):
        if name == "fsync":
            return super().pass_on(name, lambda calls, fd: None, arguments)
        return super().pass_on(name, call, arguments)


def lived(folder, faults, parallel, *, repeats=None):
    """Live the session through whatever happens; what each error allows is done after it."""
    acknowledged, met = [], []
    life = Life(folder, calls=faults, parallel=parallel, told=acknowledged.append)
    for _ in range(repeats or 12):
        try:
            if life.kernel is None:
                life.open()
            life.live()
            life.close()
            return acknowledged, met
        except LogWriteFailed as error:
            # Not accepted, and nothing has changed: the same kernel goes on.
            met.append(error)
            if life.kernel is not None:
                assert_memory_is_the_log(life.kernel)
        except (LogError, KeyboardInterrupt) as error:
            met.append(error)
            if life.kernel is not None and not goes_on(life.kernel):
                reopened(life)
        assert faults.has_acted
    raise AssertionError(f"it never came to an end: {met}")


def goes_on(kernel):
    """Whether the kernel takes another commit. It says so if it does not, and what to do."""
    try:
        kernel.reserve_calls(["probe"])
    except LogUnusable as error:
        if "open it again" not in str(error):
            raise
        return False
    except LogWriteFailed:
        pass
    assert_memory_is_the_log(kernel)
    return True


def assert_memory_is_the_log(kernel):
    """R25: memory is never behind the log, or ahead of it, without saying so."""
    assert encode_state(restore(kernel._log)) == encode_state(kernel._writer.state)


def reopened(life):
    with contextlib.suppress(LogError):
        life.close()
    life.kernel = None


def every_call(folder, act, parallel, step, **options):
    for k in range(1, ALWAYS, step):
        mine = folder / str(k)
        mine.mkdir()
        faults = Counted(k, act, **options)
        acknowledged, _ = lived(mine, faults, parallel)
        check_session(mine, acknowledged)
        if not faults.has_acted:
            return k
    raise AssertionError


ACTS = {
    "no space": NO_SPACE,
    "broken": BROKEN,
    "short": faults.short,
    "interrupted before": faults.interrupted_before,
    "interrupted after": faults.interrupted_after,
    "interrupted half": faults.interrupted_half,
}


@MODES
@pytest.mark.parametrize("act", ACTS)
def test_a_sample_of_calls(tmp_path, act, parallel):
    assert every_call(tmp_path, ACTS[act], parallel, 9 if parallel else 7) > 60


@MODES
@pytest.mark.deep
@pytest.mark.parametrize("act", ACTS)
def test_every_call(tmp_path, act, parallel):
    assert every_call(tmp_path, ACTS[act], parallel, 1) > 60


@MODES
@pytest.mark.deep
@pytest.mark.parametrize("times", [2, 3])
def test_every_call_and_the_next_ones(tmp_path, times, parallel):
    """The second failure meets what was done about the first."""
    for act in ("no space", "broken"):
        folder = tmp_path / act
        folder.mkdir()
        assert every_call(folder, ACTS[act], parallel, 1, times=times) > 60


@pytest.mark.parametrize("left", [ALWAYS, 200, 2, 1])
def test_disk_01_a_full_disk_takes_nothing_and_room_lets_the_session_go_on(tmp_path, left):
    """DISK-01: the record fails with so many bytes left; then there is room; then one more turn."""
    folder = tmp_path / "life"
    folder.mkdir()
    calls = Counted()
    life = Life(folder, calls=calls)
    life.open()
    before = life.path.read_bytes()
    after = max(0, size_of_a_push(tmp_path / "other") - left)
    calls.arm(1, failing_after(errno.ENOSPC, after), times=ALWAYS, only="write")
    with pytest.raises(LogWriteFailed, match="No space left"):
        life.live()
    assert life.path.read_bytes() == before
    assert life.kernel.items() == []
    assert life.outside.lines() == []
    calls.arm(0, None)
    life.live()
    life.close()
    check_session(folder)


def size_of_a_push(folder):
    """Bytes of the first line that a session writes after it was begun."""
    folder.mkdir()
    life = Life(folder)
    life.open().push(ContextItem.user(USERS[0]))
    life.close()
    return len(life.path.read_bytes().splitlines(keepends=True)[-1])


def test_disk_04_a_failed_sync_ends_the_writing_of_this_process(tmp_path):
    """DISK-04: nothing is reported durable after it, until the log was opened again."""
    calls = Counted()
    life = Life(tmp_path, calls=calls)
    life.open()
    calls.arm(1, BROKEN, only="fsync")
    acknowledged = []
    life.acknowledge = acknowledged.append
    with pytest.raises(LogUnusable, match="may be lost"):
        life.live()
    assert acknowledged == ["push first"]
    assert life.outside.lines() == []
    assert life.provider.requests == []
    for order in (life.kernel.interrupt, life.kernel.undo, life.kernel.recount):
        with pytest.raises(LogUnusable, match="may be lost"):
            order()
    with pytest.raises(LogUnusable):
        life.live()
    reopened(life)
    life.open()
    life.live()
    life.close()
    check_session(tmp_path, acknowledged)


@MODES
def test_power_lost_at_any_effect_takes_nothing_it_came_from(tmp_path, parallel):
    """Synced before the world is touched, and before anything is said to be done."""
    folder = tmp_path / "life"
    folder.mkdir()
    disk = Disk(folder, lambda disk: None)
    seen = []

    def durable(moment):
        if moment == "before an effect" or moment.startswith("position"):
            assert disk.image(0)["demo.jsonl"] == life.path.read_bytes()
            seen.append(moment)

    life = Life(folder, calls=disk, reach=durable, parallel=parallel, told=durable)
    life.outside.path = tmp_path / "outside"
    life.open()
    life.live()
    life.close()
    assert seen.count("before an effect") == 4 + 6  # requests and tools
    assert len(seen) == 10 + 4


def test_unsynced_is_only_about_waiting(tmp_path):
    """The instrument: everything else reaches the system."""
    path = tmp_path / "x"
    calls = Unsynced()
    fd = calls.open(str(path), os.O_WRONLY | os.O_CREAT)
    calls.write(fd, b"abc")
    calls.fsync(fd)
    calls.close(fd)
    assert path.read_bytes() == b"abc"
