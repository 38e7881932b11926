"""The interpreter: take an input, commit it, carry out its effects, bring the answers in.

No policy, no retry and no ordering live here: they are the core's. One outstanding effect is
awaited in the caller's own task; a task group is opened only for several at once. The same core
runs under another scheduler by replacing this file.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from effects.border import NotRecordable
from effects.debts import Debts
from effects.handlers.model import call_model, failed
from effects.handlers.policy import judge_call, not_judged
from effects.handlers.tool import reconcile_outcome, run_tool, unrecordable
from effects.ports import DeltaSink, OutputSink, Provider, Tool
from effects.raised import leaf
from effects.writer import Applied, Writer
from reducers.announce import Work, outstanding
from reducers.machines import calls as calls_machine
from reducers.machines.calls import Call
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
from reducers.vocabulary.inputs import (
    CancelTurn,
    Input,
    OutcomeReconciled,
    ToolSettled,
)
from reducers.vocabulary.models import Delta
from reducers.vocabulary.phases import Idle, Phase, Ready, is_busy

IDLE = Idle()
SHARE_S = 0.001
"""Longest time in which others in the event loop get no turn, but for one answer that takes longer:
a pass of the loop costs a fiftieth of a round."""
Works = tuple[tuple[Effect, Work], ...]
Answer = tuple[Input, Exception | SystemExit | None]
"""What settles an effect, and the exception behind a failure, for the caller."""


@attrs.define
class Ports:
    """The live parts of a session. The core knows them by their descriptions."""

    provider: Provider | None = None
    tools: dict[str, Tool] = attrs.Factory(dict)
    policy: Any = None
    on_delta: Callable[[str, Delta], None] | None = None
    on_output: Callable[[str, str, str], None] | None = None


@attrs.define(eq=False)
class _Drive:
    """One caller who awaits the loop, and where its own last commit left it."""

    phase: Phase = IDLE
    is_over: bool = False


@attrs.define(eq=False)
class _Running:
    """An effect under way: what ends its wait, in whose loop, and where it shows its progress."""

    scope: anyio.CancelScope
    thread: int = attrs.Factory(threading.get_ident)
    token: object = attrs.Factory(anyio.lowlevel.current_token)
    sink: DeltaSink | OutputSink | None = None

    def stop(self) -> None:
        if self.sink is not None:
            self.sink.abandon()
        if self.thread == threading.get_ident():
            self.scope.cancel()
        else:
            soon(self.token, self.scope.cancel)


def soon(token: object, call: Callable[[], object]) -> None:
    """Have another thread's loop make a call, without waiting for it; nothing if it has ended."""
    native: Any = getattr(token, "native_token", token)
    with contextlib.suppress(RuntimeError):
        (getattr(native, "run_sync_soon", None) or native.call_soon_threadsafe)(call)


class Interpreter:
    """Carries out the effects of one session."""

    def __init__(self, writer: Writer, ports: Ports) -> None:
        self.writer = writer
        self.ports = ports
        self._running: dict[str, _Running] = {}
        self._matched: dict[str, Tool | None] = {}
        self._asked: dict[str, Any] = {}
        """The provider or policy an effect was announced for, by its id."""
        self._driver: _Drive | None = None
        self._debts = Debts(self._commit)

    # -- in ----------------------------------------------------------------------------------

    def apply(self, input: Input) -> Applied:
        """Commit one input; effects of the outside world stay with whoever drives the loop."""
        with self.writer.lock:
            if self._debts.owed:
                self._debts.pay()
            asked = self._asked_of_code() if isinstance(input, CancelTurn) else ()
            applied = self._commit(input)
        for notice in applied.notices:
            self._stop(self._target(notice))
        if applied.step.events:
            for effect in asked:
                self._stop(effect)
        return applied

    def _commit(self, input: Input) -> Applied:
        applied = self.writer.commit(input)
        self._keep_parts(applied)
        return applied

    async def drive(self, input: Input) -> Phase:
        """Commit an input and carry out what follows, until nothing of it is outstanding.

        Returns the state in which the loop then rests. What a step raised is raised after its
        commit. If this task is cancelled, or a handler has a fault, the core is told that its
        driver left.
        """
        drive = _Drive()
        try:
            with self.writer.lock:
                self._leave(drive)  # for one that was interrupted while it left
                applied = self.apply(input)
                self._driver = drive
            drive.phase = applied.step.state.loop.phase
            if applied.fault is not None:
                raise applied.fault
            if applied.step.raised is not None and not applied.works:
                raise applied.step.raised
            await self._carry_out(drive, applied.works)
        finally:
            try:
                self._leave(drive)
            finally:
                drive.is_over = True
            self.writer.sync()
        # A turn that was cancelled from elsewhere left this drive in the middle.
        return IDLE if is_busy(drive.phase) else drive.phase

    def _leave(self, drive: _Drive) -> None:
        """Give the loop up. A refused driver has none to give up: another's is left alone."""
        with self.writer.lock:
            other = self._driver
            if other is not None and other is not drive and not other.is_over:
                return
            self._driver = None
            self._asked.clear()
            self._debts.leave(is_busy(self.writer.state.loop.phase))

    def settle_debts(self) -> None:
        """Commit what the log did not take before, if it takes it now: the last chance."""
        with self.writer.lock:
            self._debts.try_to_pay()

    async def recover(self, works: Works) -> None:
        """Run what an opening announced: questions a tool may answer by itself. What another
        driver asks already is left to it."""
        drive = _Drive()
        for effect, work in works:
            if effect.id in self._running:
                continue
            with anyio.CancelScope() as scope:
                self._running[effect.id] = _Running(scope)
                try:
                    await self._one(drive, effect, work)
                finally:
                    self._running.pop(effect.id, None)
        self.writer.sync()

    # -- out ---------------------------------------------------------------------------------

    async def _carry_out(self, drive: _Drive, works: Works) -> None:
        running = self._running
        with anyio.CancelScope() as scope:  # a cancel of the turn ends here: it is closed already
            alone = _Running(scope)
            shared_at = time.monotonic()
            while works:
                if len(works) > 1:
                    works = await self._many(drive, works)
                    continue
                effect, work = works[0]
                running[effect.id] = alone
                alone.sink = None
                try:
                    works = await self._one(drive, effect, work)
                finally:
                    running.pop(effect.id, None)
                if type(effect) is CallModel and time.monotonic() - shared_at >= SHARE_S:
                    # A provider and tools that never wait must not keep the others from running.
                    await anyio.lowlevel.checkpoint()
                    shared_at = time.monotonic()
                else:  # a driver that was cancelled meanwhile starts nothing more
                    await anyio.lowlevel.checkpoint_if_cancelled()
        if scope.cancel_called:
            drive.phase = IDLE

    async def _many(self, drive: _Drive, works: Works) -> Works:
        """Several at once; each answer is committed as it comes. Returns what they announced."""
        raised: list[BaseException] = []
        announced: list[tuple[Effect, Work]] = []

        async def run(effect: Effect, work: Work) -> None:
            with anyio.CancelScope() as scope:
                self._running[effect.id] = _Running(scope)
                try:
                    announced.extend(await self._one(drive, effect, work))
                except (anyio.get_cancelled_exc_class(), GeneratorExit):
                    raise
                except BaseException as error:  # raised below: a group would wrap it
                    raised.append(error)
                    group.cancel_scope.cancel()
                finally:
                    self._running.pop(effect.id, None)
            if scope.cancel_called:
                drive.phase = IDLE

        try:
            async with anyio.create_task_group() as group:
                for each in works:
                    group.start_soon(run, *each)
        except BaseExceptionGroup as errors:  # of an interruption between two lines above
            raise leaf(errors) from None
        if raised:
            raise raised[0]
        return tuple(announced)

    async def _one(self, drive: _Drive, effect: Effect, work: Work) -> Works:
        """Carry out one effect; the log is synced before the world is touched."""
        if type(effect) is CallModel or type(effect) is RunTool:
            self.writer.sync()
        if not self._is_owed(effect.id):
            return ()  # given up before it began, or while the disk was waited for
        input, cause = await self._answer(effect, work)
        try:
            applied = self._settle(input)
        except NotRecordable as problem:
            input, cause = _unrecordable(effect, problem)
            applied = self._settle(input)
        drive.phase = applied.step.state.loop.phase
        raised = applied.step.raised or applied.fault
        if isinstance(raised, ProviderError) and cause is not None:
            raise raised from cause
        if raised is not None:
            raise cause or raised
        return applied.works

    def _settle(self, input: Input) -> Applied:
        try:
            return self.apply(input)
        except NotRecordable:
            raise
        except BaseException:
            # The tool has run, whatever comes between: its answer is committed when its driver has
            # left, and is silence if it was written after all.
            if isinstance(input, ToolSettled):
                with self.writer.lock:
                    self._debts.keep(input)
            raise

    async def _answer(self, effect: Effect, work: Any) -> Answer:
        match effect:
            case CallModel():
                deltas = DeltaSink(effect.id, self.ports.on_delta, self._is_interrupted)
                self._show(effect, deltas)
                provider = self._asked.pop(effect.id, None)
                answer = await call_model(effect, work, provider, deltas)
                return answer.input, answer.cause
            case RunTool():
                call = work.call
                output = self._output(effect, work)
                self._show(effect, output)
                return await run_tool(effect, work, self._tool(call.id, call.tool), output), None
            case JudgeCall():
                tool = self._tool(work.call.id, work.call.tool)
                policy = self._asked.pop(effect.id, None)
                judgement = await judge_call(effect, work, tool, policy)
                return judgement.input, judgement.cause
            case ReconcileOutcome():
                tool = self._tool(work.call.id, work.call.tool)
                return await reconcile_outcome(effect, work, tool), None
            case _:
                raise NotImplementedError(f"nothing carries out {type(effect).__name__} yet")

    def _output(self, effect: RunTool, work: Any) -> OutputSink:
        return OutputSink(
            work.call.id,
            work.call.tool,
            work.key,
            work.attempt,
            push=self.ports.on_output,
            is_interrupted=self._is_interrupted,
            late=lambda output, mended: self._settle_late(
                ToolSettled(effect.id, output, mended=mended)
            ),
        )

    def _show(self, effect: Effect, sink: DeltaSink | OutputSink) -> None:
        running = self._running.get(effect.id)
        if running is not None:
            running.sink = sink

    def _is_interrupted(self) -> bool:
        return self.writer.state.loop.is_interrupted

    def _is_owed(self, effect: str) -> bool:
        state = self.writer.state
        if effect == state.requests.in_flight:
            return True
        run = calls_machine.of_effect(state.calls, effect)
        if run is not None:
            return run.status in ("running", "judging")
        return effect in [one.id for one in outstanding(state)]

    def _settle_late(self, input: ToolSettled) -> None:
        """For a run that nobody awaits any more: its answer still becomes a fact, but not before
        its driver, who is about to leave, has left."""
        with self.writer.lock:
            if self._driver is not None and self._is_owed(input.effect):
                self._debts.keep(input)
            else:
                self._debts.owe(input)

    # -- which part --------------------------------------------------------------------------

    def _keep_parts(self, applied: Applied) -> None:
        """An effect stays with the objects it was announced for, whatever is set meanwhile."""
        for event in applied.step.events:
            kind = type(event)
            if kind is ToolRequested:
                self._matched[event.call] = self.ports.tools.get(event.tool)  # type: ignore[union-attr]
            elif kind is ToolFinished:
                self._matched.pop(event.call, None)  # type: ignore[union-attr]
        for effect, _ in applied.works:
            if isinstance(effect, CallModel):
                self._asked[effect.id] = self.ports.provider
            elif isinstance(effect, JudgeCall):
                self._asked[effect.id] = self.ports.policy

    def absent_calls(self) -> tuple[Call, ...]:
        """Permitted calls that are ready and whose tool this process does not have: an earlier one
        had it. Started, they could only be answered with an error, and be lost."""
        state = self.writer.state
        if not isinstance(state.loop.phase, Ready):
            return ()
        due = calls_machine.with_status(state.calls, "prepared")
        return tuple(
            call for call in due if call.grant == "allow" and self._tool(call.id, call.tool) is None
        )

    def _tool(self, call: str, name: str) -> Tool | None:
        matched = self._matched.get(call)
        return self.ports.tools.get(name) if matched is None else matched

    # -- stopping ----------------------------------------------------------------------------

    def _stop(self, effect: str) -> None:
        running = self._running.get(effect)
        if running is not None:
            running.stop()

    def _target(self, notice: StopModel | StopTool) -> str:
        if isinstance(notice, StopModel):
            return notice.target
        adrift = self.writer.state.calls.adrift
        return next((effect for effect, call in reversed(adrift) if call == notice.call), "")

    def _asked_of_code(self) -> tuple[str, ...]:
        """Judgements and reconciliations under way: a cancel ends them, and they have no notice."""
        owed = outstanding(self.writer.state)
        return tuple(one.id for one in owed if isinstance(one, JudgeCall | ReconcileOutcome))


def _unrecordable(effect: Effect, problem: NotRecordable) -> Answer:
    """What stands for an answer that no log can hold. The world has answered; this says how."""
    match effect:
        case CallModel():
            answer = failed(effect, problem)
            return answer.input, answer.cause
        case RunTool():
            return ToolSettled(effect.id, unrecordable(problem)), None
        case JudgeCall():
            judgement = not_judged(effect, problem)
            return judgement.input, judgement.cause
        case _:
            return OutcomeReconciled(effect.id), None
