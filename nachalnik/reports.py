"""What a kernel answers when it is asked: small frozen values that print well."""

import attrs

from reducers.machines import calls as calls_machine
from reducers.state import State
from reducers.vocabulary.models import Usage


@attrs.frozen
class StateChange:
    """What became of each id an operation named."""

    changed: tuple[int, ...] = ()
    unchanged: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()

    def is_empty(self) -> bool:
        return not self.changed

    def __len__(self) -> int:
        return len(self.changed)


@attrs.frozen
class Budget:
    """What the next request would cost, in estimated tokens.

    `uncounted` pieces (pictures, sounds) have no price: with any, the figures are a floor.
    """

    context_tokens: int
    tool_tokens: int
    uncounted: int
    limit: int | None
    reported: Usage | None

    def used(self) -> int:
        return self.context_tokens + self.tool_tokens

    def fraction_used(self) -> float | None:
        """None where the limit is unknown or 0."""
        return self.used() / self.limit if self.limit else None

    def fully_counted(self) -> bool:
        return self.uncounted == 0


@attrs.frozen
class PermissionQuestion:
    """An open question about one call. Answer it with `kernel.decide(id, grant)`."""

    id: int
    call: str
    tool: str
    capabilities: tuple[str, ...]
    args: str
    """The exact text of the arguments."""
    args_digest: str


@attrs.frozen
class OutcomeQuestion:
    """A call that was started, its result unknown. Answer with `retry`, `settle` or `fail`."""

    id: int
    call: str
    tool: str
    args: str


def open_questions(state: State) -> list[PermissionQuestion | OutcomeQuestion]:
    """Every open decision, in order."""
    found: list[PermissionQuestion | OutcomeQuestion] = []
    for one in state.questions.open:
        call = calls_machine.find(state.calls, one.call)
        tool, args = ("", "{}") if call is None else (call.tool, call.args)
        if one.kind == "outcome":
            found.append(OutcomeQuestion(one.id, one.call, tool, args))
        else:
            found.append(
                PermissionQuestion(one.id, one.call, tool, one.capabilities, args, one.args)
            )
    return found


@attrs.frozen
class PendingCall:
    """A call that is prepared and has not run. `grant` is None while its question is open."""

    call: str
    tool: str
    args: str
    grant: str | None


@attrs.frozen
class UnansweredCall:
    """A call without a result that nothing will answer by itself. `was_started` or never begun."""

    call: str
    tool: str
    args: str
    key: str
    was_started: bool
