"""The interpreter: take an input, commit it, carry out its effects, bring the answers in.

No policy, no retry and no ordering live here: they are the core's. One outstanding effect is awaited
in the caller's own task; a task group is opened only for several at once. The same core runs under
another scheduler by replacing this file.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from effects.handlers.model import call_model
from effects.handlers.policy import judge_call
from effects.handlers.tool import reconcile_outcome, run_tool
from effects.logs.port import LogError
from effects.ports import DeltaSink, OutputSink, Provider, Tool
from effects.writer import Applied, Writer
from reducers.announce import Work
from reducers.state import State
from reducers.vocabulary.effects import (
    CallModel,
    Effect,
    JudgeCall,
    ReconcileOutcome,
    RunTool,
    StopModel,
    StopTool,
)
from reducers.vocabulary.errors import ProviderError
from reducers.vocabulary.events import ToolFinished, ToolRequested
from reducers.vocabulary.inputs import DriverLeft, Input, ToolSettled
from reducers.vocabulary.models import Delta
from reducers.vocabulary.tools import ToolOutput

Works = tuple[tuple[Effect, Work], ...]


@attrs.define
class Ports:
    """The live parts of a session. The core knows them by their descriptions."""

    provider: Provider | None = None
    tools: dict[str, Tool] = attrs.Factory(dict)
    policy: Any = None
    on_delta: Callable[[str, Delta], None] | None = None
    on_output: Callable[[str, str, str], None] | None = None


@attrs.define
class _Running:
    scope: anyio.CancelScope
    thread: int
    token: object


class Interpreter:
    """Carries out the effects of one session."""

    def __init__(self, writer: Writer, ports: Ports) -> None:
        self.writer = writer
        self.ports = ports
        self._running: dict[str, _Running] = {}
        self._matched: dict[str, Tool | None] = {}

    # -- in ----------------------------------------------------------------------------------

    def apply(self, input: Input) -> Applied:
        """Commit one input; effects of the outside world stay with whoever drives the loop."""
        applied = self.writer.commit(input)
        self._keep_matches(applied)
        for notice in applied.notices:
            self._stop(notice)
        return applied

    async def drive(self, input: Input) -> State:
        """Commit an input and carry out what follows, until nothing of it is outstanding.

        What a step raised is raised after its commit. If this task is cancelled, or a handler
        has a fault, the core is told that its driver left.
        """
        applied = self.apply(input)
        try:
            if applied.works:
                await self._carry_out(applied.works)
            elif applied.step.raised is not None:
                raise applied.step.raised
        except BaseException:
            with contextlib.suppress(LogError):  # what is wrong with the log was raised already
                self.apply(DriverLeft())
            raise
        finally:
            self.writer.sync()
        return self.writer.state

    async def recover(self, works: Works) -> None:
        """Run what an opening announced: questions a tool may answer by itself."""
        for effect, work in works:
            await self._one(effect, work)
        self.writer.sync()

    # -- out ---------------------------------------------------------------------------------

    async def _carry_out(self, works: Works) -> None:
        token = anyio.lowlevel.current_token()
        thread = threading.get_ident()
        with anyio.CancelScope() as scope:  # a cancel of the turn ends here: it is closed already
            while works:
                if len(works) > 1:
                    works = await self._many(works, thread, token)
                    continue
                effect, work = works[0]
                self._running[effect.id] = _Running(scope, thread, token)
                try:
                    works = (await self._one(effect, work)).works
                finally:
                    self._running.pop(effect.id, None)
                # One that never waits must not keep the others from running.
                await anyio.lowlevel.checkpoint()

    async def _many(self, works: Works, thread: int, token: object) -> Works:
        """Several at once; each answer is committed as it comes. Returns what they announced."""
        raised: list[Exception] = []
        announced: list[tuple[Effect, Work]] = []

        async def run(effect: Effect, work: Work) -> None:
            with anyio.CancelScope() as scope:
                self._running[effect.id] = _Running(scope, thread, token)
                try:
                    announced.extend((await self._one(effect, work)).works)
                except Exception as error:
                    raised.append(error)
                    group.cancel_scope.cancel()
                finally:
                    self._running.pop(effect.id, None)

        async with anyio.create_task_group() as group:
            for each in works:
                group.start_soon(run, *each)
        if raised:
            raise raised[0]
        return tuple(announced)

    async def _one(self, effect: Effect, work: Work) -> Applied:
        """Carry out one effect; the log is synced before the world is touched."""
        self.writer.sync()
        input, cause = await self._answer(effect, work)
        applied = self.apply(input)
        raised = applied.step.raised
        if raised is not None:
            if isinstance(raised, ProviderError) and cause is not None:
                raise raised from cause
            raise cause or raised
        return applied

    async def _answer(self, effect: Effect, work: Any) -> tuple[Input, Exception | None]:
        ports = self.ports
        match effect:
            case CallModel():
                sink = DeltaSink(effect.id, ports.on_delta, self._is_interrupted)
                answer = await call_model(effect, work, ports.provider, sink)
                return answer.input, answer.cause
            case RunTool():
                call = work.call
                output = OutputSink(
                    call.id,
                    call.tool,
                    work.key,
                    work.attempt,
                    ports.on_output,
                    self._is_interrupted,
                    self._late(effect.id),
                )
                return await run_tool(effect, work, self._tool(call.id, call.tool), output), None
            case JudgeCall():
                tool = self._tool(work.call.id, work.call.tool)
                judgement = await judge_call(effect, work, tool, ports.policy)
                return judgement.input, judgement.cause
            case ReconcileOutcome():
                tool = self._tool(work.call.id, work.call.tool)
                return await reconcile_outcome(effect, work, tool), None
            case _:
                raise NotImplementedError(f"nothing carries out {type(effect).__name__} yet")

    def _is_interrupted(self) -> bool:
        return self.writer.state.loop.is_interrupted

    def _late(self, effect: str) -> Callable[[ToolOutput], None]:
        """For a run that nobody awaits any more: its answer still becomes a fact."""
        return lambda output: self._settle_late(effect, output)

    def _settle_late(self, effect: str, output: ToolOutput) -> None:
        self.apply(ToolSettled(effect, output))

    # -- which tool --------------------------------------------------------------------------

    def _keep_matches(self, applied: Applied) -> None:
        """A call stays with the tool object it was matched to, whatever is registered later."""
        for event in applied.step.events:
            if isinstance(event, ToolRequested):
                self._matched[event.call] = self.ports.tools.get(event.tool)
            elif isinstance(event, ToolFinished):
                self._matched.pop(event.call, None)

    def _tool(self, call: str, name: str) -> Tool | None:
        return self._matched.get(call) or self.ports.tools.get(name)

    # -- stopping ----------------------------------------------------------------------------

    def _stop(self, notice: StopModel | StopTool) -> None:
        target = notice.target if isinstance(notice, StopModel) else self._run_of(notice.call)
        running = self._running.get(target)
        if running is None:
            return
        if running.thread == threading.get_ident():
            running.scope.cancel()
        else:
            anyio.from_thread.run_sync(running.scope.cancel, token=running.token)  # type: ignore[arg-type]

    def _run_of(self, call: str) -> str:
        adrift = self.writer.state.calls.adrift
        return next((effect for effect, one in reversed(adrift) if one == call), "")
