"""What README.md and ARCHITECTURE.md say is so: their programs run, what they name exists."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nachalnik.cli.root import COMMANDS
from nachalnik.cli.statuses import MEANINGS
from reducers.rules import DUE, RULES
from reducers.state import JOINT, MACHINES
from reducers.vocabulary.phases import Phase

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
FIRST, TOOLS, EMBEDDED = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHELL = "".join(re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))


def run(*arguments, cwd):
    command = [sys.executable, *map(str, arguments)]
    found = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=cwd, env=found, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(page, heading):
    """The first cells of the table under a line that begins with `heading`."""
    table = page.split(f"\n{heading}", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in row.split(" | ")] for row in table.splitlines()[2:]]


# -- programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(FIRST, id="first", marks=pytest.mark.accepts(458, 459, 460, 461)),
        pytest.param(EMBEDDED, id="embedded"),
    ],
)
def test_a_program_prints_what_its_comments_say(program, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert said
    assert run(path, cwd=tmp_path).splitlines() == said


def test_the_first_program_is_the_example_and_short():
    assert (ROOT / "nachalnik/examples/first.py").read_text(encoding="utf-8") == FIRST
    assert len(FIRST.splitlines()) <= 25


def test_the_embedding_example_drives_a_turn_without_the_shell(tmp_path):
    watch = (
        "import runpy, sys; runpy.run_module('nachalnik.examples.embedding', run_name='__main__');"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'effects', 'anyio'}))"
    )
    assert run("-c", watch, cwd=tmp_path).splitlines() == [
        "  4.0  CallModel",
        "  5.0  RunTool",
        "  6.0  CallModel",
        "Finished(item=4, stop='end_turn')",
        "True",
        "[]",
    ]


def test_the_tool_and_the_written_replies_work_as_printed(tmp_path):
    replies = re.search(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "my_tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "replies.txt").write_text(replies, encoding="utf-8")
    (tmp_path / "todo.txt").write_text("Water the plants.", encoding="utf-8")
    (command,) = [line for line in SHELL.splitlines() if "--script" in line]
    told = run("-m", *shlex.split(command), cwd=tmp_path)
    assert 'read_note {"name":"todo.txt"}' in told
    assert told.count("Water the plants.") == 2


# -- commands ----------------------------------------------------------------------------------


def commands():
    for line in SHELL.splitlines():
        for command in line.split("&&"):
            words = shlex.split(command, comments=True)
            if words:
                yield pytest.param(words, id=" ".join(words[:2]))


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_of_the_readme_exists_with_its_options(words, tmp_path):
    program, command, *rest = words
    if program == "make":
        assert re.search(rf"^{command}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert program == "nachalnik"
    told = run("-m", "nachalnik", command, "--help", cwd=tmp_path)
    assert [word for word in rest if word.startswith("--") and word not in told] == []


def test_an_option_that_the_readme_names_is_one_of_some_command(tmp_path):
    told = [run("-m", "nachalnik", command, "--help", cwd=tmp_path) for command in COMMANDS]
    options = {option for text in told for option in re.findall(r"--[a-z-]+", text)}
    assert set(re.findall(r"(?<![-\w])--[a-z][a-z-]*", README)) <= options


def test_the_tables_of_commands_and_statuses_are_complete():
    named = [cells[0].strip("|` ") for cells in rows(README, "| command | does |")]
    assert named == [f"nachalnik {command}" for command in COMMANDS]
    statuses = [int(cells[0].strip("| ")) for cells in rows(README, "| exit status | means |")]
    assert statuses == list(MEANINGS)


# -- what the pages name -----------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_a_link_leads_to_a_file(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_diagram_shows_the_six_states():
    diagram = re.search(r"^```mermaid\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
    arrows = re.findall(r"^    (\S+) --> (\w+)", diagram, re.MULTILINE)
    states = {str(phase.__struct_config__.tag) for phase in Phase.__args__}
    assert {state for arrow in arrows for state in arrow} == states | {"[*]"}


def test_the_machines_listen_to_what_the_page_says():
    page = {
        cells[0].strip("|` "): re.findall(r"`([a-z.]+)`(\+?)", cells[2])
        for cells in rows(ARCHITECTURE, "| machine | keeps | listens to |")
    }
    alone = {
        machine: {event.__struct_config__.tag for event in evolve} for machine, evolve in MACHINES
    }
    told = {machine: {tag for tag, joint in tags if not joint} for machine, tags in page.items()}
    assert told == alone
    joint = {tag for tags in page.values() for tag, is_joint in tags if is_joint}
    assert joint == {event.__struct_config__.tag for event in JOINT}


def test_the_rules_stand_on_the_page_in_their_order():
    page = [
        (phase.strip("|` "), rule.strip("` "))
        for phase, rule, _ in rows(ARCHITECTURE, "| in | rule | says |")
    ]
    assert page == [("due", rule.__name__) for rule in DUE] + [
        (str(phase.__struct_config__.tag), rule.__name__)
        for phase, rules in RULES.items()
        for rule in rules
    ]


def test_a_file_that_the_architecture_names_is_there():
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|toml))`", ARCHITECTURE))
    here = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("[a-z]*/**/*.py")}
    assert len(named) > 20
    missing = [
        name
        for name in named
        if not (ROOT / name).exists() and not any(path.endswith(f"/{name}") for path in here)
    ]
    assert missing == []
