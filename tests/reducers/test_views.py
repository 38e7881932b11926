"""Events as people read them: kernel.md's names and fields, with what the fold knows put back."""

import json

import pytest
from hypothesis import given

from reducers import Commit, fold, initial
from reducers.shapes import shape
from reducers.views import Record, records, request_dict
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    JsonContent,
    ReasoningBlock,
    Text,
    TextBlock,
    ToolCall,
)
from reducers.vocabulary.events import BookkeepingEvent
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelInfo, Usage
from reducers.vocabulary.tools import ToolOutput
from tests.properties.histories import examples, histories, settings_of_a_session
from tests.properties.player import Player
from tests.reducers.driving import ALLOW_ADD, LOG, NAME, Core, call, started


def shown(commits: list[Commit]) -> list[Record]:
    state, made = initial(LOG, NAME), []
    for commit in commits:
        after = fold(state, commit.events)
        made += records(state, commit, after)
        state = after
    return made


def named(core: Core, name: str) -> list[dict]:
    return [record.event for record in shown(core.commits) if record.name == name]


PAYLOADS = {
    "session.started": "session",
    "session.finished": "",
    "turn.interrupted": "",
    "turn.paused": "requests",
    "turn.unfinished": "calls",
    "state.changed": "from to",
    "context.added": "id kind source label tokens because meta",
    "context.changed": "id from to note",
    "context.replaced": "id tokens_before tokens_after was",
    "context.undone": "items removed changed",
    "context.redone": "items restored changed",
    "context.annotated": "id meta was",
    "context.recounted": "tokens_before tokens_after",
    "model.changed": "from to",
    "model.params": "params",
    "model.requested": "model messages tools tokens items skipped repairs",
    "model.finished": "stop usage tool_calls item",
    "model.failed": "error overrun",
    "step.failed": "error overrun",
    "permission.requested": "request",
    "permission.decided": "id call tool grant source",
    "tool.requested": "call tool args",
    "tool.unknown": "call tool",
    "tool.repaired": "call was reason",
    "tool.reserved": "reserved",
    "tool.started": "call tool",
    "tool.panicked": "call tool",
    "tool.finished": "call tool is_error truncated tokens item whole",
    "tools.changed": "tools",
    "policy.changed": "from to",
    "projector.changed": "from to",
    "counter.changed": "from to",
}
"""The payloads of kernel.md 3.2 that this version records."""


@pytest.mark.accepts(397)
@given(histories, settings_of_a_session)
@examples(50)
def test_every_record_has_its_name_and_its_fields(moves, setting):
    player = Player(*setting).play(moves)
    phase: object = {"state": "idle"}
    seqs = []
    for record in shown(player.commits):
        plain = json.loads(json.dumps(record.to_dict()))
        event = plain["event"]
        assert event["event"] == record.name
        if isinstance(record.raw, BookkeepingEvent.__args__):
            assert record.seq is None
            assert "seq" not in plain
            continue
        seqs.append(plain["seq"])
        assert set(PAYLOADS[record.name].split()) <= event.keys(), record.name
        assert ("format" in plain) == (record.name == "session.started")
        if record.name == "state.changed":
            assert event["from"] == phase
            assert event["from"] != event["to"]
            phase = event["to"]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.accepts(400)
@given(histories, settings_of_a_session)
@examples(30)
def test_a_request_is_shown_with_its_whole_lists(moves, setting):
    player = Player(*setting).play(moves)
    state = initial(LOG, NAME)
    for commit in player.commits:
        after = fold(state, commit.events)
        for record in records(state, commit, after):
            if record.name == "model.requested":
                drawn = player.reducer.draw(after)
                assert record["items"] == list(drawn.projection.included)
                assert record["messages"] == len(drawn.request.messages)
                assert [one["reason"] for one in record["skipped"]] == [
                    one.reason for one in drawn.projection.skipped
                ]
                assert record["repairs"] == list(drawn.projection.repairs)
                assert record["model"]["provider"] == "scripted"
        state = after


# -- one by one --------------------------------------------------------------------------------


def test_what_an_event_leaves_out_is_put_back():
    core = started(ALLOW_ADD)
    core.push("go")
    core.feed(i.SetState((1,), "pinned", "keep"))
    core.feed(i.ReplaceContent(1, Text("gone")))
    core.feed(i.AnnotateItem(1, Json('{"n":1}')))
    core.feed(i.PartsDescribed(model=ModelInfo("other", "m2")))
    core.feed(i.RunTurn())
    core.ask(call("c1", "note", '{"text":"x"}'), usage=Usage(5, 6))
    assert named(core, "context.changed")[0] == {
        "event": "context.changed",
        "id": 1,
        "from": "active",
        "to": "pinned",
        "note": "keep",
    }
    replaced = named(core, "context.replaced")[0]
    assert (replaced["was"], replaced["content"]) == ({"text": "go"}, {"text": "gone"})
    assert (replaced["tokens_before"], replaced["tokens_after"]) == (1, 1)
    annotated = named(core, "context.annotated")[0]
    assert (annotated["was"], annotated["meta"]) == (None, {"n": 1})
    changed = named(core, "model.changed")
    assert changed[0]["from"] is None
    assert (changed[1]["from"]["model"], changed[1]["to"]["model"]) == ("m1", "m2")
    assert named(core, "tool.requested")[0]["args"] == {"text": "x"}
    request = named(core, "permission.requested")[0]["request"]
    assert request["args"] == {"text": "x"}
    assert (request["tool"], request["capabilities"]) == ("note", ["fs:write"])
    assert named(core, "model.finished")[0]["usage"] == {
        "input_tokens": 5,
        "output_tokens": 6,
        "reasoning_tokens": None,
        "cached_input_tokens": None,
    }


def test_an_effect_has_one_name_wherever_it_is_shown():
    core = started(ALLOW_ADD)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask(call("c1", "add"))
    run = core.effect("c1")
    core.result("c1")
    told = [named(core, name)[0]["effect"] for name in ("model.requested", "model.finished")]
    assert told[0] == told[1]
    assert [named(core, name)[0]["effect"] for name in ("tool.started", "tool.finished")] == [
        run
    ] * 2


def test_arguments_that_are_not_json_are_shown_as_their_text():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    core.ask(call("c1", "add", "{nonsense"))
    assert named(core, "tool.requested")[0]["args"] == "{nonsense"


def test_a_result_that_waited_is_shown_whole():
    core = started(parallel_tool_calls=True)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask("c1", "c2")
    core.feed(i.ToolSettled(core.effect("c2"), ToolOutput(Text("two"))))
    core.result("c1", "one")
    contents = [event["content"] for event in named(core, "context.added")[-2:]]
    assert contents == [{"text": "one"}, {"text": "two"}]


def test_a_record_says_where_it_stands():
    core = started()
    record = shown(core.commits)[0]
    assert repr(record) == "Record(1.1 session.started)"
    assert record.to_dict()["format"] == 1
    assert record["session"] == NAME
    assert record.at == core.commits[0].at


# -- shapes (kernel.md 12) ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (Text("x"), {"text": "x"}),
        (JsonContent(Json('{"n":9007199254740993}')), {"json": {"n": 9007199254740993}}),
        (Blob("image/png", "eA=="), {"blob": {"media_type": "image/png", "data": "eA=="}}),
        (
            Blob("image/png", "eA==", Json('{"name":"a"}')),
            {"blob": {"media_type": "image/png", "data": "eA==", "meta": {"name": "a"}}},
        ),
        (
            Blocks(
                (
                    ReasoningBlock(Text("hm"), Json('{"s":1}')),
                    TextBlock(Text("x")),
                    CallBlock(ToolCall("c", "add", Json('{"x":1}'))),
                )
            ),
            {
                "blocks": [
                    {"reasoning": {"content": {"text": "hm"}, "extra": {"s": 1}}},
                    {"text": {"content": {"text": "x"}}},
                    {"call": {"id": "c", "tool": "add", "args": {"x": 1}}},
                ]
            },
        ),
    ],
)
def test_contents_have_the_shape_of_exports(content, plain):
    assert shape(content) == plain


def test_an_item_has_the_shape_of_exports_with_nulls_written():
    item = ContextItem.assistant("x", (ToolCall("c", "add", Json("{}")),))
    assert shape(item) == {
        "id": 0,
        "kind": {
            "kind": "assistant_message",
            "tool_calls": [{"id": "c", "tool": "add", "args": {}}],
            "reasoning": None,
        },
        "source": "model",
        "label": "assistant",
        "content": {"text": "x"},
        "tokens": 0,
        "uncounted": 0,
        "state": "active",
        "meta": None,
        "included_because": None,
        "note": None,
    }
    result = shape(ContextItem.tool_result("c", "add", "3").kind)
    assert result == {"kind": "tool_result", "call": "c", "tool": "add", "is_error": False}
    assert shape(ContextItem.user("x"))["kind"] == {"kind": "user_message"}


def test_a_request_as_a_plain_object():
    core = started()
    core.push("go")
    core.feed(i.SetParams(Json('{"seed":1}')))
    plain = request_dict(core.reducer.draw(core.state).request)
    assert plain["params"] == {"seed": 1}
    assert [tool["id"] for tool in plain["tools"]] == ["add", "note"]
    assert plain["messages"][0]["role"] == "user"
    assert plain["messages"][0]["content"] == {"text": "go"}
    json.dumps(plain)
