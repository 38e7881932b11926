"""CONC: concurrent writers to one session."""

import random
import time

import pytest

from effects.logs.file import FileLog
from effects.logs.port import SessionOwned
from effects.logs.scan import check_log, read_log
from nachalnik import Kernel
from reducers.codec import decode_commit
from reducers.vocabulary.events import TurnClosed
from tests.cases.peers import outside, peers


def _race(pair, path, seed):
    """Both open at the same moment, more or less, and send a turn. Returns their answers."""
    delays = random.Random(seed)
    order = list(pair)
    delays.shuffle(order)
    for peer in order:
        peer.send("open", path=str(path), replies='model> "hi"')
        time.sleep(delays.choice((0, 0, 0.0005, 0.002)))
    return [peer.answer() for peer in pair]


def _turns(path):
    with read_log(path) as view:
        commits = [decode_commit(value) for _, value in view.commits]
    return sum(isinstance(event, TurnClosed) for commit in commits for event in commit.events)


def _contest(tmp_path, trials, exists, refusals):
    with peers(2) as pair:
        for trial in range(trials):
            path = tmp_path / f"{trial}.jsonl"
            if exists:
                Kernel.open(path).close()
            answers = _race(pair, path, trial)
            won = [peer for peer, said in zip(pair, answers, strict=True) if "opened" in said]
            lost = [said for said in answers if "opened" not in said]
            assert len(won) == 1, answers
            assert lost[0]["error"] in refusals, answers
            for peer in pair:
                said = peer.ask("turn", text="go")
                assert said == {"state": "Finished"} if peer in won else "error" in said
            assert outside(path) == ["request"]
            assert [peer.ask("close") for peer in pair] == [{"closed": True}] * 2
            assert not list(check_log(path))
            assert _turns(path) == 1


def test_conc_01_one_of_two_openers_gets_the_session(tmp_path):
    _contest(tmp_path, 10, exists=True, refusals=["SessionOwned"])


def test_conc_01_one_of_two_beginners_gets_the_session(tmp_path):
    _contest(tmp_path, 10, exists=False, refusals=["SessionOwned"])


@pytest.mark.parametrize("is_held", [True, False])
def test_conc_01_a_session_that_another_begins_at_the_last_moment(tmp_path, monkeypatch, is_held):
    """Between finding no log and making one: it is owned, or can be had when it was let go."""
    path = tmp_path / "log.jsonl"
    others = []

    class Late(FileLog):
        @classmethod
        def create(cls, path, header, durability="fsync"):
            others.append(super().create(path, header, durability))
            if not is_held:
                others[0].close()
            return super().create(path, header, durability)

    monkeypatch.setattr("nachalnik.kernel.FileLog", Late)
    if is_held:
        with pytest.raises(SessionOwned, match="owned by process"):
            Kernel.open(path)
        others[0].close()
    else:
        Kernel.open(path).close()
    assert not list(check_log(path))


@pytest.mark.deep
def test_conc_01_a_hundred_times(tmp_path):
    _contest(tmp_path, 100, exists=True, refusals=["SessionOwned"])


def test_conc_01_a_killed_owner_frees_the_session(tmp_path):
    path = tmp_path / "log.jsonl"
    with peers(2) as (owner, other):
        assert "opened" in owner.ask("open", path=str(path), replies='model> "hi"')
        refused = other.ask("open", path=str(path), replies='model> "hi"')
        assert refused["error"] == "SessionOwned"
        assert f"process {owner.process.pid} on " in refused["said"]
        assert ", since " in refused["said"]
        owner.kill()
        assert "opened" in other.ask("open", path=str(path), replies='model> "hi"')
        assert other.ask("turn", text="go") == {"state": "Finished"}
        assert other.ask("close") == {"closed": True}
    assert _turns(path) == 1
    assert not list(check_log(path))
