"""The sample log of rulings section 1, made again by our code.

The plan was written by hand; these are the only places where ours differs from it:

* contents and kinds are stored internally tagged (R6); the plan shows kernel.md's shapes;
* the input's `stop` is left out where it is the default;
* figures of a request: the plan priced the tool's definition at 38 tokens, the documented rule
  (schema, and name with description, at four bytes a token) gives 25 and 6;
* digests, which the plan made up.
"""

import json
from pathlib import Path

import pytest

from reducers import chain as chains
from reducers import fold, initial
from reducers.codec import decode_header, decode_stored
from reducers.vocabulary import inputs as i
from reducers.vocabulary.config import Config
from reducers.vocabulary.content import Text
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.models import Usage
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolSpec
from tests.reducers.driving import LOG, MODEL, NAME, Core, call
from tests.reducers.sessions import HEADER, LOGS, framed

PLAN = Path(__file__).with_name("chain_sample.jsonl").read_bytes().splitlines(keepends=True)
RECORDED = LOGS / "one_permitted_call.jsonl"

SCHEMA = (
    '{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},'
    '"required":["x","y"]}'
)


def made_again() -> Core:
    core = Core()
    core.feed(i.SessionOpened(config=Config(), seams=i.DEFAULT_SEAMS))
    core.feed(i.PartsDescribed(model=MODEL))
    core.feed(i.PartsDescribed(tools=(ToolSpec("add", "Add two integers.", SCHEMA),)))
    core.feed(i.PartsDescribed(policy=PolicyInfo("Rules", (Rule(allow="add"),))))
    core.feed(i.PushItems((ContextItem.user("add 1 and 2"),)))
    core.feed(i.RunTurn())
    core.ask(call("call_a7a7"), usage=Usage(44, 12))
    core.result("call_a7a7", "3")
    core.say("It is 3.", Usage(51, 5))
    return core


# -- the plan, in the words of the store -------------------------------------------------------


def as_stored(plan):
    """The plan's shapes as R6 stores them."""
    if isinstance(plan, list):
        return [as_stored(one) for one in plan]
    if not isinstance(plan, dict):
        return plan
    made = {name: as_stored(value) for name, value in plan.items()}
    if "kind" in made and isinstance(made["kind"], dict):
        kind = dict(made["kind"])
        made["kind"] = {"tag": kind.pop("kind"), **kind}
    content = made.get("content")
    if isinstance(content, dict) and "text" in content:
        made["content"] = {"tag": "text"} | ({"text": content["text"]} if content["text"] else {})
    return made


FIGURES = {"model.requested": ("tokens", "digest"), "counter.observed": ("estimated",)}
FIGURES["permission.decided"] = ("args",)


def without_figures(commit):
    for event in commit["events"]:
        for name in FIGURES.get(event["tag"], ()):
            event[name] = None
    response = commit["input"].get("response", {})
    if response.get("stop") == "end_turn":
        del response["stop"]
    return commit


def commits(lines):
    return [json.loads(line)["commit"] for line in lines[1:]]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(lambda: framed(made_again()).splitlines(), id="made again"),
        pytest.param(lambda: RECORDED.read_bytes().splitlines(), id="recorded"),
    ],
)
def test_the_plan_is_what_our_code_records(lines):
    ours = commits(lines())
    plan = [as_stored(commit) for commit in commits(PLAN)]
    assert len(ours) == 9
    for mine, theirs in zip(ours, plan, strict=True):
        assert without_figures(mine) == without_figures(theirs)
        # The order of fields is part of the bytes; the plan's holds but for what R6 changes.
        assert [list(event)[:2] for event in mine["events"]] == [
            list(event)[:2] for event in theirs["events"]
        ]


def test_the_figures_that_differ_follow_the_documented_rules():
    requests = [
        event
        for commit in commits(framed(made_again()).splitlines())
        for event in commit["events"]
        if event["tag"] == "model.requested"
    ]
    tool = -(-len(SCHEMA) // 4) + -(-len("add Add two integers.") // 4)
    assert [request["tokens"] for request in requests] == [3 + tool, 3 + 5 + 1 + tool]
    assert all(len(bytes.fromhex(request["digest"])) == 16 for request in requests)


# -- the recorded log --------------------------------------------------------------------------


def test_the_recorded_log_verifies_and_folds():
    header_line, *lines = RECORDED.read_bytes().splitlines(keepends=True)
    header, chain = chains.open_header(header_line)
    assert decode_header(header) == HEADER
    state = initial(LOG, NAME)
    count = 0
    for value in chains.open_commits(lines, chain):
        state = fold(state, decode_stored(value).events)
        count += 1
    assert (count, state.position, state.last_seq) == (9, 9, 22)
    assert [item.content for item in state.context.items] == [
        Text("add 1 and 2"),
        Text(),
        Text("3"),
        Text("It is 3."),
    ]


def test_a_session_goes_on_after_the_recorded_log():
    header_line, *lines = RECORDED.read_bytes().splitlines(keepends=True)
    _, chain = chains.open_header(header_line)
    core = Core()
    for value in chains.open_commits(lines, chain):
        core.state = fold(core.state, decode_stored(value).events)
    core.feed(i.SessionOpened(model=MODEL))
    core.feed(i.RunTurn())
    core.say("And then?")
    assert core.state.loop.turn == 2
    assert core.state.context.items[4].content == Text("And then?")
