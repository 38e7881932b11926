"""Questions and calls: what is open, and how it is answered."""

from nachalnik.face.face import Face
from nachalnik.reports import (
    OutcomeQuestion,
    PendingCall,
    PermissionQuestion,
    UnansweredCall,
    open_questions,
)
from reducers.absorb.calls import unanswered
from reducers.machines import calls as calls_machine
from reducers.machines.calls import Call
from reducers.vocabulary.content import content_of
from reducers.vocabulary.errors import (
    InvalidInput,
)
from reducers.vocabulary.inputs import (
    DecidePermission,
    RetryOutcome,
    SettleOutcome,
)
from reducers.vocabulary.phases import Phase
from reducers.vocabulary.policies import Grant
from reducers.vocabulary.tools import ToolOutput


class QuestionsFace(Face):
    """Permissions, unknown outcomes, and the calls that wait."""

    def decide(
        self,
        id: int,
        grant: Grant,
        *,
        args: str = "",
        reason: str = "",
        by_rule: bool = False,
    ) -> Phase:
        """Answer one permission question. `args`, if given, is the digest that was shown.

        `by_rule`: no person answers but a rule of the program's, for where nobody can be asked; the
        log and the model are told so.

        Raises `AlreadyResolved` with how, `UnknownPermission` for what was never asked.
        """
        if grant not in ("allow", "deny"):
            raise InvalidInput(f"{grant!r} is no answer: use 'allow' or 'deny'")
        self._apply(DecidePermission(id, grant, args, reason, by_rule))
        return self.state()

    def pending_questions(self) -> list[PermissionQuestion | OutcomeQuestion]:
        """Every open decision, in order."""
        return open_questions(self._writer.state)

    def pending_permissions(self) -> list[PermissionQuestion]:
        return [one for one in self.pending_questions() if isinstance(one, PermissionQuestion)]

    def pending_calls(self) -> list[PendingCall]:
        """Every prepared call that has not run, answered or not, in the model's order."""
        calls = calls_machine.with_status(self._writer.state.calls, "prepared")
        return [_pending(call) for call in calls]

    def absent_calls(self) -> list[PendingCall]:
        """Those of them that are ready to run, and whose tool this process does not have."""
        with self._writer.lock:
            return [_pending(call) for call in self._interpreter.absent_calls()]

    def unanswered_calls(self) -> list[UnansweredCall]:
        """Calls without a result that nothing will answer by itself."""
        state = self._writer.state
        return [
            UnansweredCall(
                call.id,
                call.tool,
                call.args,
                f"{state.session.log}:{call.key}" if call.key else "",
                call.status == "running",
            )
            for call in unanswered(state)
        ]

    def retry(self, call: str) -> Phase:
        """Order a call whose outcome is unknown to be started again, under the same key."""
        self._apply(RetryOutcome(call))
        return self.state()

    def settle(self, call: str, output: object, is_error: bool = False) -> Phase:
        """Say how a call ended whose outcome is unknown."""
        given = (
            output if isinstance(output, ToolOutput) else ToolOutput(content_of(output), is_error)
        )
        self._apply(SettleOutcome(call, given))
        return self.state()

    def fail(self, call: str, text: str) -> Phase:
        return self.settle(call, text, is_error=True)


def _pending(call: Call) -> PendingCall:
    return PendingCall(call.id, call.tool, call.args, call.grant)
