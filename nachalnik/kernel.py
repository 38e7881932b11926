"""`Kernel`: one session, driven by whoever awaits it; nothing in the background.

Sync methods return when their commit is written; `step` and `turn` when it is durable. Any thread
may read, edit and preview while a turn runs; driving the loop twice is `Busy`.
"""

import contextlib
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from effects.interpreter import Interpreter, Ports
from effects.logs.file import Durability, FileLog
from effects.logs.memory import MemoryLog
from effects.logs.port import EventLog, LogError, LogExists, LogMissing
from effects.parts import (
    AnyPolicy,
    SeamMissing,
    describe_model,
    describe_policy,
    describe_tool,
    load_counter,
    load_projector,
    seam_of,
    seams_of,
)
from effects.ports import Provider, Tool
from effects.replay import initial_of, restore
from effects.writer import Writer, wall_clock
from nachalnik import __version__
from nachalnik.face.context import ContextFace
from nachalnik.face.observation import Observation
from nachalnik.face.parts import PartsFace, specs_of
from nachalnik.face.questions import QuestionsFace
from nachalnik.subscriptions import Subscription
from reducers.announce import outstanding, work
from reducers.codec import Header, decode_header, encode_header
from reducers.machines import calls as calls_machine
from reducers.machines import parts as parts_machine
from reducers.reducer import Projector, Reducer
from reducers.state import State, initial
from reducers.statecodec import FINGERPRINT, encode_state
from reducers.tokens import TokenCounter
from reducers.views import Record
from reducers.vocabulary.config import Config
from reducers.vocabulary.effects import ReconcileOutcome
from reducers.vocabulary.errors import (
    InvalidInput,
    NoTool,
)
from reducers.vocabulary.inputs import (
    CancelCalls,
    CancelTurn,
    FinishSession,
    Input,
    InterruptTurn,
    ReserveCalls,
    RunStep,
    RunTurn,
    SessionOpened,
)
from reducers.vocabulary.phases import Phase, name_of
from reducers.vocabulary.text import mend

MADE_BY = f"nachalnik {__version__}"
CACHE_EVERY = 256
"""Commits since the last state cache from which closing writes a new one."""

_nameless = itertools.count()


class Kernel(Observation, PartsFace, ContextFace, QuestionsFace):
    """A session in memory. `Kernel.open(path)` is one on a durable log.

    `provider`, `tools` and `policy` can also be set later; without a policy everything is asked
    about.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        provider: Provider | None = None,
        tools: Iterable[Tool] = (),
        policy: AnyPolicy | None = None,
        projector: Projector | None = None,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        config = config or Config()
        name = str(next(_nameless)) if config.session_name is None else config.session_name
        header = Header(secrets.token_hex(8), name, None, MADE_BY)
        self._start(MemoryLog(encode_header(header)), projector, counter, clock)
        self._begin(config)
        self._install(provider, tools, policy)

    # -- construction ------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        provider: Provider | None = None,
        tools: Iterable[Tool] = (),
        policy: AnyPolicy | None = None,
        config: Config | None = None,
        projector: Projector | None = None,
        counter: TokenCounter | None = None,
        durability: Durability = "fsync",
        clock: Callable[[], int] = wall_clock,
    ) -> "Kernel":
        """Continue a log, or begin one where there is none. Nothing is lost by it, nothing started.

        A request that was in flight is given up; a call that had started is asked about. Raises
        `SessionOwned`, `LogDamaged`, `NotALog` and the other log errors; nothing is written then.
        """
        kernel = cls.__new__(cls)
        tools = list(_by_id(tools).values())
        try:
            log = FileLog.open(path, durability, FINGERPRINT)
        except LogMissing:  # or one whose creation a crash cut short: it can be begun anew
            name = Path(path).name.removesuffix(".jsonl")
            if config is not None and config.session_name is not None:
                name = config.session_name
            # A name of the system may hold bytes that are no text; the file keeps them.
            header = Header(secrets.token_hex(8), mend(name)[0], None, MADE_BY)
            try:
                log = FileLog.create(path, encode_header(header), durability)
            except LogExists:  # another opening has begun it since
                log = FileLog.open(path, durability, FINGERPRINT)
        try:
            kernel._continue(log, config, provider, tools, policy, projector, counter, clock)  # noqa: SLF001
        except BaseException:
            with contextlib.suppress(LogError):  # the error that counts is on its way
                log.close()
            raise
        return kernel

    def _start(
        self,
        log: EventLog,
        projector: Projector | None,
        counter: TokenCounter | None,
        clock: Callable[[], int],
        state: State | None = None,
        reducer: Reducer | None = None,
    ) -> None:
        header = decode_header(log.header)
        self._log = log
        self._ports = Ports(on_delta=self._on_delta, on_output=self._on_output)
        self._writer = Writer(
            log,
            state or initial(header.log, header.session),
            reducer or Reducer(projector, counter),
            self._publish,
            clock,
        )
        seams = self._writer.reducer
        self._writer.seams = {seam_of(seam): seam for seam in (seams.projector, seams.counter)}
        self._interpreter = Interpreter(self._writer, self._ports)
        self._subscriptions: list[Subscription] = []
        self._records: list[Record] = []
        self._told = initial_of(header)
        """The state up to which there are records: they are made when somebody asks for them."""
        self._is_closed = False
        self._cached_at = self._writer.state.position
        self._subscriptions_lock = threading.Lock()

    def _begin(self, config: Config) -> None:
        reducer = self._writer.reducer
        seams = seams_of(reducer.projector, reducer.counter)
        self._apply(SessionOpened(config=config, seams=seams))

    def _install(
        self, provider: Provider | None, tools: Iterable[Tool], policy: AnyPolicy | None
    ) -> None:
        if provider is not None:
            self.set_provider(provider)
        given = _by_id(tools)
        if given:
            self._set_tools(given)
        if policy is not None:
            self.set_policy(policy)

    def _continue(
        self,
        log: FileLog,
        config: Config | None,
        provider: Provider | None,
        tools: Iterable[Tool],
        policy: AnyPolicy | None,
        projector: Projector | None,
        counter: TokenCounter | None,
        clock: Callable[[], int],
    ) -> None:
        state = restore(log)
        cached = log.cached_position  # 0 where the state in the cache was of no use
        if state.position == 0:
            self._start(log, projector, counter, clock, state)
            self._begin(config or Config())
            self._install(provider, tools, policy)
            return
        known = {seam_of(seam): seam for seam in (projector, counter) if seam is not None}
        reducer = _reducer_of(state, known, projector, counter)
        self._start(log, None, None, clock, state, reducer)
        self._cached_at = cached
        self._writer.seams.update(known)
        given = _by_id(tools)
        self._ports.provider = provider
        self._ports.tools = given
        self._ports.policy = policy
        opened: dict[str, Any] = {}
        if config is not None:
            opened["config"] = config
        if provider is not None:
            opened["model"] = describe_model(provider)
        if given:
            opened["tools"] = specs_of(self._ports.tools)
        if policy is not None:
            opened["policy"] = describe_policy(policy)
        self._apply(SessionOpened(**opened))
        if projector is not None and seam_of(projector) != state.session.seams.projector:
            self.set_projector(projector)
        if counter is not None and seam_of(counter) != state.session.seams.counter:
            self.set_counter(counter)

    def close(self) -> None:
        """Sync, leave a state cache where it pays, let the log go. A second call does nothing."""
        write_cache = getattr(self._log, "write_cache", None)
        try:
            if not self._is_closed:
                self._interpreter.settle_debts()
            state = self._writer.state
            is_due = state.position - self._cached_at >= CACHE_EVERY
            # A state that an interruption left behind its log is not that of its last commit.
            if write_cache is not None and is_due and state.position == self._log.position:
                write_cache(encode_state(state), FINGERPRINT)
                self._cached_at = state.position
            self._log.close()
        finally:
            self._is_closed = True
            for subscription in list(self._subscriptions):
                subscription.close()

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self._writer.state
        model = parts_machine.model(state.parts)
        tools = ", ".join(self.tool_ids())
        return (
            f"Kernel(session={state.session.name!r}, state={name_of(state.loop.phase)}, "
            f"model={model and str(model)}, tools=[{tools}], items={state.context.count}, "
            f"tokens={state.context.tokens})"
        )

    # -- the session -------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        return self._writer.state.session.config

    @property
    def position(self) -> int:
        """Of the last commit."""
        return self._writer.state.position

    @property
    def log_id(self) -> str:
        return self._writer.state.session.log

    def session_name(self) -> str:
        return self._writer.state.session.name

    def finish(self) -> None:
        """Mark the end in the log. Not a shutdown: the kernel stays usable."""
        self._apply(FinishSession())

    def reserve_calls(self, ids: Iterable[str]) -> int:
        """Mark tool call ids as used, for ever; returns how many were new."""
        with self._writer.lock:
            before = len(self._writer.state.calls.seen)
            # Sorted, since a set may be given, and its order differs from run to run.
            self._apply(ReserveCalls(tuple(sorted(ids))))
            return len(self._writer.state.calls.seen) - before

    # -- the loop ----------------------------------------------------------------------------

    def turn_number(self) -> int:
        """Of the open turn, or of the last one; 0 before the first."""
        return self._writer.state.loop.turn

    def is_turn_open(self) -> bool:
        """Whether that turn is not at its end, so that `turn` would go on with it."""
        return self._writer.state.loop.is_open

    async def step(self) -> Phase:
        """One transition; returns the state it produced."""
        return await self._drive(RunStep())

    async def turn(self) -> Phase:
        """Step until it is somebody else's move; returns the state it stopped in."""
        return await self._drive(RunTurn())

    async def _drive(self, input: Input) -> Phase:
        before = self._writer.state.loop
        await self.recover()
        after = self._writer.state.loop
        if before.is_open and (after.turn, after.is_open) != (before.turn, True):
            return self.state()  # cancelled while a tool was asked how its run had ended
        self._describe_again()
        absent = self.absent_calls()
        if absent and not self.is_interrupted():  # an interrupt comes first, and starts nothing
            raise NoTool(absent[0].call, absent[0].tool)
        return await self._interpreter.drive(input)

    async def recover(self) -> None:
        """After an opening, ask the tools that can tell how their interrupted runs ended."""
        with self._writer.lock:
            state = self._writer.state
            owed = [one for one in outstanding(state) if isinstance(one, ReconcileOutcome)]
            owed = [one for one in owed if self._can_tell(state, one.call)]
            works = tuple((one, work(state, one)) for one in owed)
        if works:
            await self._interpreter.recover(works)

    def _can_tell(self, state: State, name: str) -> bool:
        call = calls_machine.find(state.calls, name)
        tool = None if call is None else self._ports.tools.get(call.tool)
        return hasattr(tool, "reconcile")

    def interrupt(self) -> bool:
        """Ask the turn to rest before its next transition; True if that was asked already."""
        return not self._apply(InterruptTurn())

    def is_interrupted(self) -> bool:
        return self._writer.state.loop.is_interrupted

    def cancel(self, turn: int | None = None, reason: str = "") -> bool:
        """Close the open turn as cancelled; False if nothing is in flight under that number."""
        if turn is not None and turn < 1:
            raise InvalidInput(f"{turn} is not the number of a turn: they are counted from 1")
        return self._apply(CancelTurn(turn or 0, reason))

    def cancel_pending_calls(self, reason: str = "") -> int:
        """Answer the calls that wait as cancelled; returns how many. The turn stays open."""
        with self._writer.lock:
            before = len(calls_machine.unfinished(self._writer.state.calls))
            if not self._apply(CancelCalls(reason)):
                return 0
            return before - len(calls_machine.unfinished(self._writer.state.calls))


def _reducer_of(
    state: State,
    known: dict[str, Any],
    projector: Projector | None,
    counter: TokenCounter | None,
) -> Reducer:
    """The seams the log names; where one cannot be loaded, what this process gives in its place."""

    def seam(text: str, load: Callable[[str], Any], given: Any) -> Any:
        if text in known:
            return known[text]
        try:
            return load(text)
        except SeamMissing:
            if given is None:
                raise
            return given

    seams = state.session.seams
    return Reducer(
        seam(seams.projector, load_projector, projector), seam(seams.counter, load_counter, counter)
    )


def _by_id(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        name = describe_tool(tool).id
        if name in found:
            raise InvalidInput(f"two tools are named {name!r}: give one of them another id")
        found[name] = tool
    return found
