"""Errors a caller of the kernel can meet. Only conditions that stop the loop; data never raises.

`step` raises those that log nothing; those that follow a recorded failure come back in
`Step.raised` and are raised by the face after the commit.
"""

from reducers.vocabulary.models import Overrun


class KernelError(Exception):
    """Base of every error the kernel raises on purpose."""


class Busy(KernelError):
    """The loop is working (or, for undo and redo, has a batch in hand); nothing was changed."""


class NoProvider(KernelError):
    def __init__(self) -> None:
        super().__init__("no provider is set: give the kernel one before it can ask a model")


class NoTool(KernelError):
    """A call is ready to run, and its tool is not in this process. Nothing was started."""

    def __init__(self, call: str, tool: str) -> None:
        self.call, self.tool = call, tool
        super().__init__(
            f"call {call!r} is ready to run, but this process has no tool {tool!r}: add it "
            "(`tools=` when the log is opened, `--tools`), or cancel the pending calls"
        )


class ProviderError(KernelError):
    """The provider did not answer. The original exception is the `__cause__`, where it is known."""


class TooLong(KernelError):
    """A request larger than the model's window: refused here, or by the provider."""

    def __init__(self, overrun: Overrun, said: str = "") -> None:
        self.overrun = overrun
        limit = "" if overrun.limit is None else f", over the model's limit of {overrun.limit}"
        text = f"the request is estimated at {overrun.tokens} tokens{limit}; it was not sent"
        self.said = said or text
        super().__init__(self.said)

    @staticmethod
    def of(error: BaseException | None) -> "TooLong | None":
        """The first `TooLong` in the chain of causes, or None."""
        seen: list[BaseException] = []
        while error is not None and all(error is not one for one in seen):
            if isinstance(error, TooLong):
                return error
            seen.append(error)
            error = error.__cause__ or error.__context__
        return None


class EmptyProjection(KernelError):
    def __init__(self) -> None:
        super().__init__("an empty request: nothing in the context is projected as a message")


class SeamFailed(KernelError):
    """A pure seam (projector, counter) raised or returned nonsense while a request was built."""


class UnknownItem(KernelError):
    def __init__(self, item: int) -> None:
        self.item = item
        super().__init__(f"there is no item {item} in this context")


class UnknownPermission(KernelError):
    def __init__(self, question: int | str, advice: str = "") -> None:
        self.question = question
        super().__init__(f"{advice or 'there is no open question'} {question}")


class AlreadyResolved(UnknownPermission):
    """A question that was answered before, or a call that has its result; `how` says more."""

    def __init__(self, subject: int | str, how: str) -> None:
        self.how = how
        what = "call" if isinstance(subject, str) else "question"
        super().__init__(subject, f"already resolved ({how}): {what}")


class UnknownCall(KernelError):
    def __init__(self, call: str, why: str = "is waiting for an outcome") -> None:
        self.call = call
        super().__init__(f"no call {call!r} {why}")


class StaleEffect(KernelError):
    """`work` was asked to render an effect from a state other than that of its commit."""


class Reentered(KernelError):
    """A callback that runs inside a commit called the same kernel; nothing was changed."""


class InvalidInput(KernelError):
    """An input whose words cannot be used as they are: says which, and what to give instead."""
