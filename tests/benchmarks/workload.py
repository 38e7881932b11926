"""The loop workload: one long turn of many rounds, driven through `Kernel`.

A round is a reply that calls one tool and that call's 200-byte result. The policy is rules as data,
requests have no limit, nothing is pushed but the first message. The ids of calls have 29
characters, as providers give them.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from time import process_time as perf_counter

from effects.ports import DeltaSink, OutputSink
from nachalnik import Config, ContextItem, Kernel, Rules
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse, Usage
from reducers.vocabulary.tools import ToolOutput, ToolSpec

RESULT_BYTES = 200
STAMP_START_MS = 1_764_540_000_000
STAMP_STEP_MS = 7


class Caller:
    """A provider that asks for one call a round, `rounds` times, and then ends the turn.

    `stamps` holds the time at which each request arrived, in seconds.
    """

    def __init__(self, rounds: int, *, reports_usage: bool = False) -> None:
        self.rounds = rounds
        self.reports_usage = reports_usage
        self.stamps: list[float] = []

    def info(self) -> ModelInfo:
        return ModelInfo("bench", "caller", tool_calling=True)

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        number = len(self.stamps)
        self.stamps.append(perf_counter())
        usage = None
        if self.reports_usage:
            # What real ones report is near the estimate and never twice in the same proportion.
            usage = Usage(60 * len(request.messages) + number % 7, 20)
        if number == self.rounds:
            return ModelResponse.of_text("It is done.", usage)
        call = ToolCall(f"call_{number:024d}", "look", f'{{"place":"{number:08d}"}}')
        return ModelResponse(calls=(call,), stop="tool_use", usage=usage)


class Look:
    """A tool that answers at once."""

    def spec(self) -> ToolSpec:
        return ToolSpec("look", "Look at one place.")

    async def invoke(self, call: ToolCall, output: OutputSink) -> ToolOutput:
        return ToolOutput(Text(call.args.ljust(RESULT_BYTES, ".")))


def counting_clock() -> Callable[[], int]:
    """Stamps of one length, so that two runs of the workload write the same number of bytes."""
    return itertools.count(STAMP_START_MS, STAMP_STEP_MS).__next__


def kernel(caller: Caller, path: Path | None = None) -> Kernel:
    """A session that is ready to run the workload: in memory, or on a durable log at `path`."""
    config = Config(session_name="bench", max_requests_per_turn=None)
    parts = {
        "config": config,
        "provider": caller,
        "tools": [Look()],
        "policy": Rules(allow=["look"]),
        "clock": counting_clock(),
    }
    made = Kernel(**parts) if path is None else Kernel.open(path, **parts)
    made.push(ContextItem.user("Look around."))
    return made


async def run(caller: Caller, path: Path | None = None) -> Kernel:
    """The kernel after the whole workload, not closed. `caller.stamps` then has rounds + 1 times:
    round n lies between stamps n and n + 1."""
    made = kernel(caller, path)
    await made.turn()
    assert len(caller.stamps) == caller.rounds + 1, "the turn ended early"
    return made
