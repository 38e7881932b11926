"""`resume`: what a crash or an absent person left open is answered, and the turn goes on."""

import pytest

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
    assert "--answer 1=allow|deny" in ran.err
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
    assert "--answer 2=retry|fail|settle:TEXT" in ran.err
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
