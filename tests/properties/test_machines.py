"""The invariants of the machines, by number, over histories with everything that can happen."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers import State
from reducers.machines import calls as calls_machine
from reducers.machines import parts
from reducers.machines.context import present
from reducers.machines.questions import how_answered
from reducers.vocabulary import events as e
from reducers.vocabulary.items import sends_content
from reducers.vocabulary.phases import Finished, Idle, Requesting
from tests.properties.histories import examples, histories, settings_of_a_session
from tests.properties.player import ANYTHING, Player, moves_from
from tests.reducers.driving import LOG, NAME

Check = Callable[[Player], None]


@st.composite
def played(draw: st.DrawFn) -> Player:
    return Player(*draw(settings_of_a_session)).play(draw(histories))


def states(player: Player) -> list[State]:
    return [made.state for _, _, made in player.transitions]


def said(player: Player) -> list[e.Event]:
    return [event for commit in player.commits for event in commit.events]


# -- the session and its parts -----------------------------------------------------------------


def session_1(player: Player) -> None:
    """The log id and the name never change."""
    assert {(state.session.log, state.session.name) for state in states(player)} == {(LOG, NAME)}


def session_2(player: Player) -> None:
    """The seams of a state are those last named."""
    for before, _, made in player.transitions:
        projector, counter = before.session.seams.projector, before.session.seams.counter
        for event in made.events:
            match event:
                case e.SessionStarted(seams=seams):
                    projector, counter = seams.projector, seams.counter
                case e.ProjectorChanged(to=to):
                    projector = to
                case e.CounterChanged(to=to):
                    counter = to
                case _:
                    pass
        seams = made.state.session.seams
        assert (seams.projector, seams.counter) == (projector, counter)


def parts_1(player: Player) -> None:
    """Tools are sorted by id, one tool an id."""
    for state in states(player):
        ids = [spec.id for spec in state.parts.tools]
        assert ids == sorted(set(ids))


def parts_2(player: Player) -> None:
    """Nothing that this process lacks is offered to a model or asked."""
    for state in states(player):
        here = state.parts.here
        offered = player.reducer.draw(state).request.tools
        assert offered == (state.parts.tools if "tools" in here else ())
        assert (parts.model(state.parts) is None) == ("model" not in here or not state.parts.model)
    for before, _, made in player.transitions:
        for event in made.events:
            if isinstance(event, e.ModelRequested):
                assert parts.model(made.state.parts) is not None
                assert event.tools == len(parts.tools(made.state.parts))
                assert event.model == made.state.parts.model_at >= before.parts.model_at


# -- the context -------------------------------------------------------------------------------


def context_1(player: Player) -> None:
    """An id keeps its kind, source and label, and is never given to another item."""
    known: dict[int, tuple[object, ...]] = {}
    for state in states(player):
        assert all(
            item is None or item.id == n for n, item in enumerate(state.context.items, start=1)
        )
        for item in present(state.context):
            same = (type(item.kind), item.source, item.label)
            assert known.setdefault(item.id, same) == same


def context_2(player: Player) -> None:
    """The sums are the sums over the items, and the count their number."""
    for state in states(player):
        there = present(state.context)
        sent = sum(item.tokens for item in there if sends_content(item.state))
        assert state.context.count == len(there)
        assert state.context.tokens == sent
        assert state.context.withheld == sum(item.tokens for item in there) - sent


# -- the loop ----------------------------------------------------------------------------------


def loop_1(player: Player) -> None:
    """A turn opens at the first claim after the last closed one; its number never repeats."""
    is_open, turn = False, 0
    for event in said(player):
        match event:
            case e.TurnOpened(turn=number):
                assert not is_open
                assert number == turn + 1
                is_open, turn = True, number
            case e.TurnClosed(turn=number):
                assert is_open
                assert number == turn
                is_open = False
            case e.StateChanged(to=Requesting()):
                assert is_open
            case _:
                pass
    assert (player.state.loop.is_open, player.state.loop.turn) == (is_open, turn)


def loop_3(player: Player) -> None:
    """The flag is lowered by whoever spends it, by `finished`, by a drive that ends otherwise than
    by resting, and by another process; by nothing else."""
    is_up = False
    for _, _, made in player.transitions:
        for event in made.events:
            match event:
                case e.TurnInterrupted():
                    assert not is_up, "it is announced when it goes up"
                    is_up = True
                case e.InterruptSpent():
                    assert is_up, "only a flag that is up is spent"
                    is_up = False
                case e.StateChanged(to=Finished()) | e.SessionOpened():
                    is_up = False
                case e.StateChanged(to=Idle(), drive="none"):
                    is_up = False
                case _:
                    pass
        assert made.state.loop.is_interrupted == is_up


def loop_4(player: Player) -> None:
    """No drive outlives a crash: an opening rests, and starts nothing but a reconciliation."""
    for _, _, made in player.transitions:
        if any(isinstance(event, e.SessionOpened) for event in made.events):
            assert made.state.loop.drive == "none"
            assert not made.state.requests.in_flight
            assert {type(effect).__name__ for effect in made.effects} <= {"ReconcileOutcome"}


# -- requests ----------------------------------------------------------------------------------


def request_1(player: Player) -> None:
    """At most one request is in flight."""
    out = 0
    for event in said(player):
        out += isinstance(event, e.ModelRequested)
        out -= isinstance(event, e.ModelFinished | e.ModelFailed | e.RequestAbandoned)
        assert out in (0, 1)
    assert bool(player.state.requests.in_flight) == bool(out)


def request_2(player: Player) -> None:
    """No state lasts longer than its commit with a request due."""
    assert not any(state.loop.is_due for state in states(player))


def request_3(player: Player) -> None:
    """The lists are those of the last request, whatever became of it."""
    for before, _, made in player.transitions:
        now = made.state.requests
        if any(isinstance(event, e.ModelRequested) for event in made.events):
            projection = player.reducer.draw(made.state).projection
            assert list(now.included) == list(projection.included)
            assert list(now.skipped) == list(projection.skipped)
            assert list(now.repairs) == list(projection.repairs)
        else:
            old = before.requests
            assert now.included == old.included
            assert (now.skipped, now.repairs) == (old.skipped, old.repairs)


# -- calls and questions -----------------------------------------------------------------------


def call_1(player: Player) -> None:
    """A call id is used once, and what was seen stays seen."""
    seen: set[str] = set()
    for before, _, made in player.transitions:
        for event in made.events:
            match event:
                case e.ModelFinished(tool_calls=ids) | e.ToolReserved(calls=ids):
                    assert seen.isdisjoint(ids)
                    assert len(set(ids)) == len(ids)
                    seen |= set(ids)
                case _:
                    pass
        assert set(made.state.calls.seen) == seen >= set(before.calls.seen)


def call_3(player: Player) -> None:
    """A call is started once, but for an explicit retry; each start bears the key of the first."""
    keys: dict[str, str] = {}
    may_start_again: set[str] = set()
    for _, _, made in player.transitions:
        for event in made.events:
            match event:
                case e.ToolRetried(call=call):
                    may_start_again.add(call)
                case e.ToolStarted(call=call, effect=n, attempt=attempt):
                    assert call not in keys or call in may_start_again
                    assert (attempt > 1) == (call in keys)
                    keys.setdefault(call, f"{made.state.position}.{n}")
                    may_start_again.discard(call)
                case _:
                    pass
        for call in made.state.calls.batch:
            assert call.key == keys.get(call.id, "")


def call_4(player: Player) -> None:
    """An answer counts once: for an effect there is one result, or one late answer, never both."""
    counted: list[str] = []
    for event in said(player):
        match event:
            case e.ToolFinished(effect=str(effect)) | e.ToolLate(effect=effect):
                counted.append(effect)
            case _:
                pass
    assert len(counted) == len(set(counted))


def question_1(player: Player) -> None:
    """Ids of all kinds come from one counter, and the next one is above all."""
    for state in states(player):
        ids = [one.id for one in state.questions.open]
        ids += [call.question for call in state.calls.batch if call.question]
        assert all(0 < id < state.questions.next_id for id in ids)


def question_2(player: Player) -> None:
    """A question is answered once, and how stays known; a call is asked about once at a time."""
    ends: dict[int, int] = {}
    asked: set[int] = set()
    for before, _, made in player.transitions:
        for event in made.events:
            match event:
                case e.PermissionRequested(id=id) | e.QuestionOpened(id=id):
                    asked.add(id)
                case e.QuestionAnswered(id=id):
                    ends[id] = ends.get(id, 0) + 1
                case e.PermissionDecided(id=id, source="user"):
                    ends[id] = ends.get(id, 0) + 1
                case _:
                    pass
        after = made.state.questions
        assert {one.id for one in after.open} <= asked
        assert all(how_answered(after, id) for id in ends)
        for id in range(1, before.questions.next_id):
            assert not how_answered(before.questions, id) or how_answered(after, id)
        about = [one.call for one in after.open]
        assert len(about) == len(set(about))
        assert all(calls_machine.find(made.state.calls, name) for name in about)
    assert set(ends.values()) <= {1}


def calibration_1(player: Player) -> None:
    """Totals only grow, by pairs that an event declares to teach, until the counter is changed."""
    for before, _, made in player.transitions:
        own = [one.own for one in made.events if isinstance(one, e.CounterObserved)]
        was, now = dict(before.calibrations.models), dict(made.state.calibrations.models)
        if any(isinstance(event, e.CounterChanged) for event in made.events):
            assert now == {}
            continue
        grown = sum(known.estimated for known in now.values())
        assert grown - sum(known.estimated for known in was.values()) == sum(own)
        for name, known in was.items():
            assert now[name].observations >= known.observations


INVARIANTS: dict[str, Check] = {
    "I-SESSION-1": session_1,
    "I-SESSION-2": session_2,
    "I-PARTS-1": parts_1,
    "I-PARTS-2": parts_2,
    "I-CONTEXT-1": context_1,
    "I-CONTEXT-2": context_2,
    "I-LOOP-1": loop_1,
    "I-LOOP-3": loop_3,
    "I-LOOP-4": loop_4,
    "I-REQUEST-1": request_1,
    "I-REQUEST-2": request_2,
    "I-REQUEST-3": request_3,
    "I-CALL-1": call_1,
    "I-CALL-3": call_3,
    "I-CALL-4": call_4,
    "I-QUESTION-1": question_1,
    "I-QUESTION-2": question_2,
    "I-CALIBRATION-1": calibration_1,
}


COVERS = {"I-CONTEXT-1": (108, 109)}
"""The acceptance lines that an invariant covers."""


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(n, marks=pytest.mark.accepts(*COVERS[n])) if n in COVERS else n
        for n in INVARIANTS
    ],
)
@given(player=played())
@examples(25)
def test_invariant(number, player):
    INVARIANTS[number](player)


@pytest.mark.parametrize("seed", range(500, 506))
def test_invariants_over_a_long_history(seed):
    player = Player(seed % 5, seed % 4).play(moves_from(seed, 150, ANYTHING))
    for check in INVARIANTS.values():
        check(player)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2000, 2060))
def test_invariants_over_many_long_histories(seed):
    player = Player(seed % 5, seed // 5 % 4).play(moves_from(seed, 400, ANYTHING))
    for check in INVARIANTS.values():
        check(player)
