"""What a log says is announced and not settled, read from its events alone.

Written without a look at the state: law 4 holds the two against each other.
"""

from reducers import Commit, Effect, Event
from reducers.vocabulary import events as e
from reducers.vocabulary.effects import CallModel, JudgeCall, ReconcileOutcome, RunTool, StartTimer
from reducers.vocabulary.phases import Idle


class Ledger:
    def __init__(self) -> None:
        self.owed: dict[str, Effect] = {}
        self.ever: list[str] = []
        """Every effect id ever announced, notices included."""
        self.questions: dict[int, str] = {}
        """Reconciliations that are out, by question."""

    def read(self, commit: Commit) -> "Ledger":
        for event in commit.events:
            self._settle(event)
            self._announce(event, commit.position)
        return self

    def outstanding(self) -> set[Effect]:
        return set(self.owed.values())

    def _owe(self, effect: Effect) -> None:
        self.ever.append(effect.id)
        self.owed[effect.id] = effect

    def _announce(self, event: Event, position: int) -> None:
        match event:
            case e.ModelRequested(effect=n):
                self._owe(CallModel(f"{position}.{n}"))
            case e.ToolStarted(effect=n, call=call):
                self._owe(RunTool(f"{position}.{n}", call))
            case e.ToolRequested(effect=int(n), call=call):
                self._owe(JudgeCall(f"{position}.{n}", call))
            case e.QuestionOpened(id=id, effect=int(n), call=call):
                self.questions[id] = f"{position}.{n}"
                self._owe(ReconcileOutcome(f"{position}.{n}", call))
            case e.TimerStarted(effect=n, after_s=after_s):
                self._owe(StartTimer(f"{position}.{n}", after_s))
            case e.RequestAbandoned(stop=int(n)) | e.ToolFinished(stop=int(n)):
                self.ever.append(f"{position}.{n}")
            case _:
                pass

    def _settle(self, event: Event) -> None:
        match event:
            case e.ModelFinished(effect=effect) | e.ModelFailed(effect=effect):
                del self.owed[effect]
            case e.RequestAbandoned(effect=effect) | e.TimerFired(effect=effect):
                del self.owed[effect]
            case e.CallAnswered(effect=effect):
                del self.owed[effect]
            case e.CallJudged(call=call) | e.PermissionDecided(call=call):
                self._end(JudgeCall, call)  # the second: a person who ordered the run overtook it
            case e.ToolRetried(call=call):
                self._end(RunTool, call)
            case e.ToolFinished(call=call):
                self._end((RunTool, JudgeCall), call)
            case e.SessionOpened():
                self._end((JudgeCall, RunTool), None)  # what an earlier process did is its own
            case e.StateChanged(to=Idle()):
                self._end(JudgeCall, None)  # nobody awaits a judgement any more
            case e.QuestionAnswered(id=id) | e.QuestionLeft(id=id):
                self.owed.pop(self.questions.pop(id, ""), None)
            case _:
                pass

    def _end(self, kinds: type | tuple[type, ...], call: str | None) -> None:
        for id, effect in list(self.owed.items()):
            if isinstance(effect, kinds) and call in (None, effect.call):
                del self.owed[id]
