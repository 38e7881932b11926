"""`scenario` as a command; the runner has tests of its own."""

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
