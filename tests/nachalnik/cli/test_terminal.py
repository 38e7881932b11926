"""At a terminal: questions are asked, answers are typed, and nothing is answered by itself."""

import pytest

from tests.nachalnik.cli.shell import Ran, Terminal, wait_for

NOTE = 'call c1 note{"text":"hi\\n\\u001b[2Jyou"}'
QUESTION = "Question 1: may call c1 run note, which needs fs:write?\n"
YES_OR_NO = "y = yes, n = no (and why, if you like): "


def test_a_call_is_asked_about_with_its_exact_arguments(shell):
    shell.script(NOTE, '"All right."')
    terminal = Terminal(shell, *shell.turn_words("go"))
    asked = terminal.until(YES_OR_NO)
    assert QUESTION in asked
    assert '  {"text":"hi\\n\\u001b[2Jyou"}\n' in asked
    terminal.type("what?\n")
    terminal.until(YES_OR_NO)
    assert shell.notes() == []
    terminal.type("y\n")
    status, out = terminal.end()
    assert status == 0
    assert "All right.\n-- finished" in out
    assert len(shell.notes()) == 2  # the text has two lines


def test_a_refusal_says_why(shell):
    shell.script(NOTE, '"All right."')
    terminal = Terminal(shell, *shell.turn_words("go"))
    terminal.until(YES_OR_NO)
    terminal.type("n not today\n")
    status, out = terminal.end()
    assert status == 0
    assert "[c1] refused: not today" in out
    assert shell.notes() == []


def test_a_rule_that_denies_is_not_asked_about(shell):
    shell.script(NOTE, '"All right."')
    terminal = Terminal(shell, *shell.turn_words("go", "--deny", "note"))
    status, out = terminal.end()
    assert status == 0
    assert "Question" not in out


def test_without_an_answer_the_question_stays_open(shell):
    shell.script(NOTE, '"All right."')
    terminal = Terminal(shell, *shell.turn_words("go"))
    terminal.until(YES_OR_NO)
    terminal.type("\x04")
    status, out = terminal.end()
    assert status == 3
    assert "to allow it: nachalnik resume s.jsonl --answer 1=allow " in out
    terminal = Terminal(shell, *shell.resume_words())
    assert QUESTION in terminal.until(YES_OR_NO)
    terminal.type("y\n")
    assert terminal.end()[0] == 0


def test_ctrl_c_at_a_question_leaves_it_open(shell):
    shell.script(NOTE, '"All right."')
    terminal = Terminal(shell, *shell.turn_words("go"))
    terminal.until(YES_OR_NO)
    terminal.type("\x03")
    status, _ = terminal.end()
    assert status == 130
    assert shell.resume("--answer", "1=deny").status == 0


def test_an_open_question_comes_before_the_prompt(shell):
    shell.script(NOTE, '"All right."', '"And this."')
    assert shell.turn("--ask", "note").status == 3
    terminal = Terminal(shell, *shell.turn_words("more"))
    terminal.until(YES_OR_NO)
    assert shell.run("show", "s.jsonl").out.count("user_message") == 1
    terminal.type("n\n")
    assert terminal.end()[0] == 0
    assert shell.run("show", "s.jsonl").out.count("user_message") == 2


@pytest.mark.parametrize(
    ("typed", "outcome"),
    [
        ("s It was done.", "[c1] gave It was done."),
        ("f", "[c1] failed: It failed"),
        ("f disk full", "[c1] failed: disk full"),
    ],
)
def test_an_unknown_outcome_is_asked_about(shell, typed, outcome):
    shell.script('call c1 die{"text":"hi"}', '"All right."')
    assert shell.turn("--allow", "*").status == -9
    terminal = Terminal(shell, *shell.resume_words())
    asked = terminal.until("f = it failed (and how, if you like): ")
    assert "die was started by call c1; whether it took effect is unknown.\n" in asked
    terminal.type("y\n")
    terminal.until("f = it failed (and how, if you like): ")
    terminal.type(f"{typed}\n")
    status, out = terminal.end()
    assert status == 0
    assert outcome in out
    assert shell.notes() == ["hi"]


def test_a_run_that_was_left_can_be_told_of(shell):
    shell.script('call c1 patient{"seconds":60}', '"All right."')
    terminal = Terminal(shell, *shell.turn_words("go", "--allow", "*"))
    wait_for(shell.folder / "started")
    terminal.type("\x03")
    terminal.until("Ctrl-C again leaves it now")
    terminal.type("\x03")
    assert terminal.end()[0] == 130
    terminal = Terminal(shell, *shell.resume_words())
    terminal.until("nothing = tell the model that it is unknown: ")
    terminal.type("s I waited.\n")
    status, out = terminal.end()
    assert status == 0
    assert "[c1] gave I waited." in out


def test_with_json_questions_are_asked_on_standard_error(shell):
    shell.script(NOTE, '"All right."')
    path = shell.folder / "out.json"
    with path.open("wb") as out:
        terminal = Terminal(shell, *shell.turn_words("go", "--json"), out=out.fileno())
    terminal.until(YES_OR_NO)
    terminal.type("y\n")
    status, seen = terminal.end()
    assert (status, seen.strip()) == (0, "y")
    assert Ran(0, path.read_text(), "").lines()[-1]["status"] == 0


def test_a_prompt_is_not_waited_for(shell):
    shell.script('"x"')
    terminal = Terminal(shell, *shell.turn_words())
    status, out = terminal.end()
    assert (status, "give a PROMPT" in out) == (2, True)


def test_a_table_is_styled_unless_the_reader_says_no(shell):
    shell.script('"x"')
    shell.turn()
    terminal = Terminal(shell, "show", "s.jsonl@6")
    assert "\x1b[" in terminal.end()[1]
    for words in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        terminal = Terminal(shell, "show", "s.jsonl@6", **words)
        assert "\x1b" not in terminal.end()[1]
