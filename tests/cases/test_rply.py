"""RPLY: replay that diverges from what happened."""

import anyio
import pytest
from msgspec.structs import replace

from effects import replay
from effects.logs.scan import read_log
from effects.replay import first_difference, redrive
from nachalnik import Config, ContextItem, Kernel, Rules
from reducers.codec import decode_header
from reducers.root import step
from reducers.vocabulary.events import ToolStarted
from tests.effects.shell import Model, Tool, calls, said


@pytest.fixture
def log(tmp_path):
    """The log of a turn that runs two calls at once."""
    path = tmp_path / "log.jsonl"
    add = Tool("add", "3")
    with Kernel.open(
        path,
        provider=Model(calls("add", "add"), said("3")),
        tools=[add],
        policy=Rules(allow=["*"]),
        config=Config(parallel_tool_calls=True),
    ) as kernel:
        kernel.push(ContextItem.user("go"))
        anyio.run(kernel.turn)
    return path


def _replayed(path, monkeypatch, change):
    """The log judged again by rules whose events are put through `change`."""

    def changed(state, input, reducer):
        made = step(state, input, reducer)
        events = tuple(change(list(made.events)))
        return made if events == made.events else replace(made, events=events)

    monkeypatch.setattr(replay, "step", changed)
    before = path.read_bytes()
    with read_log(path) as view:
        values = [value for _, value in view.commits]
        found = redrive(decode_header(view.header), iter(values), None)
    assert path.read_bytes() == before  # nothing is appended
    return found.divergence


def _rename(events):
    return [
        replace(event, tool="sum") if isinstance(event, ToolStarted) else event for event in events
    ]


def _swap(events):
    places = [n for n, event in enumerate(events) if isinstance(event, ToolStarted)]
    if len(places) == 2:
        first, second = places
        one, two = events[first], events[second]
        events[first] = replace(one, call=two.call)
        events[second] = replace(two, call=one.call)
    return events


def test_rply_01_the_same_rules_do_not_diverge(log, monkeypatch):
    assert _replayed(log, monkeypatch, lambda events: events) is None


@pytest.mark.parametrize("change", [_rename, _swap])
def test_rply_01_changed_rules_stop_the_replay(log, monkeypatch, change):
    """At the position, with what was expected and what came; nothing runs."""
    divergence = _replayed(log, monkeypatch, change)
    assert divergence.position == 7
    assert divergence.input == "model.settled"
    place, expected, got = first_difference(divergence)
    assert isinstance(expected, ToolStarted)
    assert isinstance(got, ToolStarted)
    assert (expected.call, expected.tool) == ("c1", "add")
    assert (got.call, got.tool) in (("c1", "sum"), ("c2", "add"))
    assert divergence.expected[place] == expected
    assert expected.effect == got.effect == 0  # the effect that is announced, as 7.0
