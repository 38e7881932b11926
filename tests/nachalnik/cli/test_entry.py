"""The door: the version, the help, and what a wrong command line gets."""

import re
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

import nachalnik.cli
from nachalnik.cli import VERSION
from nachalnik.cli.root import COMMANDS
from nachalnik.cli.statuses import MEANINGS
from tests.nachalnik.cli.shell import COMMAND, ROOT, finish

ENTRY = "import sys; from nachalnik.cli import main; sys.exit(main(['--version']))"


def test_the_version_is_that_of_the_package(shell):
    assert f"nachalnik {nachalnik.__version__}" == VERSION
    ran = shell.run("--version")
    assert (ran.status, ran.out, ran.err) == (0, f"{VERSION}\n", "")


def test_the_version_is_answered_before_anything_is_imported():
    code = ENTRY.replace("sys.exit(", "(") + "; print(sorted(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(eval(ran.stdout.splitlines()[-1]))
    heavy = {"click", "msgspec", "anyio", "asyncio", "attrs", "rich", "typing", "reducers"}
    assert not loaded & heavy
    assert {one for one in loaded if one.startswith("nachalnik")} == {"nachalnik", "nachalnik.cli"}


def test_the_version_comes_about_as_fast_as_python():
    def best(code: str) -> float:
        times = []
        for _ in range(15):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        return min(times)

    assert best(ENTRY) <= 6 * best("")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_and_statuses(here, name):
    ran = here(name, "--help")
    assert ran.status == 0
    assert ran.out.startswith(f"Usage: nachalnik {name}")
    assert f"\nExamples:\n  nachalnik {name}" in ran.out
    assert "\nExit status:\n  0 " in ran.out
    assert "\n  2    " in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100
    assert here("help", name).out == ran.out


def test_the_help_lists_commands_and_every_status(here):
    ran = here("--help")
    assert ran.status == 0
    for name, words in COMMANDS.items():
        assert f"  {name:<9} {words}" in ran.out
    for status, meaning in MEANINGS.items():
        assert f"\n  {status:<5}{meaning}" in ran.out


def test_the_list_of_files_is_whole():
    told = set(re.findall(r"\w+\.py", nachalnik.cli.__doc__))
    there = {path.name for path in Path(nachalnik.cli.__file__).parent.glob("*.py")}
    assert told == there - {"__init__.py"}


def test_the_help_imports_no_command():
    code = (
        "import sys; from nachalnik.cli import main; main(['--help']); print(sorted(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    loaded = set(eval(ran.stdout.splitlines()[-1]))
    assert not loaded & {"msgspec", "anyio", "asyncio", "rich", "nachalnik.cli.run"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "No such command 'nope'"),
        (["show"], "Missing argument"),
        (["run", "hello"], "Missing option '--log'"),
        (["show", "x", "--nope"], "No such option"),
        (["replay", "x", "--until", "-1"], "--until"),
        (["scenario"], "Missing argument 'FILE...'"),
    ],
)
def test_a_wrong_command_line_is_told_with_status_2(here, arguments, said):
    ran = here(*arguments)
    assert ran.status == 2
    assert said in ran.err
    assert ran.out == ""


def test_nothing_at_all_gets_the_help_and_status_2(shell):
    ran = shell.run()
    assert ran.status == 2
    assert "Usage: nachalnik" in ran.err


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["scenario", "absent.txt"]])
def test_output_that_nobody_reads_is_no_error(shell, words):
    process = shell.start(*words)
    process.stdout.close()
    process.stdout = None
    assert finish(process).err == ""


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["run", "--help"]])
def test_output_that_has_no_room_is_told(shell, words):
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*COMMAND, *words], cwd=shell.folder, env=shell.env(), stdout=full, stderr=PIPE
        )
    told = b"nachalnik: standard output: No space left on device; nothing more is printed\n"
    assert (ran.returncode, ran.stderr) == (1, told)


def test_a_version_that_nobody_can_read_is_no_error(shell):
    command = " ".join(["exec", *COMMAND, "--version", ">&-"])
    ran = subprocess.run(["sh", "-c", command], cwd=shell.folder, env=shell.env(), stderr=PIPE)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("log", "status", "err"),
    [("s.jsonl", 2, "the current folder was removed"), ("../s.jsonl", 2, "the current folder was")],
)
def test_a_folder_that_was_removed_is_told(shell, log, status, err):
    ran = in_removed_folder(shell, "show", log)
    assert (ran.returncode, ran.stdout) == (status, "")
    assert ran.stderr.startswith(f"nachalnik: {err}")
    assert ran.stderr.count("\n") == 1


def test_in_a_folder_that_was_removed_what_is_elsewhere_works(shell):
    script = shell.folder / shell.script('"One."')
    words = ("run", "go", "--log", str(shell.log), "--script", str(script))
    ran = in_removed_folder(shell, *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("One.\n")


def in_removed_folder(shell, *words: str) -> subprocess.CompletedProcess:
    gone = shell.folder / "gone"
    gone.mkdir()
    command = " ".join(["rmdir", str(gone), "&&", "exec", *COMMAND, *words])
    env = shell.env()
    return subprocess.run(["sh", "-c", command], cwd=gone, env=env, capture_output=True, text=True)


def test_the_help_says_what_running_programs_means(here):
    for name in ("run", "resume"):
        assert "exec:run subsumes every other one" in here(name, "--help").out


def test_streams_that_the_caller_closed_do_no_harm(shell):
    shell.script('"hello"')
    command = " ".join(["exec", *COMMAND, *shell.turn_words("go"), "<&- >&- 2>&-"])
    ran = subprocess.run(["sh", "-c", command], cwd=shell.folder, env=shell.env())
    assert ran.returncode == 0
    assert shell.run("check", "s.jsonl").status == 0
