"""Parts describe themselves: what is announced, what is silence, and what a process lacks."""

import pytest
from msgspec.structs import replace

from reducers.machines import parts
from reducers.vocabulary import inputs as i
from reducers.vocabulary.config import Config
from reducers.vocabulary.errors import NoProvider
from reducers.vocabulary.json import Json
from reducers.vocabulary.policies import ASK_ALWAYS
from tests.reducers.driving import ADD, ALLOW_ADD, ALLOW_ALL, MODEL, NOTE, Core, started, told


def said(core: Core, **described) -> list[str]:
    return [told(event) for event in core.feed(i.PartsDescribed(**described)).events]


def test_a_new_session_has_no_model_no_tools_and_asks_always():
    core = Core()
    assert [told(event) for event in core.feed(i.SessionOpened()).events] == ["session.started"]
    assert parts.model(core.state.parts) is None
    assert parts.tools(core.state.parts) == ()
    assert parts.policy(core.state.parts) == ASK_ALWAYS
    with pytest.raises(NoProvider):
        core.feed(i.RunTurn())


def test_what_equals_the_state_is_silence_unless_it_is_announced():
    core = started()
    known = {"model": MODEL, "tools": (ADD, NOTE), "policy": ALLOW_ALL}
    for part, value in known.items():
        assert said(core, **{part: value}) == []
        assert said(core, **{part: value}, announce=True) == [f"{part}.changed"]
    assert said(core, **known) == []
    assert said(core, model=None) == ["model.changed"]
    assert said(core, model=None) == []


def test_every_field_of_a_model_counts():
    core = started()
    assert said(core, model=replace(MODEL, endpoint="http://localhost")) == ["model.changed"]


def test_tools_are_sorted_and_a_spec_that_changed_in_place_is_quiet():
    core = started()
    assert said(core, tools=(NOTE, ADD)) == [], "the order does not matter"
    described = replace(ADD, description="Add two numbers.")
    assert said(core, tools=(NOTE, described)) == ["[parts.described]"]
    assert [spec.description for spec in core.state.parts.tools] == [
        "Add two numbers.",
        "Write a note.",
    ]
    assert said(core, tools=(NOTE,)) == ["tools.changed"]


def test_of_two_tools_that_share_an_id_the_later_counts():
    core = started()
    later = replace(ADD, description="Add.")
    assert said(core, tools=(ADD, NOTE, later)) == ["[parts.described]"]
    assert core.state.parts.tools == (later, NOTE)
    core.feed(i.SessionOpened(tools=(later, ADD)))
    assert core.state.parts.tools == (ADD,)


def test_an_opened_session_has_what_its_process_brought():
    core = started(ALLOW_ADD)
    core.reopen(tools=(ADD,), model=None, policy=None)
    assert core.told()[-1].split("  ")[-1].strip() == "[session.opened] · tools.changed"
    state = core.state.parts
    assert (parts.model(state), parts.policy(state)) == (None, ASK_ALWAYS)
    assert (state.model, state.policy) == (MODEL, ALLOW_ADD), "known, but not here"
    core.push("go")
    with pytest.raises(NoProvider):
        core.feed(i.RunTurn())
    assert said(core, model=MODEL) == ["[parts.described]"]
    assert said(core, policy=ALLOW_ADD) == ["[parts.described]"]
    core.feed(i.RunTurn())
    assert core.state.requests.in_flight


def test_an_opening_that_brings_no_tools_offers_none():
    core = started()
    core.feed(i.SessionOpened(model=MODEL))
    assert parts.tools(core.state.parts) == ()
    core.push("go")
    core.feed(i.RunTurn())
    assert core.commits[-1].events[-1].tools == 0
    core.ask("c1")
    assert "There are no tools" in core.state.context.items[2].content.text


def test_configuration_is_kept_unless_another_is_given():
    core = started(max_requests_per_turn=3)
    core.reopen()
    assert core.state.session.config == Config(max_requests_per_turn=3)
    core.feed(i.SessionOpened(config=Config(parallel_tool_calls=True)))
    assert core.state.session.config == Config(parallel_tool_calls=True)


def test_parameters():
    core = started()
    assert [told(event) for event in core.feed(i.SetParams(Json('{"seed":1}'))).events] == [
        "model.params"
    ]
    assert core.feed(i.SetParams(Json('{"seed":1}'))).events == ()
    assert core.reducer.draw(core.state).request.params == Json('{"seed":1}')


def test_seams_are_announced_where_they_differ():
    core = started()
    assert said(core, projector=i.DEFAULT_SEAMS.projector) == []
    assert said(core, projector="mine:Projector") == ["projector.changed"]
    assert said(core, counter="mine:Counter") == ["counter.changed"]
    assert core.state.session.seams == i.Seams("mine:Projector", "mine:Counter")


def test_a_call_is_matched_to_its_tool_when_it_is_asked_for():
    """Later changes of the registry do not touch it."""
    core = started()
    core.push("go")
    core.feed(i.RunStep())
    core.ask("c1")
    core.feed(i.PartsDescribed(tools=()))
    core.feed(i.RunStep())
    core.result("c1", "3")
    assert core.state.context.items[2].kind.tool == "add"


def test_finishing_is_a_mark_and_not_a_shutdown():
    core = started()
    core.push("go")
    core.feed(i.RunStep())
    core.ask("c1", "c2")
    core.feed(i.FinishSession())
    assert [told(event) for event in core.commits[-1].events] == [
        "turn.unfinished c1,c2",
        "session.finished",
    ]
    assert core.state.session.is_finished
    core.feed(i.RunStep())
    assert told(core.commits[-1].events[0]) == ">executing{c1,c2}", "its turn goes on"


def test_finishing_closes_a_turn_that_waits_for_nothing():
    core = started(max_requests_per_turn=1)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask("c1")
    core.result("c1")
    core.feed(i.FinishSession())
    assert [told(event) for event in core.commits[-1].events] == [
        "[turn.closed 1 session finished]",
        "session.finished",
    ]
