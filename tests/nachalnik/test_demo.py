"""The demo: it runs, repeats itself to the byte, leaves nothing behind; and its tools are right."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from effects.ports import OutputSink, ToolError
from nachalnik.demo.tools import reading_tool, writing_tool
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.json import Json, compact
from reducers.vocabulary.tools import ToolOutput

ROOT = Path(__file__).resolve().parents[2]
FILES = {"README.md": "# Mine\n\nA project.\n", "pyproject.toml": '[project]\nname = "mine"\n'}
NO_WAY_OUT = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
"""A proxy where nobody listens: what is on loopback must not be looked for there."""

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


# -- the whole ---------------------------------------------------------------------------------


def run_demo(project, scratch):
    """In a project of its own, where temporary folders go to `scratch`."""
    project.mkdir()
    scratch.mkdir()
    for name, text in FILES.items():
        (project / name).write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "nachalnik.demo"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), **NO_WAY_OUT},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    top = tmp_path_factory.mktemp("demo")
    return top, [run_demo(top / f"project{n}", top / f"scratch{n}") for n in range(2)]


def test_it_succeeds_and_says_nothing_on_standard_error(demos):
    for done in demos[1]:
        assert (done.returncode, done.stderr) == (0, "")


def test_a_second_run_prints_the_same(demos):
    first, second = demos[1]
    assert first.stdout == second.stdout


def test_no_path_and_no_port_of_this_machine_is_printed(demos):
    top, (first, _) = demos
    assert str(top) not in first.stdout
    assert str(ROOT) not in first.stdout
    assert re.findall(r"127\.0\.0\.1:(?!11434)\d+", first.stdout) == []


def test_the_project_is_as_it_was_and_the_temporary_folder_is_gone(demos):
    top, _ = demos
    assert {path.name: path.read_text() for path in (top / "project0").iterdir()} == FILES
    assert list((top / "scratch0").iterdir()) == []


def test_it_is_killed_settled_by_the_tool_and_replayed(demos):
    told = demos[1][0].stdout
    before, after = told.split("SIGKILL")
    lines = [line.split() for line in before.splitlines()]
    starts = [(line[0], line[-1]) for line in lines if line[1:2] == ["tool.started"]]
    assert [tool for _, tool in starts] == ["read_file", "read_file", "write_note"]
    assert starts[0] == starts[1], "both files are read from one commit on"
    assert re.search(r"question.answered +question \d+: reconciled", after)
    assert "started 1 time(s), and the folder holds 1 note(s)" in after
    assert re.search(r"identical: \d+ commits, \d+ events", after)
    assert "question.opened" not in after.split("question.answered", 1)[1].split("4. ")[0]


# -- its tools ---------------------------------------------------------------------------------


def call(tool, **arguments):
    return ToolCall("c1", tool, Json(compact(arguments)))


async def test_a_note_is_found_by_the_key_that_wrote_it_and_by_no_other(tmp_path):
    tool = writing_tool(tmp_path)
    asked = call("write_note", name="a.md", text="hello")
    wrote = await tool.invoke(asked, OutputSink(key="log:7.0"))
    assert wrote == ToolOutput(Text("Wrote a.md."))
    assert await tool.reconcile(asked, "log:7.0") == wrote
    other = await tool.reconcile(asked, "log:9.0")
    assert other == ToolOutput(Text("a.md was not written."), is_error=True)


async def test_a_run_that_died_before_its_effect_is_told_as_not_written(tmp_path):
    asked = call("write_note", name="a.md", text="hello")
    (tmp_path / "a.md.part").write_text("(written by call log:7.0)", encoding="utf-8")
    told = await writing_tool(tmp_path).reconcile(asked, "log:7.0")
    assert told == ToolOutput(Text("a.md was not written."), is_error=True)


async def test_the_effect_is_done_when_its_signal_comes(tmp_path):
    seen = []
    tool = writing_tool(tmp_path, lambda: seen.append((tmp_path / "a.md").read_text()))
    await tool.invoke(call("write_note", name="a.md", text="hello"), OutputSink(key="log:7.0"))
    assert seen == ["hello\n\n(written by call log:7.0)\n"]


async def test_the_tools_stay_in_their_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "a.md").write_text("mine", encoding="utf-8")
    for name in ("../a.md", str(tmp_path / "a.md")):
        for tool, asked in (
            (reading_tool(inside), call("read_file", path=name)),
            (writing_tool(inside), call("write_note", name=name, text="x")),
        ):
            with pytest.raises(ToolError, match="outside"):
                await tool.invoke(asked, OutputSink(key="log:7.0"))
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == "mine"


async def test_a_missing_file_is_a_failure_the_model_can_read(tmp_path):
    with pytest.raises(ToolError, match=r"a\.md cannot be read: No such file"):
        await reading_tool(tmp_path).invoke(call("read_file", path="a.md"), OutputSink())
