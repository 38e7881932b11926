"""`run`: what is printed, what is asked, what the log holds, and the exit status."""

import json

import pytest

from nachalnik import Config, Kernel
from tests.nachalnik.cli.shell import finish
from tests.nachalnik.samples import rewritten

CALLS = '"Let me see." + call c1 add{"x":1,"y":2} + call c2 note{"text":"hi"}'


def test_a_turn_tells_what_happens_as_it_happens(shell):
    shell.script(CALLS, '"It is 3."')
    ran = shell.turn("--allow", "*")
    assert ran.status == 0
    assert [
        line for line in ran.out.splitlines() if "prints" not in line and "child" not in line
    ] == [
        "Let me see.",
        '[c1] add {"x":1,"y":2}',
        '[c2] note {"text":"hi"}',
        "[c1] gave 3",
        "[c2] gave noted hi",
        "It is 3.",
        "-- finished, at position 10",
    ]
    assert len(shell.notes()) == 1


def test_the_next_run_goes_on_with_the_log_and_the_script(shell, quick):
    shell.script('"One."', '"Two."')
    assert shell.turn().out.startswith("One.\n-- finished")
    assert shell.turn().out.startswith("Two.\n-- finished")
    ran = shell.turn()
    assert ran.status == 1
    assert "no reply left: it has 2" in ran.err


def test_a_script_that_begins_otherwise_starts_anew(shell, quick):
    shell.script('"One."', '"Two."')
    shell.turn()
    shell.script('"One."', '"More."')
    assert shell.turn().out.startswith("More.")
    shell.script('"Other."', '"More."')
    assert shell.turn().out.startswith("Other.")


def test_each_line_of_standard_input_is_a_turn(shell):
    shell.script('"One."', '"Two."')
    ran = shell.turn(stdin="first\n\n   \nsecond")
    assert ran.status == 0
    assert [line for line in ran.out.splitlines() if line[0] != "-"] == ["One.", "Two."]
    shown = shell.run("show", "s.jsonl", "--json").lines()
    added = [line["event"] for line in shown if line["event"]["event"] == "context.added"]
    assert [one["content"]["text"] for one in added] == ["first", "One.", "second", "Two."]


def test_a_turn_that_fails_ends_the_lines(shell):
    shell.script('fails "no luck" code model.overloaded', '"Two."')
    ran = shell.turn(stdin="first\nsecond\n")
    assert ran.status == 1
    assert "the turn failed: no luck" in ran.err
    assert "nachalnik resume s.jsonl" in ran.err
    assert "second" not in shell.run("show", "s.jsonl").out
    assert shell.resume().out.startswith("Two.\n-- finished")


def test_json_is_all_there_is_on_standard_output(shell):
    shell.script(CALLS, '"It is 3."')
    ran = shell.turn("--allow", "*", "--json")
    assert ran.status == 0
    lines = ran.lines()
    assert "a tool prints this" in ran.err
    assert "a child of it" in ran.err
    assert lines[-1] == {
        "position": 10,
        "state": {"state": "finished", "item": 5, "stop": "end_turn"},
        "questions": [],
        "status": 0,
    }
    deltas = [line["event"] for line in lines[:-1] if line["event"]["event"] == "model.delta"]
    text = "".join(one["text"] for one in deltas if one["kind"] == "text")
    assert text == "Let me see.It is 3."
    recorded = [line for line in lines if "seq" in line]
    shown = shell.run("show", "s.jsonl", "--json").lines()
    assert recorded == shown[-len(recorded) :]
    assert recorded[0]["event"]["event"] == "context.added"


def test_a_module_that_prints_when_imported_does_not_spoil_the_json(shell):
    shell.script('"One."')
    (shell.folder / "loud.py").write_text("print('loud')\nfrom tools import add\n")
    ran = shell.turn("--json", tools="loud:add")
    assert ran.status == 0
    assert "loud" in ran.err
    assert ran.lines()[-1]["status"] == 0


def test_the_system_text_opens_a_new_session_only(shell, quick):
    shell.script('"One."', '"Two."')
    assert shell.turn("--system", "Be brief.").err == ""
    ran = shell.turn("--system", "Be long.")
    assert "--system is left out" in ran.err
    items = json.loads(shell.run("show", "s.jsonl@7", "--json").out)["items"]
    assert [(item["kind"]["kind"], item["state"]) for item in items[:2]] == [
        ("system", "pinned"),
        ("user_message", "active"),
    ]
    assert "Be long." not in shell.log.read_text()


@pytest.mark.parametrize(
    ("script", "tools", "says"),
    [
        ("# nothing\n", "tools:TOOLS", "no line of the script begins with `model>`"),
        ('model> "x"\n', "bare:NOTHING", "--tools bare:NOTHING: it holds no tool"),
    ],
)
def test_what_can_answer_nothing_is_told_before_a_log_is_begun(shell, script, tools, says):
    (shell.folder / "script.txt").write_text(script)
    (shell.folder / "bare.py").write_text("NOTHING = []\n")
    ran = shell.turn(tools=tools)
    assert (ran.status, says in ran.err) == (2, True)
    assert not shell.log.exists()


def test_a_log_that_waits_for_nothing_ends_the_command(shell, quick):
    """A stranger's: it rests in deciding, and no question is open."""
    shell.script('"x"')
    shell.turn()
    finished = b'{"state":"finished","item":2,"stop":"end_turn"}'
    rewritten(shell.log, (finished, b'{"state":"deciding","calls":[7]}'))
    for words in (shell.turn_words("on"), shell.resume_words()):
        ran = shell.run(*words)
        assert ran.status == 1
        assert "waits for an answer to a question it does not hold" in ran.err


# -- permissions -------------------------------------------------------------------------------


def test_a_call_no_rule_speaks_of_is_refused_away_from_a_terminal(shell, quick):
    shell.script(CALLS, '"All right."')
    ran = shell.turn("--allow", "add")
    assert ran.status == 0
    assert "[c2] refused by the rules: no rule allows it, and nobody was there to ask" in ran.out
    assert shell.notes() == []
    # The log says who refused, and nobody says that a person did.
    told = [json.loads(line) for line in shell.run("show", "s.jsonl", "--json").out.splitlines()]
    decided = [one["event"] for one in told if one["event"]["event"] == "permission.decided"]
    assert [(one["call"], one["source"]) for one in decided] == [("c1", "policy"), ("c2", "policy")]
    assert "the user was asked" not in ran.out


def test_a_call_a_rule_asks_about_waits_with_status_3(shell, quick):
    shell.script(CALLS, '"All right."')
    ran = shell.turn("--allow", "add", "--ask", "fs:write")
    assert ran.status == 3
    assert 'Question 2: may call c2 run note, which needs fs:write?\n  {"text":"hi"}' in ran.err
    assert "to allow it: nachalnik resume s.jsonl --answer 2=allow " in ran.err
    assert "to refuse it: nachalnik resume s.jsonl --answer 2=deny " in ran.err
    assert "-- waits for an answer to question 2" in ran.out
    # And the next run says so too, before its prompt enters.
    again = shell.turn("--allow", "add", "--ask", "fs:write")
    assert again.status == 3
    assert "the prompt has not entered" in again.err
    assert "Question 2" in again.err
    assert shell.run("show", "s.jsonl").out.count("user_message") == 1


def test_a_tool_that_fails_to_say_what_a_call_needs_ends_the_turn_and_not_the_program(shell, quick):
    (shell.folder / "odd.py").write_text(
        """
from tools import add

class Odd:
    def spec(self):
        return add.spec()

    def needs(self, call):
        raise ValueError("which disk?")
    async def invoke(self, call, output):
        return "never"

odd = Odd()
"""
    )
    shell.script(CALLS, '"All right."')
    ran = shell.turn(tools="odd:odd")
    assert ran.status == 1
    assert "the turn failed: ValueError: which disk?" in ran.err
    assert "Traceback" not in ran.err
    assert shell.run("check", "s.jsonl").status == 0


def test_a_denied_call_names_the_rule(shell, quick):
    shell.script(CALLS, '"All right."')
    ran = shell.turn("--allow", "*", "--deny", "fs:write")
    assert ran.status == 0
    assert "[c2] refused by the rules: the rule deny " in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--allow", "ad"], "no tool has that name (the tools are add, die, note, "),
        (["--deny", "fs:"], "not a capability"),
        (["--ask", "a b"], "is not a rule"),
        (["--allow", "no*"], "is not a rule"),
        (["--allow", ""], "is not a rule"),
    ],
)
def test_a_rule_that_is_none_is_told(shell, here, arguments, said):
    shell.script('"One."')
    ran = here(*shell.turn_words("go", *arguments))
    assert ran.status == 2
    assert said in ran.err
    assert not shell.log.exists()


# -- tools -------------------------------------------------------------------------------------

ODD = """
class Odd:
    def __init__(self, made):
        self.made = made
    def spec(self):
        return self.made()
    async def invoke(self, call, output):
        return "never"

def fail():
    raise ValueError("no luck")

RAISES = Odd(fail)
EMPTY = Odd(lambda: None)
"""


def test_a_typed_function_is_a_tool(shell, quick):
    shell.script('call c1 plain{"a":7}', '"Seven."')
    ran = shell.turn("--allow", "plain", tools="tools:plain")
    assert ran.status == 0
    assert "[c1] gave 7" in ran.out


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("tools", "names nothing: write MODULE:NAME"),
        ("nowhere:x", "the module 'nowhere' does not import: ModuleNotFoundError"),
        ("broken:x", "the module 'broken' does not import: ZeroDivisionError"),
        ("leaving:x", "the module 'leaving' does not import: SystemExit: 7"),
        ("garbled:x", "the module 'garbled' does not import: SyntaxError"),
        ("tools:nope", "has no 'nope'"),
        ("tools:*", "has no '*'"),
        ("tools:untyped", "annotate the argument 'a'"),
        ("tools:Held", "it is a class; name an instance"),
        ("tools:NUMBER", "int is no tool"),
        ("odd:RAISES", "--tools odd:RAISES: spec() raised ValueError: no luck"),
        ("odd:EMPTY", "--tools odd:EMPTY: spec() gave NoneType, which is no ToolSpec"),
    ],
)
def test_a_tool_that_cannot_be_had_is_told(shell, here, place, said):
    shell.script('"One."')
    (shell.folder / "broken.py").write_text("1/0")
    (shell.folder / "leaving.py").write_text("import sys; sys.exit(7)")
    (shell.folder / "garbled.py").write_text("def")
    (shell.folder / "odd.py").write_text(ODD)
    ran = here(*shell.turn_words("go", tools=place))
    assert ran.status == 2
    assert said in ran.err
    assert not shell.log.exists()


def test_two_tools_of_one_name_are_told(shell, here):
    shell.script('"One."')
    ran = here(*shell.turn_words("go", "--tools", "tools:add"))
    assert ran.status == 2
    assert "there is a tool 'add' already" in ran.err


# -- words, readers and limits ----------------------------------------------------------------


def test_a_blank_prompt_is_told(shell, here):
    shell.script('"One."')
    ran = here(*shell.turn_words(" "))
    assert (ran.status, ran.err) == (2, "nachalnik: the PROMPT is blank\n")


def test_control_characters_of_a_model_reach_no_terminal(shell, quick):
    shell.script(r'"a\u001b[2Jb" + call c1 add{"x":"\u001b[31m\u202e","y":2}', '"x"')
    ran = shell.turn("--allow", "*")
    assert "\x1b" not in ran.out + ran.err
    assert "\u202e" not in ran.out + ran.err
    assert "a\\x1b[2Jb" in ran.out


def test_a_prompt_that_is_no_utf8_is_mended_and_counted(shell):
    shell.script('"One."')
    ran = shell.turn(stdin=b"caf\xe9 \xff\n")
    assert ran.status == 0
    items = json.loads(shell.run("show", "s.jsonl@6", "--json").out)["items"]
    assert items[0]["content"]["text"] == "caf\ufffd \ufffd"
    assert "2 character(s)" in items[0]["included_because"]


def test_a_reader_that_goes_away_does_not_end_the_turn(shell):
    shell.script(CALLS, '"It is 3."')
    process = shell.start(*shell.turn_words("go", "--allow", "*"))
    process.stdout.close()
    process.stdout = None
    ran = finish(process)
    assert ran.status == 0
    assert ran.err == ""
    assert "-> finished" in shell.run("show", "s.jsonl").out


def test_a_turn_rests_at_its_limit_of_requests_with_status_1(shell, quick):
    calls = [f'call c{n} add{{"x":1,"y":2}}' for n in range(9)]
    shell.script(*calls, '"Done."')
    ran = shell.turn("--allow", "add")
    assert ran.status == 1
    assert "it rests after 8 requests, as many as it may send at a time" in ran.err
    assert "-- idle, the turn is not at its end" in ran.out
    (hint,) = ran.hints()
    assert shell.type(hint).out.endswith("Done.\n-- finished, at position 27\n")


@pytest.mark.parametrize(
    ("limit", "said", "hints"),
    [(1, "it rests after 1 request, as many", 1), (0, "lets a turn send no request\n", 0)],
)
def test_what_made_the_turn_rest_is_told(shell, quick, limit, said, hints):
    Kernel.open(shell.log, config=Config(max_requests_per_turn=limit)).close()
    shell.script('call c1 add{"x":1,"y":2}', '"Done."')
    ran = shell.turn("--allow", "add")
    assert (ran.status, said in ran.err, len(ran.hints())) == (1, True, hints)
