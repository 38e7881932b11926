"""What bad input gets: one message (what, where, what to do), the documented status, no traceback,
and nothing changed that was there."""

import os
import resource
import subprocess

import pytest

from nachalnik.kernel import Kernel
from reducers import chain
from reducers.vocabulary.models import ModelResponse
from tests.nachalnik.cli.shell import COMMAND, Ran
from tests.nachalnik.samples import call, make_log

READERS = (("show",), ("check",), ("replay",))


def one_message(ran: Ran, status: int, *said: str) -> None:
    assert ran.status == status, ran
    assert ran.out == ""
    assert ran.err.startswith("nachalnik: ")
    assert ran.err.count("\n") == 1
    for words in said:
        assert words in ran.err


def every_command(shell) -> list[tuple[str, ...]]:
    shell.script('"One."')
    readers = [(*words, "s.jsonl") for words in READERS]
    return [*readers, shell.turn_words("go"), shell.resume_words()]


def snapshot(shell) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in shell.folder.iterdir()
        if path.name.startswith("s.jsonl") and path.is_file()
    }


def newer(lines: list[bytes]) -> bytes:
    return b"".join([lines[0].replace(b'{"nachalnik":1', b'{"nachalnik":9'), *lines[1:]])


# -- what is no log ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"# my notes\n" * 9, "not a log: it does not begin as a log does"),
        (b'{"type":"session","id":"x"}\n' * 3, "not a log: it does not begin as a log does"),
        (bytes(range(256)), "not a log: it does not begin as a log does"),
        (b"short", "not a log"),
    ],
)
def test_a_file_of_somebody_else_is_not_touched(shell, here, data, said):
    shell.log.write_bytes(data)
    for words in every_command(shell):
        one_message(here(*words), 2, "s.jsonl: ", said)
        assert snapshot(shell) == {"s.jsonl": data}


def test_a_folder_is_no_log(shell, here):
    shell.log.mkdir()
    for words in every_command(shell):
        one_message(here(*words), 2, "s.jsonl: not a log: it is a folder")
    assert snapshot(shell) == {}


def test_a_pipe_is_no_log_and_is_not_waited_for(shell, here):
    os.mkfifo(shell.log)
    for words in every_command(shell):
        one_message(here(*words), 2, "it is no ordinary file")


def test_a_newer_log_is_told_and_not_touched(shell, here):
    make_log(shell.log)
    shell.log.write_bytes(newer(shell.log.read_bytes().splitlines(keepends=True)))
    before = snapshot(shell)
    for words in every_command(shell):
        one_message(here(*words), 2, "written in log format 9", "use a newer version")
    assert snapshot(shell) == before


def test_an_empty_file_is_no_log_to_read_and_one_to_begin(shell, here):
    shell.log.touch()
    for words in (*READERS, ("resume", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")):
        one_message(here(*words, "s.jsonl"), 2, "it holds nothing yet")
    shell.script('"One."')
    assert here(*shell.turn_words("go")).status == 0
    assert here("check", "s.jsonl").status == 0


def test_a_log_whose_creation_a_crash_cut_short_can_be_begun_anew(shell, here):
    make_log(shell.log)
    shell.log.write_bytes(shell.log.read_bytes()[:50])
    for words in READERS:
        one_message(here(*words, "s.jsonl"), 2, "a crash cut its creation short")
    shell.script('"One."')
    assert here(*shell.turn_words("go")).status == 0
    assert here("check", "s.jsonl").status == 0


def test_a_header_with_other_fields_is_told(shell, here):
    """Its bytes are faultless: the chain says so."""
    make_log(shell.log)
    lines = shell.log.read_bytes().splitlines(keepends=True)
    header, _ = chain.open_header(lines[0])
    line, _ = chain.frame_header(header.replace(b'"session":"s"', b'"session":7'))
    shell.log.write_bytes(line)
    before = snapshot(shell)
    for words in every_command(shell):
        if words[0] != "check":
            one_message(here(*words), 2, "line 1: the header cannot be read", "$.session")
    ran = here("check", "s.jsonl")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("line 1: header: it cannot be read: Expected `str`, got `int`")
    assert before["s.jsonl"] == snapshot(shell)["s.jsonl"]


# -- damage ------------------------------------------------------------------------------------


def test_nothing_is_written_to_a_damaged_log(shell, here):
    make_log(shell.log)
    lines = shell.log.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"Add", b"Odd", 1)
    shell.log.write_bytes(b"".join(lines))
    before = snapshot(shell)
    for words in every_command(shell)[2:]:
        one_message(here(*words), 2, "s.jsonl, line 7: damaged", "nachalnik check")
    ran = here("check", "s.jsonl")
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("line 7: bytes: ")
    changed = {name for name, data in snapshot(shell).items() if before.get(name) != data}
    assert changed <= {"s.jsonl.lock"}


def test_a_content_that_is_gone_is_named(shell, here):
    replies = (
        ModelResponse.of_calls(call("c1", "big", '{"size":300000}')),
        ModelResponse.of_text("It is long."),
    )
    make_log(shell.log, *replies)
    (content,) = (shell.folder / "s.jsonl.d").iterdir()
    content.unlink()
    before = snapshot(shell)
    for words in every_command(shell)[2:]:
        one_message(here(*words), 2, content.name, "the content is missing")
    ran = here("show", "s.jsonl")
    assert ran.status == 2
    assert content.name in ran.err
    assert here("check", "s.jsonl").status == 1
    assert before["s.jsonl"] == snapshot(shell)["s.jsonl"]


def test_a_torn_end_is_set_aside_and_told(shell, here):
    make_log(shell.log)
    whole = shell.log.read_bytes()
    shell.log.write_bytes(whole + b'{"chain":"0123')
    ran = here("check", "s.jsonl")
    assert ran.status == 0
    assert "note: line 16: bytes: 14 bytes at the end belong to no whole commit" in ran.out
    shell.script('"One."')
    ran = here(*shell.turn_words("go"))
    assert ran.status == 0
    assert "14 bytes of a torn commit set aside in s.jsonl.torn" in ran.err
    assert (shell.folder / "s.jsonl.torn").read_bytes() == b'{"chain":"0123'
    assert shell.log.read_bytes().startswith(whole)


# -- the system --------------------------------------------------------------------------------


def test_a_log_that_another_process_owns_is_left_to_it(shell):
    shell.script('"One."')
    with Kernel.open(shell.log):
        before = shell.log.read_bytes()
        for words in (shell.turn_words("go"), shell.resume_words()):
            ran = shell.run(*words)
            one_message(ran, 4, f"owned by process {os.getpid()} on ", "Close it there")
        assert shell.log.read_bytes() == before
        assert shell.run("check", "s.jsonl").status == 0
    assert shell.turn().status == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_told(shell, here):
    (shell.folder / "closed").mkdir(mode=0o500)
    shell.script('"One."')
    words = ("run", "go", "--script", "script.txt", "--log", "closed/s.jsonl")
    one_message(here(*words), 2, "closed/s.jsonl", "Permission denied")


def test_a_place_that_cannot_be_is_told(shell, here):
    (shell.folder / "file").touch()
    shell.script('"One."')
    words = ("run", "go", "--script", "script.txt", "--log", "file/s.jsonl")
    one_message(here(*words), 2, "file/s.jsonl")


def run_with_room(shell, room: int, *words: str) -> subprocess.CompletedProcess:
    """The system takes no more than `room` bytes a file."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=shell.folder,
        env=shell.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )


def test_a_prompt_that_cannot_be_written_is_a_failed_turn(shell):
    make_log(shell.log)
    shell.script('"One."')
    size = shell.log.stat().st_size
    ran = run_with_room(shell, size + 3000, *shell.turn_words("x" * 5000))
    assert ran.returncode == 1
    assert "s.jsonl: not written: File too large" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert shell.run("check", "s.jsonl").status == 0


@pytest.mark.parametrize("room", [3500, 5000, 6500])
def test_a_full_disk_ends_the_turn_and_loses_nothing(shell, room):
    """What the system took is a whole log."""
    calls = [f'call c{n} note{{"text":"{n}"}}' for n in range(4)]
    shell.script(*calls, '"Done."')
    ran = run_with_room(shell, room, *shell.turn_words("go", "--allow", "*", tools="tools:note"))
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "File too large" in ran.stderr
    assert "s.jsonl: not written" in ran.stderr
    assert shell.log.stat().st_size <= room
    assert shell.run("check", "s.jsonl").status == 0
    resumed = shell.resume("--allow", "*", tools="tools:note")
    while resumed.status == 3:  # a call that had started, whose result could not be written
        resumed = shell.resume(
            "--answer", "2=settle:It was noted.", "--allow", "*", tools="tools:note"
        )
    assert resumed.status == 0
    # A reply whose answer could not be written is taken all the same; no call took effect twice.
    notes = [note[-1] for note in shell.notes()]
    assert notes == sorted(set(notes))
    assert len(notes) >= 3


# -- names -------------------------------------------------------------------------------------


def test_a_path_is_the_users_and_a_name_is_no_path(shell, here):
    (shell.folder / "inner").mkdir()
    shell.script('"One."', '"Two."')
    words = ("run", "go", "--script", "script.txt", "--log", "inner/../s.jsonl")
    assert here(*words).status == 0
    assert shell.log.exists()
    # A header says what it likes; nothing is opened or made by it.
    lines = shell.log.read_bytes().splitlines(keepends=True)
    header, _ = chain.open_header(lines[0])
    line, _ = chain.frame_header(header.replace(b'"session":"s"', b'"session":"../../up"'))
    shell.log.write_bytes(line)
    names = sorted(path.name for path in shell.folder.rglob("*"))
    assert here("show", "s.jsonl@0").out.startswith("position 0 of session ../../up\n")
    assert here("check", "s.jsonl").status == 0
    assert here(*shell.turn_words("go")).status == 0
    assert sorted(path.name for path in shell.folder.rglob("*")) == names


def test_a_place_in_the_script_that_cannot_be_read_is_told(shell, here):
    shell.script('"One."')
    (shell.folder / "s.jsonl.script").write_text("three")
    one_message(here(*shell.turn_words("go")), 2, "s.jsonl.script", "remove the file")


def test_a_log_inside_a_file_is_the_logs_fault(shell, here):
    shell.script('"One."')
    make_log(shell.log)
    words = ("run", "go", "--log", "s.jsonl/x", "--script", "script.txt")
    one_message(here(*words), 2, "s.jsonl/x: ", "Not a directory")
    assert ".script" not in here(*words).err


def test_a_script_in_no_encoding_is_told(shell, here):
    (shell.folder / "script.txt").write_bytes(b'model> "\xff"\n')
    one_message(here(*shell.turn_words("go")), 2, "script.txt: the script is no UTF-8 text")
