"""Claim tickets: what the world needs for each, and when it is too late to ask."""

import pytest
from hypothesis import given

from reducers import (
    Effect,
    JudgeWork,
    ModelWork,
    ToolWork,
    effects_of,
    evolve,
    outstanding,
    work,
)
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.effects import CallModel, JudgeCall, RunTool, StopModel, StopTool
from reducers.vocabulary.errors import StaleEffect
from reducers.vocabulary.events import PermissionDecided, PermissionRequested, TimerStarted
from reducers.vocabulary.json import Json
from tests.properties.histories import examples, histories, settings_of_a_session
from tests.properties.player import Player
from tests.reducers.driving import CODE, LOG, MODEL, Core, call, started


def only(core: Core) -> Effect:
    (effect,) = outstanding(core.state)
    return effect


def test_a_request_is_drawn_from_the_state_of_its_own_commit():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    effect = only(core)
    drawn = work(core.state, effect)
    assert isinstance(drawn, ModelWork)
    assert drawn.model == MODEL
    assert [message.content.text for message in drawn.request.messages] == ["go"]
    assert [spec.id for spec in drawn.request.tools] == ["add", "note"]
    assert drawn.digest == core.commits[-1].events[-1].digest
    core.push("more")
    with pytest.raises(StaleEffect, match="position 3"):
        work(core.state, effect)
    assert outstanding(core.state) == (effect,), "it is still to be awaited"


def test_a_call_has_one_key_for_all_its_starts():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    core.ask(call("c1", "add", '{"x":1,"y":2}'))
    first = work(core.state, only(core))
    assert first == ToolWork(ToolCall("c1", "add", Json('{"x":1,"y":2}')), f"{LOG}:4.0", 1)
    core.reopen()
    core.feed(i.RetryOutcome("c1"))
    core.feed(i.RunTurn())
    again = work(core.state, only(core))
    assert (again.key, again.attempt, again.call) == (first.key, 2, first.call)
    assert only(core).id != "4.0"


def test_a_judgement_names_the_question_it_may_become():
    core = started(CODE)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask(call("c1", "nonsense"), "c2", call("c3", "note", "{}"))
    for name in ("c2", "c3"):
        judged = work(core.state, JudgeCall(core.effect(name), name))
        assert isinstance(judged, JudgeWork)
        assert judged.policy == CODE
        assert (judged.call.id, judged.spec.id) == (name, judged.call.tool)
        step = core.feed(i.CallJudged(core.effect(name), "ask" if name == "c2" else "allow"))
        expected = 1 if name == "c2" else 2
        assert judged.question == expected
    asked = [
        event.id
        for event in step.events
        if isinstance(event, PermissionRequested | PermissionDecided)
    ]
    assert asked == [1, 2]


def test_what_is_settled_or_a_notice_cannot_be_rendered():
    core = started()
    core.push("go")
    core.feed(i.RunTurn())
    effect = only(core)
    step = core.feed(i.CancelTurn())
    (notice,) = step.effects
    assert notice == StopModel("4.0", effect.id)
    for stale in (effect, notice, RunTool("9.0", "c1"), CallModel("9.0")):
        with pytest.raises(StaleEffect, match="not outstanding"):
            work(core.state, stale)


def test_a_cancelled_run_is_told_to_stop():
    core = started(parallel_tool_calls=True)
    core.push("go")
    core.feed(i.RunTurn())
    core.ask("c1", "c2")
    step = core.feed(i.CancelTurn())
    assert step.effects == (StopTool("5.0", "c1"), StopTool("5.1", "c2"))
    assert outstanding(core.state) == ()


def test_a_timer_is_seconds():
    (effect,) = effects_of(TimerStarted(effect=0, after_s=1.5), 3)
    core = started()
    state = evolve(core.state, TimerStarted(effect=0, after_s=1.5))
    owed = outstanding(state)
    assert [work(state, one) for one in owed] == [1.5]
    assert effect.after_s == owed[0].after_s


@given(histories, settings_of_a_session)
@examples(40)
def test_every_effect_can_be_rendered_right_after_its_step(moves, setting):
    player = Player(*setting).play(moves)
    for _, _, made in player.transitions:
        for effect in made.effects:
            if isinstance(effect, StopTool | StopModel):
                continue
            assert effect in outstanding(made.state)
            rendered = work(made.state, effect)
            if isinstance(rendered, ToolWork):
                assert rendered.key.startswith(f"{LOG}:")
