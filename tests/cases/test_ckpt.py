"""CKPT: damaged, half-written or torn logs and snapshots."""

import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from effects.logs.file import FileLog
from effects.logs.scan import check_log, read_log
from nachalnik import ContextItem, Kernel, Rules
from reducers.codec import decode_commit
from tests.cases.dying import LOG, session
from tests.cases.peers import ROOT
from tests.effects.shell import Model, Tool, calls, results, said, sound

BREAKS = "\n \r\n \r \u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e \\"


def _open(path, *replies, tool=None):
    tools = [tool or Tool("note", "noted")]
    return Kernel.open(path, provider=Model(*replies), tools=tools, policy=Rules(allow=["*"]))


def _values(path):
    with read_log(path) as view:
        return [value for _, value in view.commits]


def test_ckpt_03_one_line_a_record_for_every_splitter(tmp_path):
    path = tmp_path / "log.jsonl"
    with _open(path, calls("raw"), said(f"done{BREAKS}"), tool=Tool("raw", BREAKS)) as kernel:
        kernel.push(ContextItem.user(f"go{BREAKS}"))
        anyio.run(kernel.turn)
        count = kernel.position + 1  # and the header
    raw = path.read_bytes()
    assert raw.count(b"\n") == count
    assert len(raw.splitlines()) == count
    assert len(raw.decode().splitlines()) == count
    with path.open(newline=None) as lines:
        assert len(list(lines)) == count
    with _open(path) as again:
        assert results(again) == [("c1", BREAKS, False)]
        assert again.items()[0].content.text == f"go{BREAKS}"
        assert again.items()[-1].content.text == f"done{BREAKS}"
        sound(again)


def test_ckpt_03_in_the_name_of_the_session(tmp_path):
    path = tmp_path / "a\u2028b\x85c.jsonl"
    with Kernel.open(path) as kernel:
        count = kernel.position + 1
    assert len(path.read_text().splitlines()) == count
    with Kernel.open(path) as again:
        assert again.session_name() == "a\u2028b\x85c"


# -- CKPT-05: the log's own rewrites: cutting a torn tail off, replacing the state cache ---------


@pytest.fixture(scope="module")
def restored():
    """Takes back what `dying.session` sets for its process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nachalnik.kernel.FileLog", FileLog)
        patch.setattr("nachalnik.kernel.CACHE_EVERY", 1)
        yield


@pytest.fixture(scope="module")
def torn(tmp_path_factory, restored):
    """A session with a state cache, and half a line behind its last commit."""
    folder = tmp_path_factory.mktemp("torn")
    Kernel.open(folder / LOG).close()
    session(folder)
    with (folder / LOG).open("ab") as file:
        file.write(b'{"chain":"half a line')
    return folder


@pytest.fixture(scope="module")
def whole(torn, tmp_path_factory):
    """The commits of the session when nothing comes between."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(torn, folder)
    session(folder)
    return _values(folder / LOG)


@pytest.mark.parametrize("how", ["killed", "killed_half"])
def test_ckpt_05_killed_at_each_call(torn, whole, tmp_path, how):
    """Every opening finds the commits of before and some of the new ones, in order and whole."""
    command = [sys.executable, "-m", "tests.cases.dying", str(torn), str(tmp_path), how]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)
    folders = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(folders) > (30 if how == "killed" else 6)
    before = len(_values(torn / LOG))
    lengths = set()
    for folder in folders:
        path = folder / LOG
        kept = _values(path)
        assert before <= len(kept) <= len(whole), folder.name
        assert kept == whole[: len(kept)], folder.name
        lengths.add(len(kept))
        with _open(path, said("done"), said("done")) as kernel:
            assert kernel.position >= len(kept) + 1
            for question in kernel.pending_questions():
                kernel.settle(question.call, "noted")
            anyio.run(kernel.turn)
            sound(kernel)
        assert not list(check_log(path)), folder.name
    assert lengths == set(range(before, len(whole) + 1))


# -- CKPT-06: a snapshot (our state cache) that is not of this log -------------------------------


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A log with a state cache that every closing replaces, and what it held some commits ago."""
    monkeypatch.setattr("nachalnik.kernel.CACHE_EVERY", 1)
    path = tmp_path / "log.jsonl"
    with Kernel.open(path) as kernel:
        kernel.push(ContextItem.user("one"))
    earlier = path.read_bytes()
    with Kernel.open(path) as kernel:
        for number in range(3):
            kernel.push(ContextItem.user(f"more {number}"))
    return path, earlier


def _opened(path):
    """The texts of the items, after the fold was held against the log."""
    count = len(_values(path))
    with Kernel.open(path) as kernel:
        assert kernel.position == count + 1
        sound(kernel)
        return [item.content.text for item in kernel.items()], kernel._log.cache_problem


def test_ckpt_06_the_state_cache_is_used(cached):
    path, _ = cached
    texts, problem = _opened(path)
    assert texts == ["one", "more 0", "more 1", "more 2"]
    assert problem is None


def test_ckpt_06_newer_than_the_log(cached):
    path, earlier = cached
    path.write_bytes(earlier)
    texts, problem = _opened(path)
    assert texts == ["one"]
    assert problem


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 4096])
def test_ckpt_06_empty_or_nonsense(cached, content):
    path, _ = cached
    Path(f"{path}.state").write_bytes(content)
    texts, problem = _opened(path)
    assert texts == ["one", "more 0", "more 1", "more 2"]
    assert problem


def test_ckpt_06_of_another_session(cached, tmp_path):
    path, _ = cached
    other = tmp_path / "other.jsonl"
    with Kernel.open(other) as kernel:
        for number in range(4):
            kernel.push(ContextItem.user(f"other {number}"))
    shutil.copy(f"{other}.state", f"{path}.state")
    texts, problem = _opened(path)
    assert texts == ["one", "more 0", "more 1", "more 2"]
    assert problem
    assert decode_commit(_values(path)[-1]).position == len(_values(path))
