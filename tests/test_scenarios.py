"""Each scenario script must leave the trace it says and pass the oracles; and the runner itself."""

import os
import shutil
import threading
import time
from pathlib import Path

import attrs
import pytest
from msgspec.structs import replace

from effects.ports import ProviderFailure, StreamTruncated
from nachalnik.scenarios import oracles, trace
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import NotationError, parse, replies
from nachalnik.scenarios.oracles import (
    Told,
    ends_problems,
    log_problems,
    read_told,
    start_problems,
    wire_problems,
)
from nachalnik.scenarios.runner import judge, run_file, run_files, run_story
from reducers import linear
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.events import (
    Event,
    PermissionDecided,
    ToolFinished,
    ToolStarted,
    TurnClosed,
)
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.models import Usage

SCRIPTS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_as_written(script):
    report = run_file(script)
    assert report.outcome == "as written", str(report)


def test_every_case_has_its_script():
    names = {path.stem for path in SCRIPTS}
    told = ["orph-01", "orph-05", "orph-07", "ids-01", "ids-03", "ids-05", "resu-01", "resu-03"]
    told += ["resu-05", "once-01", "once-05", "rply-05", "ckpt-01", "ckpt-03", "canc-01"]
    told += ["canc-03-streaming", "canc-03-running", "canc-03-deciding", "canc-05", "par-01"]
    assert names.issuperset(told)


# -- the trace ---------------------------------------------------------------------------------


def test_every_event_can_be_shown():
    shown_with_states = {"context.added", "model.requested"}
    tags = {str(kind.__struct_config__.tag) for kind in Event.__args__}
    known = {str(kind.__struct_config__.tag) for kind in trace.SHOWN}
    assert known | shown_with_states == tags


def test_trace_is_the_same_in_another_place(tmp_path):
    """No time, no log id, no path: two runs of a script with a crash give the same text."""
    script = _copy("resu-05", tmp_path)
    text = script.read_text()
    assert run_file(script).outcome == "as written"
    assert str(tmp_path) not in text
    assert "1764540" not in text


# -- the runner --------------------------------------------------------------------------------


def _copy(name, folder):
    return Path(
        shutil.copy(Path(__file__).parent / "scenarios" / f"{name}.txt", folder / f"{name}.txt")
    )


def test_a_report_tells_its_outcome_and_its_status(tmp_path):
    good = _copy("serial", tmp_path)
    other = tmp_path / "other.txt"
    other.write_text(good.read_text().replace("tool.started c1", "tool.started c9"))
    unreadable = tmp_path / "unreadable.txt"
    unreadable.write_text('user "go"\nfly "away"\n')
    reports = list(run_files([good, other, unreadable, tmp_path / "missing.txt"]))
    assert [report.status for report in reports] == [0, 1, 2, 2]
    assert str(reports[0]) == f"as written: {good}"
    assert "differs" in str(reports[1])
    assert "-                        tool.started c9" in str(reports[1])
    assert "+                        tool.started c1" in str(reports[1])
    said = f"{unreadable}, line 2: there is no verb 'fly': use user, turn"
    assert said in reports[2].findings[0]
    assert "No such file" in reports[3].findings[0]


def test_a_report_comes_before_the_next_script_is_read(tmp_path):
    script = tmp_path / "later.txt"
    reports = run_files([tmp_path / "missing.txt", script])
    assert next(reports).outcome == "unreadable"
    script.write_text('user "go"\nmodel> "ok"\n')
    assert next(reports).outcome == "differs"


def test_rewrite_puts_the_trace_in_place(tmp_path):
    script = _copy("outcome-retried", tmp_path)
    whole = script.read_text()
    head = whole[: whole.index("----\n")]
    script.write_text(head)
    assert run_file(script).outcome == "differs"
    assert script.read_text() == head
    assert run_file(script, rewrite=True).outcome == "rewritten"
    assert script.read_text() == whole
    script.write_text(whole.replace("SIGKILL", "SIGTERM"))
    assert run_file(script, rewrite=True).outcome == "rewritten"
    assert script.read_text() == whole


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs a file not even root may write")
def test_a_script_that_cannot_be_rewritten_is_named():
    import fcntl

    fd = os.memfd_create("script", os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, b'user "go"\nmodel> "ok"\nstate = idle\n')
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
        report = run_file(f"/proc/self/fd/{fd}", rewrite=True)
    finally:
        os.close(fd)
    assert (report.outcome, report.status) == ("unwritable", 2)
    assert report.findings[0] == "line 3: state = idle: it is finished"
    assert report.findings[1].startswith("its trace was not written: ")


def test_where_the_log_cannot_be_read_no_trace_is_rewritten(tmp_path):
    """Two tools of one name: the session cannot be opened, and there is no log."""
    script = tmp_path / "script.txt"
    text = 'tool add\ntool add\nuser "go"\nmodel> "ok"\n----\nthe trace\n'
    script.write_text(text)
    report = run_file(script, rewrite=True)
    assert report.outcome == "broken"
    assert any("the log cannot be read" in one for one in report.findings), report
    assert script.read_text() == text


def test_a_log_that_can_be_read_in_part_has_no_trace(told, tmp_path):
    raw = bytearray(told[1].log.read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "story.jsonl").write_bytes(raw)
    findings, found = judge(parse('user "go"\n'), Folder(tmp_path), [])
    assert any("damaged" in one for one in findings)
    assert found is None


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ('user "go"\nmodel> "ok"\nstate = idle\n', "line 3: state = idle: it is finished"),
        (
            'tool add\nuser "go"\nmodel> call c add{"x":1,"y":1}\nmodel> "ok"\nruns(add) = 2\n',
            "line 5: runs(add) = 2: it is 1",
        ),
        ('user "go"\nmodel> "ok"\nmodel> "more"\n', "line 3: this reply was never asked for"),
        ('user "go"\nmodel> "ok"\ncrash when c9 is running\n', "the moment never came"),
        ('user "go"\n', "request 1 was sent, and the script has no reply left"),
        ('user "a"\nstate = idle\nmodel> "ok"\n', "took this reply before its place was reached"),
        ('user "go"\nmodel> "ok"\nopen: turn 1\n', "declares turn 1 open at the end"),
        (
            'tool note\nuser "go"\nmodel> call c note{"text":"x"}\n',
            "oracle T: turn 1 is open at the end",
        ),
        ('user "go"\nmodel> "ok"\nquestions = P(c)\n', "it is none"),
        ('user "go"\nmodel> "ok"\ngrant P(c)\n', "nothing was ever asked about c"),
        (
            'tool deaf\nuser "go"\nmodel> call d deaf{"s":1}\ncancel T1 when d is running\n',
            "call d never returned",
        ),
    ],
)
def test_what_is_not_as_the_script_expects_is_named(tmp_path, text, finding):
    script = tmp_path / "script.txt"
    script.write_text(text)
    report = run_file(script)
    assert report.outcome == "broken"
    assert any(finding in one for one in report.findings), report


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("tool hammer\n", 1, "there is no tool 'hammer': use add, note"),
        ("tool add maybe\n", 1, "'maybe' is no option of add"),
        ("config speed = 3\n", 1, "Config has no 'speed'"),
        ('config context_undo_depth = "x"\n', 1, "config context_undo_depth"),
        ("user go\n", 1, "a text in double quotes"),
        ('user "go"\nmodel> call c add{"x":\n', 2, "the arguments as JSON is expected"),
        ('user "go"\n\nmodel> "a" "b"\n', 3, "the end of the line is expected"),
        ("when c is running\n", 1, "there is no verb 'when'"),
        ("crash when c is running\n", 1, "nothing is under way yet"),
        ('user "a"\ncrash\nuser "b"\n', 3, "write `reopen` before this"),
        ('user "a"\ngrant P(c) before tool.started is written\n', 2, "only a crash"),
        ('push user "x"\nuser "a" when c is running\n', 2, "cannot wait for a moment"),
        ("cancel Tx\n", 1, "'Tx' is no turn"),
        ("cancel T0\n", 1, "'T0' is no turn: they are counted from T1"),
        (f"cancel T{'9' * 5000}\n", 1, "a number has 5000 digits"),
        (f"set-state {'9' * 5000} pinned\n", 1, "a number has 5000 digits"),
        (f'model> "ok" usage 1/{"9" * 5000}\n', 1, "a number has 5000 digits"),
        ("params [1]\n", 1, "not one JSON object"),
        ('params {"a":NaN}\n', 1, "the parameters as JSON: NaN is not a JSON value"),
        ("config max_requests_per_turn = NaN\n", 1, "its value as JSON: NaN is not"),
        ('user "a"\nannotate 1 NaN\n', 2, "metadata as JSON: NaN is not a JSON value"),
        ("annotate 1 1e999\n", 1, "metadata as JSON: the number 1e999 is out of range"),
        (f"annotate 1 {'[' * 200}{']' * 200}\n", 1, "nested more than 128 deep"),
        (f'model> call c add{{"x":{"[" * 5000}{"]" * 5000}}}\n', 1, "nested too deeply"),
        ("set-state 1 lost\n", 1, "one of active, pinned"),
    ],
)
def test_a_script_that_cannot_be_read_says_where_and_what(text, line, problem):
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert caught.value.line == line
    assert problem in caught.value.problem


def test_a_stuck_process_and_a_fault_are_findings(tmp_path, monkeypatch):
    script = tmp_path / "script.txt"
    script.write_text('push user "a"\nreopen\n')
    story = parse(script.read_text())
    monkeypatch.setattr("nachalnik.scenarios.runner.STORY_S_MAX", 0.01)
    folder = tmp_path / "one"
    folder.mkdir()
    assert "it did not end within" in run_story(story, Folder(folder), script)[0]
    monkeypatch.undo()
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "story.jsonl").write_text("something else\n")
    assert "NotALog" in run_story(story, Folder(folder), script)[0]


@pytest.mark.parametrize("call", ["ext{}", 'deaf{"s":1}'])
def test_a_call_that_is_never_let_is_a_finding_and_no_thread_outlives_it(
    tmp_path, monkeypatch, call
):
    script = tmp_path / "script.txt"
    script.write_text(f'tool ext\ntool deaf\nuser "go"\nmodel> call c {call}\n')
    monkeypatch.setattr("nachalnik.scenarios.runner.STORY_S_MAX", 0.5)
    before = set(threading.enumerate())
    report = run_file(script)
    assert report.outcome == "broken"
    assert report.findings[0].startswith("step 1: it did not end within")
    end = time.monotonic() + 10
    while set(threading.enumerate()) - before:
        assert time.monotonic() < end, "a thread of the story still runs"
        time.sleep(0.01)


# -- model> lines ------------------------------------------------------------------------------


def test_replies_reads_the_model_lines_alone():
    text = """
    tool add
    fly "away"
    model> "hi" [end] usage 12/3
    model> thinking "hm" + "text" + call c1 add{"x": 1} + call "" now [length]
    model> call c2 note'{"path' [tool]
    model> fails "slow down" code model.rate_limited
    model> too long 9000 of 8000
    model> cut after 4 "partial" + call c3 add{}
    ----
    model> "not this"
    """
    text, calls, raw, failure, long, cut = replies(
        "\n".join(one.strip() for one in text.split("\n"))
    )
    assert text.content == Text("hi")
    assert text.stop == "end_turn"
    assert text.usage == Usage(12, 3)
    assert calls.reasoning == Text("hm")
    assert calls.stop == "length"
    assert calls.calls == (ToolCall("c1", "add", '{"x": 1}'), ToolCall("", "now", "{}"))
    assert raw.calls == (ToolCall("c2", "note", '{"path'),)
    assert raw.stop == "tool_use"
    assert isinstance(failure, ProviderFailure)
    assert (str(failure), failure.code) == ("slow down", "model.rate_limited")
    assert isinstance(long, TooLong)
    assert (long.overrun.tokens, long.overrun.limit) == (9000, 8000)
    assert isinstance(cut, StreamTruncated)
    assert "".join(delta.text for delta in cut.arrived) == "part"
    with pytest.raises(NotationError, match="line 2"):
        replies('model> "ok"\nmodel> fails\n')


@pytest.mark.parametrize("cut", range(24))
def test_a_stream_can_be_cut_anywhere(cut):
    whole = "one two " + '{"x":1,"y":2}'
    (answer,) = replies(f'model> cut after {cut} "one two " + call c add{{"x":1,"y":2}}')
    assert "".join(delta.text for delta in answer.arrived) == whole[:cut]


# -- the oracles -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A log with two runs, a question, and a crash in it; and the folder it ran in."""
    folder = tmp_path_factory.mktemp("told")
    script = Path(__file__).parent / "scenarios" / "once-01.txt"
    assert run_story(parse(script.read_text()), Folder(folder), script) == []
    return read_told(folder / "story.jsonl"), Folder(folder)


def _changed(told: Told, change) -> Told:
    """The log with the events of each commit put through a function."""
    commits = tuple(replace(one, events=tuple(change(one.events))) for one in told.commits)
    return attrs.evolve(told, commits=commits)


def _without(kind):
    return lambda events: [event for event in events if not isinstance(event, kind)]


def _twice(kind):
    return lambda events: [
        event for event in events for _ in range(2 if isinstance(event, kind) else 1)
    ]


def test_oracles_are_silent_on_a_sound_log(told):
    log, folder = told
    assert not list(log_problems(log, folder))
    assert not list(start_problems(log, folder))
    assert not list(ends_problems(log, []))


def test_oracle_o_names_a_second_start(told):
    log, folder = told
    problems = list(start_problems(_changed(log, _twice(ToolStarted)), folder))
    assert problems[0] == "oracle O, position 11: call a is started a second time"


def test_oracle_o_counts_outside(told):
    log, folder = told
    problems = list(start_problems(_changed(log, _without(ToolStarted)), folder))
    assert "oracle O: call a was started 1 times outside, 0 in log" in problems


def test_oracle_g_names_a_start_without_a_grant(told):
    log, folder = told
    problems = list(start_problems(_changed(log, _without(PermissionDecided)), folder))
    assert problems[0] == "oracle G, position 11: call a starts without a grant"


def test_oracle_g_compares_the_arguments(told):
    log, folder = told

    def other_arguments(events):
        for event in events:
            yield replace(event, args="0" * 32) if isinstance(event, PermissionDecided) else event

    problems = list(start_problems(_changed(log, other_arguments), folder))
    assert problems[0] == "oracle G, position 11: call a has other arguments"


@pytest.mark.parametrize("kind", [ToolFinished, TurnClosed, PermissionDecided])
def test_oracle_t_names_a_second_end(told, kind):
    problems = list(ends_problems(_changed(told[0], _twice(kind)), []))
    assert "ends without being open" in problems[0]
    assert "position" in problems[0]


def test_oracle_t_names_what_is_left_open(told):
    problems = list(ends_problems(_changed(told[0], _without(ToolFinished)), []))
    assert any("call a is open at the end" in one for one in problems)


def test_oracle_l_compares_with_the_state_that_lived(told, tmp_path):
    log, folder = told
    other = Folder(tmp_path)
    other.live(11, "0" * 32)
    problems = list(log_problems(log, other))
    assert problems == ["oracle L, position 11: the fold of the log is not the state that lived"]
    assert len(folder.lives()) > 10


def test_oracle_l_finds_a_gap_and_a_divergence(told):
    log, folder = told
    gap = _changed(
        log, lambda events: events[1:] if isinstance(events[0], ToolFinished) else events
    )
    renumbered = _changed(
        log,
        lambda events: [
            replace(event, seq=event.seq + 1) if isinstance(event, ToolStarted) else event
            for event in events
        ],
    )
    assert not list(log_problems(gap, folder))
    assert "stands where" in next(log_problems(renumbered, folder))
    cut = attrs.evolve(log, values=(log.values[0], *log.values[2:]))
    assert any("redrive" in one for one in log_problems(cut, folder))


def test_oracle_l_finds_a_torn_or_flipped_line(told, tmp_path):
    raw = told[1].log.read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 1
    path = tmp_path / "story.jsonl"
    path.write_bytes(flipped)
    assert "damaged" in read_told(path).problem


USER = Message("user", Text("go"))
CALL = Message("assistant", tool_calls=(ToolCall("c", "add", "{}"),))
RESULT = Message("tool", Text("3"), tool_call_id="c", name="add")


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER, CALL], "W1: the call 'c' has no result"),
        ([USER, CALL, USER, RESULT], "W2: message 2 comes while 'c' has no result"),
        ([USER, RESULT], "W3: message 1 answers 'c', which waits for nothing"),
        ([USER, CALL, RESULT, RESULT], "W3: message 3 answers 'c', which waits for nothing"),
        ([USER, CALL, RESULT, CALL, RESULT], "W4: message 3 uses the call id 'c' a second time"),
        (
            [
                Message("assistant", tool_calls=(ToolCall("c" * 65, "add", "{}"),)),
                Message("tool", Text("3"), tool_call_id="c" * 65),
            ],
            "W4: message 0 has the call id",
        ),
    ],
)
def test_oracle_w_refuses(messages, problem):
    found = list(wire_problems(ModelRequest(messages)))
    assert any(problem in one for one in found), found


def test_oracle_w_accepts_what_is_sound():
    assert not list(wire_problems(ModelRequest([USER, CALL, RESULT, USER])))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (" \n", "W5: message 0 has a blank text"),
        ([{"type": "text", "text": ""}], "W5: message 0 has a blank text"),
        (None, "W5: message 0 has neither text nor calls"),
        ("\ud800", "W7"),
    ],
)
def test_oracle_w_looks_at_the_body(monkeypatch, content, problem):
    """The encoder leaves nothing blank; a body that it did not make is found out all the same."""
    body = {"messages": [{"role": "user", "content": content}]}
    monkeypatch.setattr(oracles, "encode_request", lambda *args, **kwargs: body)
    assert any(problem in one for one in wire_problems(ModelRequest([USER])))


def test_a_broken_rule_of_the_core_is_named_with_its_position(monkeypatch):
    """The result is left where it was recorded, behind what a client pushed meanwhile."""
    monkeypatch.setattr(linear, "_wire_order", lambda built, reordered: list(range(len(built))))
    report = run_file(Path(__file__).parent / "scenarios" / "orph-07.txt")
    assert report.outcome == "broken"
    assert report.findings[0].startswith("oracle W, position 9, request 2: W2"), report
