"""Commits as bytes: a content stands once, large ones apart, and what cannot be read says so."""

import json

import msgspec
import pytest
from hypothesis import given

from reducers import Commit, codec, fold, initial
from reducers.codec import (
    LARGE_BYTES,
    Header,
    Parent,
    UnreadableCommit,
    UnreadableHeader,
    decode_commit,
    decode_header,
    decode_stored,
    encode_commit,
    encode_header,
)
from reducers.vocabulary import events as e
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Blocks, CallBlock, JsonContent, Text, TextBlock
from reducers.vocabulary.digests import digest_of
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelResponse, Usage
from reducers.vocabulary.policies import PolicyInfo
from reducers.vocabulary.tools import ToolOutput
from tests.properties.histories import examples, histories
from tests.properties.player import Player
from tests.reducers.driving import ADD, CODE, LOG, NAME, Core, call, started

LONG = Text("a text that is longer than the bytes of a reference to it would be. " * 2)
LARGE = Text("x" * (LARGE_BYTES + 1))


def plain(core: Core) -> dict:
    return json.loads(encode_commit(core.commits[-1])[0])


def survives(commit: Commit) -> list[tuple[str, bytes]]:
    raw, contents = encode_commit(commit)
    assert decode_commit(raw, dict(contents).__getitem__) == commit
    return contents


# -- a content stands once ---------------------------------------------------------------------


def test_what_an_input_holds_is_written_with_its_event():
    core = started()
    core.feed(i.PushItems((ContextItem.user("one"), ContextItem.user("two"))))
    written = plain(core)
    assert [item["content"] for item in written["input"]["items"]] == [{"held": 0}, {"held": 1}]
    assert [one["item"]["content"]["text"] for one in written["events"]] == ["one", "two"]
    survives(core.commits[-1])


def test_whatever_is_long_in_an_input_is_held():
    core = started(CODE)
    core.push("go")
    core.feed(i.RunTurn())
    response = ModelResponse(LONG, LONG, (call("c1"),), "tool_use", Usage(5, 6))
    core.feed(i.ModelSettled(core.effect(), response))
    held = plain(core)["input"]["response"]
    assert held == {
        "content": {"held": 1},
        "reasoning": {"held": 1},
        "calls": {"held": 1},
        "stop": "tool_use",
        "usage": {"held": 2},
    }
    survives(core.commits[-1])
    core.feed(i.ReplaceContent(1, LONG))
    assert plain(core)["input"]["content"] == {"held": 0}
    core.feed(i.SupersedeItem(1, ContextItem.user(LONG)))
    assert plain(core)["input"]["item"]["content"] == {"held": 0}
    core.feed(i.PartsDescribed(tools=(ADD,), policy=PolicyInfo("other"), model=None))
    assert plain(core)["input"] == {
        "tag": "parts.described",
        "model": None,
        "tools": {"held": 1},
        "policy": {"held": 2},
    }


def test_an_input_that_differs_from_its_event_is_spelt():
    """Repaired ids, and an output that was cut."""
    core = started(default_tool_output_limit=70, keep_truncated_output=False)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask(call(""))
    assert plain(core)["input"]["response"]["calls"][0]["id"] == ""
    core.feed(i.ToolSettled(core.effect("call_0"), ToolOutput(LONG)))
    assert plain(core)["input"]["output"]["content"] == {"tag": "text", "text": LONG.text}
    for commit in core.commits:
        survives(commit)


def test_a_second_equal_content_among_the_events_is_held_where_that_is_shorter():
    core = started()
    core.feed(i.PushItems((ContextItem.user(LONG), ContextItem.file("a", LONG))))
    assert plain(core)["events"][1]["item"]["content"] == {"tag": "held", "by": 0}
    survives(core.commits[-1])
    core.push("short", "short")
    assert plain(core)["events"][1]["item"]["content"] == {"tag": "text", "text": "short"}


def test_an_answer_that_waited_stands_in_its_own_commit_alone():
    core = started(parallel_tool_calls=True)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask("c1", "c2")
    core.feed(i.ToolSettled(core.effect("c2"), ToolOutput(LONG)))
    assert plain(core)["events"][0]["output"]["content"]["text"] == LONG.text
    core.result("c1")
    added = plain(core)["events"][2]["item"]
    assert (added["kind"]["call"], added["content"]) == ("c2", {"tag": "held", "by": "call"})
    assert core.state.context.items[3].content == LONG
    survives(core.commits[-1])


def test_the_cause_is_kept():
    commit = Commit(1, 1, i.Undo(), (), "a person")
    survives(commit)
    assert json.loads(encode_commit(commit)[0])["cause"] == "a person"


# -- large contents ----------------------------------------------------------------------------


def carriers() -> dict[str, Commit]:
    """A commit for each event that may carry a large content."""
    item = ContextItem.user(LARGE)
    output = ToolOutput(LARGE)
    answered = i.ModelSettled("1.0", ModelResponse(Text("so"), reasoning=LARGE))
    thought = ContextItem.assistant("so").with_reasoning(LARGE)
    settled = i.ToolSettled("1.0", output)
    return {
        "an item": Commit(1, 1, i.PushItems((item,)), (e.ContextAdded(item=item, undo="open"),)),
        "a replacement": Commit(
            1, 1, i.ReplaceContent(1, LARGE), (e.ContextReplaced(id=1, content=LARGE),)
        ),
        "reasoning": Commit(1, 1, answered, (e.ContextAdded(item=thought, undo="open"),)),
        "an answer": Commit(
            1, 1, settled, (e.CallAnswered(call="c", effect="1.0", output=output),)
        ),
        "a late answer": Commit(
            1, 1, settled, (e.ToolLate(call="c", effect="1.0", output=output),)
        ),
        "two at once": Commit(
            1, 1, i.PushItems((item, item)), (e.ContextAdded(item=item), e.ContextAdded(item=item))
        ),
        "an input alone": Commit(1, 1, settled, (e.ToolUnknown(call="c", tool="t"),)),
        "an item of an input alone": Commit(1, 1, i.PushItems((item,)), ()),
    }


@pytest.mark.parametrize("name", carriers())
def test_a_large_content_stands_apart_and_comes_back(name):
    commit = carriers()[name]
    raw, contents = encode_commit(commit)
    assert len(raw) < 2000
    assert [digest for digest, _ in contents] == [digest_of(stored) for _, stored in contents]
    assert len(contents) == 1
    assert survives(commit) == contents


@pytest.mark.parametrize("size", [LARGE_BYTES - 30, LARGE_BYTES + 30])
def test_the_limit_is_that_of_the_encoded_content(size):
    text = Text("x" * (size - len('{"tag":"text","text":""}')))
    commit = Commit(1, 1, i.Undo(), (e.ContextReplaced(id=1, content=text),))
    assert bool(survives(commit)) == (size > LARGE_BYTES)


def test_a_text_that_grows_when_it_is_encoded_is_measured_encoded():
    commit = Commit(1, 1, i.Undo(), (e.ContextReplaced(id=1, content=Text("\x01" * 50_000)),))
    assert len(survives(commit)) == 1


@pytest.mark.accepts(13)
def test_a_large_content_of_any_kind():
    for content in (
        JsonContent(Json(json.dumps("x" * LARGE_BYTES))),
        Blocks((TextBlock(LARGE), CallBlock(call("c1")))),
    ):
        commit = Commit(1, 1, i.Undo(), (e.ContextReplaced(id=1, content=content),))
        assert len(survives(commit)) == 1


def test_a_large_content_that_is_not_at_hand_is_named():
    raw, ((digest, _),) = encode_commit(carriers()["an item"])
    with pytest.raises(UnreadableCommit, match=digest):
        decode_stored(raw)


# -- what cannot be read -----------------------------------------------------------------------


DEEP = b"[" * 100_000 + b"]" * 100_000


def answered(content: bytes) -> bytes:
    output = b'{"content":%s}' % content
    events = b'[{"tag":"call.answered","call":"c","effect":"1.0","output":%s},' % output
    return (
        b'{"at":1,"position":7,"input":{},"events":' + events + b'{"tag":"turn.opened","turn":1}]}'
    )


@pytest.mark.accepts(133, 135)
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (
            b'{"at":1,"position":7,"input":{},"events":[{"tag":"never.heard_of"}]}',
            "position 7: the event 'never.heard_of' is not known",
        ),
        (
            b'{"at":1,"position":7,"input":{},"events":[{"tag":"tool.started","call":"c"}]}',
            "position 7: .*effect",
        ),
        (b'{"at":1,"position":7,"input":{}', "not what this version writes"),
        (b"", "not what this version writes"),
        (b"[]", "not what this version writes"),
        (
            b'{"at":1,"position":7,"input":{},"events":[{"tag":"tool.retried","call":"\xff"}]}',
            "not",
        ),
        (b'{"at":1,"position":"x","input":{},"events":[]}', "position x"),
        (b'{"at":1,"position":7,"input":{}', "^position 7: it is not what this version writes"),
        (
            b'{"at":1,"position":7,"input":{},"zz":' + DEEP + b',"events":[]}',
            "^position 7: .*recursion",
        ),
        (b'{"at":1,"position":7,"input":{},"events":' + DEEP + b"}", "^position 7: "),
        (
            answered(b'{"tag":"held","by":1}'),
            "^position 7: event 0 is held by event 1, which cannot be",
        ),
        (
            answered(b'{"tag":"held","by":-1}'),
            "^position 7: event 0 is held by event -1, which cannot be",
        ),
        (
            answered(b'{"tag":"held","by":0}'),
            "^position 7: event 0 is held by event 0, which cannot be",
        ),
    ],
    ids=range(13),
)
def test_a_commit_that_cannot_be_read_says_where_and_what(raw, says):
    with pytest.raises(UnreadableCommit, match=says):
        decode_stored(raw)


def test_an_input_that_cannot_be_read_says_where_and_does_not_stop_a_fold():
    """Inputs are provenance, events are truth."""
    raw = (
        b'{"at":1,"position":7,"input":{"tag":"from.the_future","x":1},'
        b'"events":[{"tag":"turn.opened","turn":1}]}'
    )
    state = fold(initial(LOG, NAME), decode_stored(raw).events)
    assert state.loop.turn == 1
    with pytest.raises(UnreadableCommit, match="position 7: its input cannot be read"):
        decode_commit(raw)


@pytest.mark.parametrize(
    "input",
    [
        DEEP,
        b"[]",
        b"7",
        b'{"tag":"context.push","items":' + DEEP + b"}",
        b'{"tag":"context.push","items":[{"content":{"held":-1}}]}',
        b'{"tag":"context.push","items":[{"content":{"tag":"stored"}}]}',
    ],
    ids=range(6),
)
def test_whatever_stands_for_an_input_is_an_error_with_its_position(input):
    raw = b'{"at":1,"position":7,"input":' + input + b',"events":[{"tag":"turn.opened","turn":1}]}'
    with pytest.raises(UnreadableCommit, match=r"^position 7: it.* (recursion|cannot be read)"):
        decode_commit(raw)


def test_the_file_of_a_content_that_names_another_is_refused():
    """Else a content would stand in the state that nothing can send."""
    stored = b'{"tag":"stored","digest":"' + b"0" * 32 + b'","size":9}'
    with pytest.raises(UnreadableCommit, match=f"{'0' * 32} names another content"):
        decode_stored(answered(stored), lambda _: stored)
    with pytest.raises(UnreadableCommit, match=f"{'0' * 32} names another content"):
        decode_stored(answered(stored), lambda _: b'{"tag":"held","by":0}')
    with pytest.raises(UnreadableCommit, match=r"^position 7: "):
        decode_stored(answered(stored), lambda _: DEEP)


def test_what_a_loader_raises_is_not_changed():
    stored = b'{"tag":"stored","digest":"' + b"0" * 32 + b'","size":9}'

    def refused(_):
        raise PermissionError("no")

    with pytest.raises(PermissionError, match="no"):
        decode_stored(answered(stored), refused)


@given(histories)
@examples(30)
def test_a_log_folds_with_every_input_removed(moves):
    player = Player().play(moves)
    state = initial(LOG, NAME)
    for commit in player.commits:
        written = msgspec.json.decode(encode_commit(commit)[0], type=dict[str, msgspec.Raw])
        written["input"] = msgspec.Raw(b"null")
        state = fold(state, decode_stored(msgspec.json.encode(written)).events)
    assert state == player.state


@pytest.mark.accepts(134)
def test_unknown_fields_are_passed_over():
    raw = (
        b'{"at":1,"position":1,"input":null,"new":1,'
        b'"events":[{"tag":"turn.opened","turn":2,"new":1}]}'
    )
    assert decode_stored(raw).events == (e.TurnOpened(turn=2),)


# -- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", [None, Parent("0011", 37, "ab" * 16)])
def test_a_header_survives(parent):
    header = Header(LOG, "żółw", parent, "nachalnik 0.1.0")
    raw = encode_header(header)
    assert decode_header(raw) == header
    assert encode_header(decode_header(raw)) == raw


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"log":"0011","session":7,"parent":null,"made_by":"x"}', r"`str`, got `int`.*session"),
        (b'{"log":"0011"}', "missing required field `session`"),
        (b'{"log":"0011"', "truncated"),
        (b'{"log":"\xff"}', "Invalid UTF-8"),
        (b"[]", "`object`, got `array`"),
        (b'{"log":"0011","zz":' + DEEP + b"}", "recursion"),
        (DEEP, "."),
    ],
    ids=range(7),
)
def test_a_header_that_cannot_be_read_says_where_and_what(raw, says):
    with pytest.raises(UnreadableHeader, match=f"line 1: the header cannot be read: .*{says}"):
        decode_header(raw)


def test_the_codec_names_every_event_that_carries_a_content():
    """A new carrier must be told to the codec, or its large contents stay in the line."""
    holders = {
        kind
        for kind in e.Event.__args__
        if any(name in ("item", "content", "output") for name in kind.__struct_fields__)
    } - {e.ModelFinished, e.ToolFinished}
    assert set(codec.HOLDERS["content"]) == holders
