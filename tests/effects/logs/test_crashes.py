"""What is left of a log when its process is killed, or the machine's power is lost, at any call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from effects.logs.file import FileLog
from effects.logs.port import LogExists
from effects.logs.scan import check_log
from effects.logs.tail import torn_file
from tests.effects.logs.crashing import live
from tests.effects.logs.power import Disk
from tests.effects.logs.samples import HEADER, commit, commits, large, stored

ROOT = Path(__file__).resolve().parents[3]
WITH_CONTENT = (3, 4, 5)


def opened_again(path):
    """The log after a crash; made again when its creation did not come to its end."""
    try:
        return FileLog.create(path, HEADER)
    except LogExists:
        return FileLog.open(path, fingerprint="v1")


def assert_whole(log, promised):
    """All that was promised is there, at most one commit more, and the log goes on."""
    values = list(log.values())
    assert values == commits(1, len(values))
    assert promised <= len(values) <= promised + 1
    for position in WITH_CONTENT:
        if position <= len(values):
            digest, content = large(f"content {position}")
            assert log.content(digest) == content
    cache = log.read_cache()
    if cache is not None:
        assert cache.state == b"state %d" % cache.position
        assert list(log.values(cache.position)) == commits(cache.position + 1, len(values))
    log.append(commit(len(values) + 1))
    log.sync()
    log.close()
    assert stored(Path(log.path)) == commits(1, len(values) + 1)
    assert list(check_log(log.path)) == []


@pytest.mark.parametrize("act", ["killed", "killed_half"])
def test_a_process_killed_at_any_call_loses_nothing_it_was_promised(tmp_path, act):
    command = [sys.executable, "-m", "tests.effects.logs.crashing", str(tmp_path), act]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)
    promises = set()
    lives = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    for folder in lives:
        promised = (folder / "acknowledged").read_bytes().count(b"a")
        promises.add(promised)
        log = opened_again(folder / "demo.log")
        assert log.position >= promised
        assert_whole(log, promised)
    assert len(lives) > 60
    assert promises == {0, 1, 2, 3, 4, 5}


def test_killed_in_the_middle_of_a_line_the_half_is_set_aside(tmp_path):
    command = [sys.executable, "-m", "tests.effects.logs.crashing", str(tmp_path), "killed_half"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)
    torn = set()
    for folder in tmp_path.iterdir():
        opened_again(folder / "demo.log").close()
        aside = Path(torn_file(str(folder / "demo.log")))
        torn.add(aside.read_bytes()[:10] if aside.exists() else b"")
    assert {b"", b'{"chain":"', b'{"nachalni', b"torn"} <= torn


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_power_lost_at_any_call_takes_nothing_that_was_synced(tmp_path, share):
    promises, images = [0, 0], []

    def told(word):
        promises[0] += word == b"a"
        if word == b"s":
            promises[1] = promises[0]

    folder = tmp_path / "life"
    folder.mkdir()
    disk = Disk(folder, lambda disk: images.append((promises[1], disk.image(share))))
    live(folder / "demo.log", disk, told, tail=b"")
    assert promises == [5, 5]
    for number, (synced, files) in enumerate(images):
        lost = tmp_path / str(number)
        restore(lost, files)
        log = opened_again(lost / "demo.log")
        assert log.position >= synced
        assert_whole(log, log.position)
    assert len(images) > 60
    assert {synced for synced, _ in images} == {0, 2, 5}


def restore(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_closed_log_has_its_contents_after_a_loss_of_power(tmp_path, durability):
    images = []
    disk = Disk(tmp_path, lambda disk: images.append(disk.image(0)))
    digest, content = large("content")
    path = tmp_path / "demo.log"
    with FileLog.create(path, HEADER, durability, disk) as log:
        log.append(commit(1), [(digest, content)])
    assert images[-1]["demo.log"] == path.read_bytes()
    assert images[-1][os.path.join("demo.log.d", digest)] == content


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_content_that_nobody_waited_for_is_durable_when_it_is_named_again(tmp_path, durability):
    images = []
    disk = Disk(tmp_path, lambda disk: images.append(disk.image(0)))
    digest, content = large("content")
    path = tmp_path / "demo.log"
    FileLog.create(path, HEADER, durability, disk).close()
    with FileLog.open(path, "memory", calls=disk) as log:
        log.append(commit(1), [(digest, content)])
    assert not any("demo.log.d" in name for name in images[-1])
    with FileLog.open(path, durability, calls=disk) as log:
        log.append(commit(2), [(digest, content)])
    assert images[-1]["demo.log"] == path.read_bytes()
    assert images[-1][os.path.join("demo.log.d", digest)] == content


def test_the_disk_forgets_what_was_not_synced(tmp_path):
    """The test's own instrument: without it, a log that never syncs would pass above."""
    images = []
    disk = Disk(tmp_path, lambda disk: images.append(disk.image(0)))
    log = FileLog.create(tmp_path / "demo.log", HEADER, calls=disk)
    log.append(commit(1))
    log.append(commit(2), [large("content")])
    (before,) = {image["demo.log"].count(b"\n") for image in images[-3:]}
    log.sync()
    assert (before, images[-1]["demo.log"].count(b"\n")) == (1, 3)
    assert os.path.join("demo.log.d", large("content")[0]) in images[-1]
    log.close()
    path = tmp_path / "forgetful" / "demo.log"
    disk = Disk(path.parent, lambda disk: images.append(disk.image(0)))
    with FileLog.create(path, HEADER, "memory", calls=disk) as log:
        log.append(commit(1))
        log.sync()
    assert images[-1] == {}
