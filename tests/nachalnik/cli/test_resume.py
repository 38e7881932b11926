"""`resume`: what a crash or an absent person left open is answered, and the turn goes on."""

import shlex

import pytest

from nachalnik import ContextItem, Kernel, ScriptedProvider
from nachalnik.cli.options import PartOptions, resuming
from nachalnik.testing.wire import Reply, WireServer, chat_stream

NOTE = 'call c1 note{"text":"hi"}'
ASK = ("--ask", "note")


def wait_for_permission(shell) -> None:
    shell.script(NOTE, '"All right."')
    assert shell.turn(*ASK).status == 3


def die_in_a_tool(shell, tool: str) -> None:
    shell.script(f'call c1 {tool}{{"text":"hi"}}', '"All right."')
    assert shell.turn("--allow", "*").status == -9


# -- permissions -------------------------------------------------------------------------------


def test_without_an_answer_the_questions_are_listed_with_status_3(shell, quick):
    wait_for_permission(shell)
    ran = shell.resume(*ASK)
    assert ran.status == 3
    assert 'Question 1: may call c1 run note, which needs fs:write?\n  {"text":"hi"}' in ran.err
    assert "to allow it: nachalnik resume s.jsonl --answer 1=allow " in ran.err
    assert "to refuse it: nachalnik resume s.jsonl --answer 1=deny " in ran.err
    assert shell.notes() == []


def test_a_granted_call_runs_and_the_turn_goes_on(shell):
    wait_for_permission(shell)
    ran = shell.resume("--answer", "1=allow", *ASK)
    assert ran.status == 0
    assert "[c1] gave noted hi" in ran.out
    assert "All right.\n-- finished" in ran.out
    assert len(shell.notes()) == 1
    # A second time there is nothing to do, and nothing is done.
    again = shell.resume(*ASK)
    assert (again.status, "nothing is left to do" in again.err) == (0, True)
    assert len(shell.notes()) == 1


def test_a_denied_call_does_not_run(shell, quick):
    wait_for_permission(shell)
    ran = shell.resume("--answer", "1=deny", *ASK)
    assert ran.status == 0
    assert "[c1] refused" in ran.out
    assert shell.notes() == []


def test_a_new_question_waits_too(shell, quick):
    """Unlike `run`, which refuses: whoever answers can answer again."""
    shell.script(NOTE, 'call c2 note{"text":"more"}', '"All right."')
    assert shell.turn(*ASK).status == 3
    ran = shell.resume("--answer", "1=allow")
    assert ran.status == 3
    assert "Question 2" in ran.err
    assert shell.resume("--answer", "2=deny").status == 0


def test_the_questions_are_in_the_json_too(shell, quick):
    wait_for_permission(shell)
    ran = shell.resume("--json")
    assert ran.status == 3
    (question,) = ran.lines()[-1]["questions"]
    (state,) = shell.run("show", f"s.jsonl@{ran.lines()[-1]['position']}", "--json").lines()
    assert state["questions"] == [question]
    digest = question.pop("args_digest")
    assert len(digest) == 32
    assert question == {
        "id": 1,
        "kind": "permission",
        "call": "c1",
        "tool": "note",
        "capabilities": ["fs:write"],
        "args": {"text": "hi"},
    }


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("1", "write ID=allow"),
        ("=allow", "write ID=allow"),
        ("1=perhaps", "write ID=allow"),
        ("1=settle", "write ID=allow"),
        ("1=allow:x", "write ID=allow"),
    ],
)
def test_an_answer_that_says_nothing_is_told(shell, here, answer, said):
    shell.script('"x"')
    ran = here(*shell.resume_words("--answer", answer))
    assert (ran.status, said in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("7=allow", "no such question is open (open: 1, 2)"),
        ("2=retry", "this one is answered by allow or deny"),
    ],
)
def test_an_answer_that_fits_nothing_is_told_and_none_is_given(shell, quick, here, answer, said):
    shell.script(f"{NOTE} + {NOTE.replace('c1', 'c2')}", '"All right."')
    assert shell.turn(*ASK).status == 3
    ran = here(*shell.resume_words("--answer", "1=allow", "--answer", answer))
    assert ran.status == 2
    assert said in ran.err
    assert "permission.decided" not in here("show", "s.jsonl").out


def test_two_answers_to_one_question_are_told(shell, here):
    shell.script('"x"')
    ran = here(*shell.resume_words("--answer", "1=allow", "--answer", "1=deny"))
    assert (ran.status, "answered twice" in ran.err) == (2, True)


# -- unknown outcomes --------------------------------------------------------------------------


def test_a_call_that_a_crash_cut_short_is_not_run_again_by_itself(shell):
    die_in_a_tool(shell, "die")
    assert shell.notes() == ["hi"]
    ran = shell.resume("--allow", "*")
    assert ran.status == 3
    assert "Question 2: die was started by call c1; whether it took effect is unknown." in ran.err
    assert "to run it again: nachalnik resume s.jsonl --answer 2=retry " in ran.err
    assert "if it failed: nachalnik resume s.jsonl --answer 2=fail " in ran.err
    assert "if its result was TEXT: nachalnik resume s.jsonl --answer 2=settle:TEXT " in ran.err
    assert shell.notes() == ["hi"]


def test_an_outcome_is_settled_with_what_a_person_says(shell):
    die_in_a_tool(shell, "die")
    ran = shell.resume("--answer", "2=settle:It was done.")
    assert ran.status == 0
    assert "[c1] gave It was done." in ran.out
    assert shell.notes() == ["hi"]


def test_an_outcome_fails_with_what_a_person_says(shell):
    die_in_a_tool(shell, "die")
    ran = shell.resume("--answer", "2=fail:It was not done.")
    assert ran.status == 0
    assert "[c1] failed: It was not done." in ran.out


def test_a_call_is_run_again_when_a_person_says_so(shell):
    die_in_a_tool(shell, "die")
    assert shell.resume("--answer", "2=retry").status == -9
    assert shell.notes() == ["hi", "hi"]
    assert "attempt 2" in shell.run("show", "s.jsonl").out


def test_a_tool_that_can_tell_is_asked_before_anybody(shell):
    die_in_a_tool(shell, "sure")
    ran = shell.resume("--answer", "2=settle:unheard")
    assert ran.status == 0
    assert "[c1] gave it was done: hi" in ran.out
    assert "--answer 2: not needed: its tool told how the run had ended" in ran.err
    assert shell.run("check", "s.jsonl").status == 0
    assert shell.run("replay", "s.jsonl").status == 0


# -- with nothing but the log ------------------------------------------------------------------


def test_the_log_alone_lists_what_is_open(shell, quick):
    wait_for_permission(shell)
    ran = shell.run("resume", "s.jsonl")
    assert ran.status == 3
    assert "Question 1: may call c1 run note, which needs fs:write?" in ran.err
    assert "-- waits for an answer to question 1" in ran.out
    assert shell.notes() == []


def test_the_log_alone_is_enough_where_nothing_is_left_to_do(shell, quick):
    shell.script('"All right."')
    shell.turn()
    ran = shell.run("resume", "s.jsonl")
    assert (ran.status, "nothing is left to do" in ran.err) == (0, True)


def test_what_is_missing_is_told_at_once_and_nothing_is_lost(shell, quick):
    wait_for_permission(shell)
    ran = shell.run("resume", "s.jsonl", "--answer", "1=allow")
    assert ran.status == 2
    assert "call c1 is ready to run, and this process has no tool note: give --tools" in ran.err
    assert "the log was made with --script; give --script FILE, or --model M" in ran.err
    assert "the answers are in the log: leave out --answer" in ran.err
    assert "-- ready to run 1 call" in ran.out
    again = shell.run("resume", "s.jsonl", "--script", "script.txt")
    assert (again.status, "--tools" in again.err, "--script" in again.err) == (2, True, False)
    other = shell.turn(tools="")
    assert (other.status, "give --tools MODULE:NAME" in other.err) == (2, True)
    assert shell.run("show", "s.jsonl").out.count("user_message") == 1
    assert shell.resume().status == 0
    assert len(shell.notes()) == 1


def test_a_call_that_is_run_again_needs_its_tool(shell):
    die_in_a_tool(shell, "die")
    ran = shell.run("resume", "s.jsonl", "--script", "script.txt", "--answer", "2=retry")
    assert (ran.status, "this process has no tool die: give --tools" in ran.err) == (2, True)
    assert shell.notes() == ["hi"]


def test_a_log_that_names_no_model_asks_for_one(shell, quick):
    kernel = Kernel.open(shell.log)
    kernel.push(ContextItem.user("go"))
    kernel.close()
    ran = shell.run("resume", "s.jsonl")
    assert (ran.status, "the log names no model; give --model M" in ran.err) == (2, True)


def test_a_model_that_only_a_program_can_ask_is_named(shell, quick):
    kernel = Kernel.open(shell.log, provider=ScriptedProvider([]))
    kernel.push(ContextItem.user("go"))
    kernel.close()
    ran = shell.run("resume", "s.jsonl")
    assert ran.status == 2
    assert "the log names scripted/scripted, which only its own program can ask" in ran.err


def test_the_model_and_its_server_are_those_of_the_log(shell):
    cut = Reply(chat_stream("half of an answer"), break_at=120)
    whole = [chat_stream("All of it."), chat_stream("Elsewhere.")]
    with WireServer([cut, *whole]) as server:
        words = ("--model", "m", "--base-url", server.base_url)
        assert shell.run("run", "go", "--log", "s.jsonl", *words).status == 1
        ran = shell.run("resume", "s.jsonl", NACHALNIK_API_KEY="key-for-anybody")
    assert ran.status == 0
    assert ran.out.startswith("All of it.\n-- finished")
    assert [one.json()["model"] for one in server.requests] == ["m", "m"]
    # On this machine, where no stranger listens.
    assert server.requests[1].headers["authorization"] == "Bearer key-for-anybody"
    assert shell.run("replay", "s.jsonl").status == 0


# -- what is told to be typed ------------------------------------------------------------------


def test_the_command_that_is_told_allows_the_call(shell):
    wait_for_permission(shell)
    allow, deny = shell.resume(*ASK).hints()
    ran = shell.type(allow)
    assert (ran.status, len(shell.notes())) == (0, 1)
    assert "All right.\n-- finished" in ran.out
    # A second time its question is not open, and it is told; nothing is run again.
    assert "no such question is open" in shell.type(deny).err
    assert len(shell.notes()) == 1


def test_the_command_that_is_told_refuses_the_call(shell):
    shell.script(NOTE, '"All right."')
    _, deny = shell.turn(*ASK).hints()
    ran = shell.type(deny)
    assert (ran.status, shell.notes()) == (0, [])
    assert "[c1] refused" in ran.out


def test_the_commands_that_are_told_settle_an_outcome(shell):
    die_in_a_tool(shell, "die")
    retry, fail, settle = shell.resume().hints()
    assert shell.type(retry).status == 128 + 9
    assert shell.notes() == ["hi", "hi"]
    fail, settle = (one.replace("2=", "3=") for one in (fail, settle))
    ran = shell.type(settle)
    assert (ran.status, "[c1] gave TEXT" in ran.out) == (0, True)
    assert "no such question" in shell.type(fail).err


def test_the_command_that_is_told_tries_again(shell):
    shell.script('fails "no luck"', '"At last."')
    (hint,) = shell.turn("--allow", "*").hints()
    ran = shell.type(hint)
    assert (ran.status, ran.out.startswith("At last.")) == (0, True)


def test_every_option_is_repeated_as_a_shell_takes_it():
    options = PartOptions("m", "http://h/v1", None, ("a:b", "c:d"), ("*",), ("fs:write",), ("x",))
    words = shlex.split(resuming("-my log's.jsonl", options, "--answer", "1=settle:it's \n here"))
    assert words[:5] == [
        "nachalnik",
        "resume",
        "./-my log's.jsonl",
        "--answer",
        "1=settle:it's \n here",
    ]
    assert words[5:9] == ["--model", "m", "--base-url", "http://h/v1"]
    assert words[9:] == ("--tools a:b --tools c:d --allow * --deny fs:write --ask x".split())


@pytest.mark.parametrize("url", ["http://me:secret@h/v1", "http://h/v1?key=secret"])
def test_what_may_be_secret_is_not_repeated(url):
    options = PartOptions("m", url, None, (), (), (), ())
    assert resuming("s.jsonl", options) == "nachalnik resume s.jsonl --model m --base-url URL"


# -- nothing to resume -------------------------------------------------------------------------


def test_what_is_no_log_is_told_and_not_begun(shell, here):
    shell.script('"x"')
    ran = here(*shell.resume_words())
    assert ran.status == 2
    assert "no log: there is no such file" in ran.err
    assert not shell.log.exists()


def test_a_prompt_that_a_crash_left_without_its_turn_gets_it(shell, quick):
    shell.script('fails "no luck"', '"At last."')
    assert shell.turn().status == 1
    lines = shell.log.read_bytes().splitlines(keepends=True)
    pushed = next(n for n, line in enumerate(lines) if b'"context.added"' in line)
    shell.log.write_bytes(b"".join(lines[: pushed + 1]))
    ran = shell.resume()
    assert ran.status == 0
    assert ran.out.startswith("At last.\n-- finished")
