"""The ten laws of `reducers/INVARIANTS.md`, each over histories with everything that can happen."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from effects.replay import redrive
from reducers import (
    Commit,
    Effect,
    Event,
    Input,
    Reducer,
    State,
    evolve,
    fold,
    initial,
    outstanding,
    step,
)
from reducers.codec import Header, decode_commit, decode_stored, encode_commit
from reducers.linear import LinearProjector, pairing_problem
from reducers.machines.context import present
from reducers.statecodec import decode_state, encode_state
from reducers.vocabulary import events as e
from reducers.vocabulary import inputs as i
from reducers.vocabulary.errors import (
    AlreadyResolved,
    Busy,
    InvalidInput,
    NoProvider,
    UnknownCall,
    UnknownItem,
    UnknownPermission,
)
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.messages import Message
from reducers.vocabulary.phases import Finished, Idle
from tests.properties.histories import examples, histories, settings_of_a_session
from tests.properties.ledger import Ledger
from tests.properties.player import ANYTHING, Player, fingerprints, moves_from
from tests.properties.strategies import decoder_of, encode, twin, values_of
from tests.reducers.driving import LOG, NAME

ROOT = Path(__file__).resolve().parents[2]
HEADER = Header(LOG, NAME, None, "nachalnik 0.1.0")
ANSWERS = (i.ModelSettled, i.ToolSettled, i.CallJudged, i.OutcomeReconciled, i.TimerFired)

SOME = examples(60)


@st.composite
def played(draw: st.DrawFn) -> Player:
    return Player(*draw(settings_of_a_session)).play(draw(histories))


Check = Callable[[Player], None]


def values(player: Player) -> list[bytes]:
    return [encode_commit(commit)[0] for commit in player.commits]


# -- 1 and 3: what a step is -------------------------------------------------------------------


def law_1(player: Player) -> None:
    """The state of a step is the fold of its events; a log's state is the fold of its commits."""
    state = initial(LOG, NAME)
    for commit in player.commits:
        before, state = state, fold(state, commit.events)
        one_by_one = before
        for event in commit.events:
            one_by_one = evolve(one_by_one, event)
        assert replace(one_by_one, position=before.position + 1) == state
    assert state == player.state


REFUSALS = (
    AlreadyResolved,
    Busy,
    InvalidInput,
    NoProvider,
    UnknownCall,
    UnknownItem,
    UnknownPermission,
)


def law_3(player: Player) -> None:
    """Only what logs nothing is raised; an exact repeat of an answer is silence."""
    for input, refusal in player.refused:
        assert type(refusal) in REFUSALS, (input, refusal)
        assert not isinstance(input, ANSWERS), "the world's answers are never refused"
    for commit in player.commits:
        if isinstance(commit.input, ANSWERS):
            again = step(player.state, commit.input, player.reducer)
            assert again.events == (), commit.input
            assert again.raised is None


# -- 4: effects --------------------------------------------------------------------------------


def law_4(player: Player) -> None:
    """Outstanding is exactly what was announced and not settled, at every commit."""
    ledger, state = Ledger(), initial(LOG, NAME)
    for commit in player.commits:
        state = fold(state, commit.events)
        owed = outstanding(state)
        assert set(owed) == ledger.read(commit).outstanding()
        assert len(owed) == len(set(owed))
    assert len(ledger.ever) == len(set(ledger.ever))


# -- 5: pairing --------------------------------------------------------------------------------


def answered_once_and_at_once(messages: list[Message]) -> None:
    """Law 5 once more, told the other way round: behind each turn stand its answers, no others."""
    place = 0
    while place < len(messages):
        message = messages[place]
        assert message.role != "tool", f"message {place} answers nothing"
        asked = sorted(call.id for call in message.calls())
        answers = messages[place + 1 : place + 1 + len(asked)]
        assert [one.role for one in answers] == ["tool"] * len(asked)
        assert sorted(one.tool_call_id or "" for one in answers) == asked
        place += 1 + len(asked)


def law_5(player: Player) -> None:
    """Each request answers each call exactly once; each call of the model ends exactly once."""
    open_calls: set[str] = set()
    ended: set[str] = set()
    for _, _, made in player.transitions:
        for event in made.events:
            match event:
                case e.ModelFinished(tool_calls=calls):
                    open_calls |= set(calls)
                case e.ToolFinished(call=call):
                    assert call not in ended, "a call has one end"
                    ended.add(call)
                    open_calls.discard(call)
                case e.ModelRequested():
                    assert not open_calls, "every call has its end before the next request"
                    drawn = Reducer().draw(made.state)
                    assert drawn.digest == event.digest
                    assert pairing_problem(drawn.request.messages) is None
                    answered_once_and_at_once(list(drawn.request.messages))
                case _:
                    pass
    whole = LinearProjector().project(present(player.state.context))
    assert pairing_problem(whole.messages) is None
    assert list(Reducer().draw(player.state).request.messages) == list(whole.messages)


# -- 6: ids ------------------------------------------------------------------------------------


def law_6(player: Player) -> None:
    """No identifier of any kind is handed out twice; numbers of records have no gap."""
    items: list[int] = []
    calls: list[str] = []
    questions: list[int] = []
    seqs: list[int] = []
    turns: list[int] = []
    for commit in player.commits:
        for event in commit.events:
            if isinstance(event, e.Recorded):
                seqs.append(event.seq)
            match event:
                case e.ContextAdded(item=item):
                    items.append(item.id)
                case e.ModelFinished(tool_calls=made):
                    calls += made
                case e.ToolReserved(calls=reserved):
                    calls += reserved
                case e.PermissionRequested(id=id) | e.QuestionOpened(id=id):
                    questions.append(id)
                case e.PermissionDecided(id=id, source="policy"):
                    questions.append(id)
                case e.TurnOpened(turn=turn):
                    turns.append(turn)
                case _:
                    pass
    assert items == list(range(1, len(items) + 1))
    assert len(calls) == len(set(calls))
    assert len(questions) == len(set(questions))
    assert all(id < player.state.questions.next_id for id in questions)
    assert turns == list(range(1, len(turns) + 1))
    assert seqs == list(range(1, len(seqs) + 1))
    assert player.state.last_seq == len(seqs)
    assert [commit.position for commit in player.commits] == list(range(1, len(player.commits) + 1))


# -- 7: undo and redo --------------------------------------------------------------------------


def plain(state: State) -> list[ContextItem]:
    """The items without their figures, which are estimates and may be made anew."""
    return [replace(item, tokens=0, uncounted=0) for item in present(state.context)]


def law_7(player: Player) -> None:
    """Undo then redo is the identity on the items, however far; the log only grows."""
    if not isinstance(player.state.loop.phase, Idle | Finished):
        with pytest.raises(Busy):
            step(player.state, i.Undo(), player.reducer)
        return
    state, before = player.state, [plain(player.state)]
    while (made := step(state, i.Undo(), player.reducer)).events:
        assert made.state.position == state.position + 1
        state = made.state
        before.append(plain(state))
    assert len(before) - 1 == len(player.state.context.undo)
    for expected in reversed(before[:-1]):
        made = step(state, i.Redo(), player.reducer)
        assert made.events
        state = made.state
        assert plain(state) == expected
    assert len(state.context.undo) == len(player.state.context.undo)
    sums = [
        sum(item.tokens for item in present(state.context) if item.state in states)
        for states in (("active", "pinned"), ("elided", "excluded", "archived", "superseded"))
    ]
    assert [state.context.tokens, state.context.withheld] == sums


# -- 8 and 10: again ---------------------------------------------------------------------------


def no_content(digest: str) -> bytes:
    raise AssertionError(f"nothing here is large enough to be stored: {digest}")


def law_8(player: Player) -> None:
    """Each recorded input, stepped again, gives the recorded events byte for byte."""
    again = redrive(HEADER, iter(values(player)), no_content)
    assert again.divergence is None
    assert again.commits == len(player.commits)


def law_10(player: Player) -> None:
    """Whatever the stamps say: the same events, the same state."""
    for stamps in (lambda n: 0, lambda n: -n, lambda n: 2**62 - 7 * n):
        stamped = [replace(commit, at=stamps(commit.position)) for commit in player.commits]
        again = [encode_commit(commit)[0] for commit in stamped]
        assert redrive(HEADER, iter(again), no_content).divergence is None
        state = initial(LOG, NAME)
        for value in again:
            state = fold(state, decode_stored(value).events)
        assert encode_state(state) == encode_state(player.state)


# -- 9: bytes ----------------------------------------------------------------------------------


def law_9(player: Player) -> None:
    """Every input, event, effect, commit and state survives its bytes."""
    for before, input, made in player.transitions:
        survives(input, Input)
        for event in made.events:
            survives(event, Event)
        for effect in made.effects:
            survives(effect, Effect)
        survives_as_commit(Commit(1, before.position + 1, input, made.events))
    raw = encode_state(player.state)
    assert decode_state(raw) == player.state
    assert encode_state(decode_state(raw)) == raw


def survives(value: object, union: object) -> None:
    raw = encode(value)
    back = decoder_of(union)(raw)
    assert back == value
    assert encode(back) == raw
    assert encode(twin(value)) == raw, "the bytes depend on which objects hold the value"


def survives_as_commit(commit: Commit) -> None:
    raw, contents = encode_commit(commit)
    stored = dict(contents)
    back = decode_commit(raw, stored.__getitem__)
    assert back == commit
    assert encode_commit(back) == (raw, contents)
    assert encode_commit(twin(commit)) == (raw, contents)
    assert decode_stored(raw, stored.__getitem__).events == commit.events


@given(
    st.sampled_from(i.Input.__args__).flatmap(values_of),
    st.lists(st.sampled_from(e.Event.__args__).flatmap(values_of), max_size=3).map(tuple),
    st.integers(0, 2**53),
)
@examples(300)
def test_law_9_for_any_words_at_all(input, events, at):
    """Not only what our rules say together: any input beside any events."""
    survives(input, Input)
    for event in events:
        survives(event, Event)
    survives_as_commit(Commit(at, 1, input, events, "because"))


@given(st.sampled_from(Effect.__args__).flatmap(values_of))
def test_law_9_for_any_effect(effect):
    survives(effect, Effect)


# -- the laws over histories -------------------------------------------------------------------

LAWS: dict[int, Check] = {
    1: law_1, 3: law_3, 4: law_4, 5: law_5, 6: law_6, 7: law_7, 8: law_8, 9: law_9, 10: law_10,
}  # fmt: skip


COVERS = {5: (114, 115, 116, 117), 7: (125, 126)}
"""The acceptance lines that a law covers."""


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=pytest.mark.accepts(*COVERS[n])) if n in COVERS else n for n in LAWS],
)
@given(played())
@SOME
def test_law(number, player):
    LAWS[number](player)


@pytest.mark.parametrize("seed", range(8))
def test_laws_over_a_long_history(seed):
    player = Player(seed % 5, seed % 4).play(moves_from(seed, 150, ANYTHING))
    for law in LAWS.values():
        law(player)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 200))
def test_laws_over_many_long_histories(seed):
    player = Player(seed % 5, seed // 5 % 4).play(moves_from(seed, 400, ANYTHING))
    for law in LAWS.values():
        law(player)


# -- 2: the same bytes everywhere --------------------------------------------------------------


BATCH = [[seed % 5, seed // 5 % 4, moves_from(seed, 60, ANYTHING)] for seed in range(1000, 1012)]


def other_pythons() -> list[object]:
    """This Python, and each other one on the path that has what the core imports."""
    found = [pytest.param(sys.executable, id="this")]
    for version in ("3.11", "3.12", "3.13", "3.14"):
        if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
            continue
        python = shutil.which(f"python{version}")
        found.append(pytest.param(python, id=version, marks=_unless_usable(python)))
    return found


def _unless_usable(python: str | None) -> list[pytest.MarkDecorator]:
    if python is None:
        return [pytest.mark.skip(reason="it is not installed")]
    probe = [python, "-c", "import attrs, msgspec, rpds"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return [pytest.mark.skip(reason="it lacks what the core imports")]
    return []


@pytest.mark.parametrize("python", other_pythons())
def test_law_2(python):
    """The same arguments, the same bytes: in another process, under another hash seed."""
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    child = subprocess.run(
        [python, "-m", "tests.properties.player"],
        input=json.dumps(BATCH),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
    )
    assert child.returncode == 0, child.stderr
    made = [fingerprints(*case) for case in BATCH]
    assert json.loads(child.stdout) == made
    assert len({tuple(case) for case in made}) == len(BATCH)
