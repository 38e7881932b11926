"""`scenario` as a command; the runner has tests of its own."""

import subprocess
import time

import pytest

from tests.nachalnik.cli.shell import WAIT_S, finish, interrupt

STORY = """\
tool add

user "add 1 and 2"
model> call c1 add{"x":1,"y":2}
model> "It is 3."
"""


def test_a_script_gets_its_trace_and_is_then_as_written(shell, quick):
    path = shell.folder / "story.txt"
    path.write_text(STORY)
    assert shell.run("scenario", "story.txt").status == 1
    assert shell.run("scenario", "story.txt", "--rewrite").status == 0
    assert path.read_text().startswith(f"{STORY}----\n")
    ran = shell.run("scenario", "story.txt")
    assert (ran.status, ran.err) == (0, "")
    path.write_text(path.read_text().replace("turn.closed", "turn.shut"))
    assert shell.run("scenario", "story.txt").status == 1


def test_json_is_all_there_is_on_standard_output(shell):
    (shell.folder / "story.txt").write_text(STORY)
    ran = shell.run("scenario", "story.txt", "story.txt", "--json")
    assert ran.status == 1
    assert [line["outcome"] for line in ran.lines()] == ["differs", "differs"]


def test_a_script_that_cannot_be_read_is_told_with_status_2(shell, quick):
    (shell.folder / "bad.txt").write_text("dance wildly\n")
    assert shell.run("scenario", "bad.txt").status == 2
    assert shell.run("scenario", "absent.txt").status == 2


def test_a_script_that_differs_is_told_to_a_reader_that_went_away_by_the_status(shell):
    """And the scripts after it are run all the same."""
    (shell.folder / "bad.txt").write_text(f"{STORY}state = idle\n")
    (shell.folder / "new.txt").write_text(STORY)
    process = shell.start("scenario", "bad.txt", "new.txt", "--rewrite")
    process.stdout.close()
    process.stdout = None
    ran = finish(process)
    assert (ran.status, ran.err) == (1, "")
    assert "----" in (shell.folder / "new.txt").read_text()


def test_what_an_encoding_cannot_say_is_spelt_out(shell):
    (shell.folder / "story.txt").write_text(f"{STORY}----\na · and \x1b[31m\n")
    ran = shell.run("scenario", "story.txt", PYTHONIOENCODING="ascii")
    assert (ran.status, ran.err) == (1, "")
    assert "-a \\xb7 and \\x1b[31m" in ran.out
    ran = shell.run("scenario", "story.txt", "--json", PYTHONIOENCODING="ascii")
    assert "-a · and \x1b[31m" in ran.lines()[0]["diff"]


@pytest.mark.parametrize(
    "story",
    [
        'tool deaf\nuser "go"\nmodel> call c deaf{"s":1}\n',
        'tool ext\npush user "go"\ncrash\nreopen\nturn\nmodel> call c ext{}\n',
    ],
    ids=["thread", "processes"],
)
def test_nothing_of_a_story_outlives_ctrl_c(shell, monkeypatch, story):
    (shell.folder / "story.txt").write_text(story)
    monkeypatch.setenv("TMPDIR", str(shell.folder))
    process = shell.start("scenario", "story.txt")
    end = time.monotonic() + WAIT_S
    while not list(shell.folder.glob("nachalnik-story-*/outside")):
        assert time.monotonic() < end, "the call was never started"
        time.sleep(0.01)
    interrupt(process)
    try:
        # Every process of the story has this standard output: it ends with the last of them.
        out, err = process.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
    assert list(shell.folder.glob("nachalnik-story-*")) == []
