"""The loop workload: one long turn of many rounds, driven through `Kernel`.

A round is a reply that calls one tool and that call's 200-byte result. The policy is rules as data,
requests have no limit, nothing is pushed but the first message. The ids of calls have 29
characters, as providers give them.
"""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time

from effects.logs.file import Durability
from effects.ports import DeltaSink, OutputSink
from nachalnik import Config, ContextItem, Kernel, Rules
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse, Usage
from reducers.vocabulary.tools import ToolOutput, ToolSpec

RESULT_BYTES = 200
STAMP_START_MS = 1_764_540_000_000
STAMP_STEP_MS = 7
COMMITS_BEFORE = 6
"""Of a session before its first round: it opens, its three parts, the message, the request."""
COMMITS_A_ROUND = 2


class Caller:
    """A provider that asks for one call a round, `rounds` times, and then ends the turn.

    `stamps` holds what the clock said, in seconds, when the request of a round arrived: of the
    rounds in `marks`, of the first and of the one that ends the turn. The clock is the CPU time
    the process has used, unless another is given.
    """

    def __init__(
        self,
        rounds: int,
        marks: Iterable[int] = (),
        *,
        reports_usage: bool = False,
        clock: Callable[[], float] = process_time,
    ) -> None:
        self.rounds = rounds
        self.stamps: dict[int, float] = {}
        self._marks = {0, rounds, *marks}
        self._number = 0
        self._reports_usage = reports_usage
        self._clock = clock

    def info(self) -> ModelInfo:
        return ModelInfo("bench", "caller", tool_calling=True)

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        number = self._number
        self._number += 1
        if number in self._marks:
            self.stamps[number] = self._clock()
        usage = None
        if self._reports_usage:
            # What real ones report is near the estimate and never twice in the same proportion.
            usage = Usage(60 * len(request.messages) + number % 7, 20)
        if number == self.rounds:
            return ModelResponse.of_text("It is done.", usage)
        call = ToolCall(f"call_{number:024d}", "look", f'{{"place":"{number:08d}"}}')
        return ModelResponse(calls=(call,), stop="tool_use", usage=usage)

    def took(self, first: int = 0, last: int | None = None) -> float:
        """Seconds from the request of round `first` to that of round `last`."""
        return self.stamps[self.rounds if last is None else last] - self.stamps[first]


class Look:
    """A tool that answers at once."""

    def spec(self) -> ToolSpec:
        return ToolSpec("look", "Look at one place.")

    async def invoke(self, call: ToolCall, output: OutputSink) -> ToolOutput:
        return ToolOutput(Text(call.args.ljust(RESULT_BYTES, ".")))


def counting_clock() -> Callable[[], int]:
    """Stamps of one length, so that two runs of the workload write the same number of bytes."""
    return itertools.count(STAMP_START_MS, STAMP_STEP_MS).__next__


async def run(caller: Caller, path: Path | None = None, durability: Durability = "fsync") -> Kernel:
    """The kernel after the whole workload, in memory or on a log at `path`; not closed."""
    config = Config(session_name="bench", max_requests_per_turn=None)
    parts = {
        "config": config,
        "provider": caller,
        "tools": [Look()],
        "policy": Rules(allow=["look"]),
        "clock": counting_clock(),
    }
    kernel = Kernel(**parts) if path is None else Kernel.open(path, durability=durability, **parts)
    kernel.push(ContextItem.user("Look around."))
    await kernel.turn()
    assert caller.rounds in caller.stamps, "the turn ended early"
    return kernel


def lines_of(kernel: Kernel) -> list[bytes]:
    """Every line of a kernel in memory, the header's first."""
    return list(kernel._log.lines())
