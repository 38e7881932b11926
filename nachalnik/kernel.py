"""`Kernel`: one session, driven by whoever awaits it; nothing in the background.

Sync methods return when their commit is written; `step` and `turn` when it is durable. Any thread
may read, edit and preview while a turn runs; driving the loop twice is `Busy`.
"""

import contextlib
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from effects.interpreter import Interpreter, Ports
from effects.logs.file import Durability, FileLog
from effects.logs.memory import MemoryLog
from effects.logs.port import EventLog, LogError, LogMissing
from effects.logs.scan import read_log
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
from effects.replay import initial_of, restore, states
from effects.writer import Writer, wall_clock
from nachalnik.reports import (
    Budget,
    OutcomeQuestion,
    PendingCall,
    PermissionQuestion,
    StateChange,
    UnansweredCall,
)
from nachalnik.subscriptions import Live, ModelDelta, Subscription, ToolProgress
from reducers.absorb.calls import unanswered
from reducers.announce import outstanding, work
from reducers.codec import Header, decode_header, encode_header
from reducers.linear import Projection
from reducers.machines import calls as calls_machine
from reducers.machines import context as context_machine
from reducers.machines import parts as parts_machine
from reducers.reducer import Projector, Reducer
from reducers.state import Commit, State, initial
from reducers.statecodec import FINGERPRINT, encode_state
from reducers.tokens import TokenCounter
from reducers.views import Record, records
from reducers.vocabulary.config import Config
from reducers.vocabulary.content import content_of
from reducers.vocabulary.effects import ReconcileOutcome
from reducers.vocabulary.errors import (
    EmptyProjection,
    InvalidInput,
    NoProvider,
)
from reducers.vocabulary.inputs import (
    AnnotateItem,
    CancelCalls,
    CancelTurn,
    DecidePermission,
    FinishSession,
    Input,
    InterruptTurn,
    PartsDescribed,
    PushItems,
    RecountItems,
    Redo,
    ReplaceContent,
    ReserveCalls,
    RetryOutcome,
    RunStep,
    RunTurn,
    SessionOpened,
    SetParams,
    SetState,
    SettleOutcome,
    SupersedeItem,
    Undo,
)
from reducers.vocabulary.items import STATES, ContextItem, ContextState
from reducers.vocabulary.json import NULL, Json, compact, object_problem
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import Delta, ModelInfo
from reducers.vocabulary.phases import Phase, name_of
from reducers.vocabulary.policies import Grant
from reducers.vocabulary.tools import ToolOutput, ToolSpec

MADE_BY = "nachalnik 0.1.0"
CACHE_EVERY = 256
"""Commits since the last state cache from which closing writes a new one."""

_nameless = itertools.count()


class Kernel:
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
        try:
            log = FileLog.open(path, durability, FINGERPRINT)
        except LogMissing:  # or one whose creation a crash cut short: it can be begun anew
            name = Path(path).name.removesuffix(".jsonl")
            if config is not None and config.session_name is not None:
                name = config.session_name
            header = Header(secrets.token_hex(8), name, None, MADE_BY)
            log = FileLog.create(path, encode_header(header), durability)
        try:
            kernel._continue(  # noqa: SLF001 - of this class
                log, config, provider, tools, policy, projector, counter, clock
            )
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
        cached = log.cached_position
        state = restore(log)
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
            opened["tools"] = _specs(self._ports.tools)
        if policy is not None:
            opened["policy"] = describe_policy(policy)
        self._apply(SessionOpened(**opened))
        if projector is not None and seam_of(projector) != state.session.seams.projector:
            self.set_projector(projector)
        if counter is not None and seam_of(counter) != state.session.seams.counter:
            self.set_counter(counter)

    def close(self) -> None:
        """Sync, leave a state cache where it pays, let the log go. A second call does nothing."""
        state = self._writer.state
        write_cache = getattr(self._log, "write_cache", None)
        is_due = state.position - self._cached_at >= CACHE_EVERY
        try:
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

    # -- observation -------------------------------------------------------------------------

    def subscribe(self, *, all: bool = False) -> Subscription:
        """A live receiver of every event from now on, with fragments; `all` adds bookkeeping."""
        subscription = Subscription(self.config.event_queue_depth, all, self._unsubscribe)
        with self._subscriptions_lock:
            self._subscriptions = [*self._subscriptions, subscription]
        return subscription

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._subscriptions_lock:
            self._subscriptions = [one for one in self._subscriptions if one is not subscription]

    def history(self, *, all: bool = False) -> list[Record]:
        """Every record, oldest first, those from before this opening included."""
        with self._writer.lock:
            self._catch_up()
            return [one for one in self._records if all or one.seq is not None]

    def history_since(self, seq: int, *, all: bool = False) -> list[Record]:
        """Records numbered higher than `seq`; with `all`, from the first of them on."""
        found = self.history(all=all)
        start = next((n for n, one in enumerate(found) if (one.seq or 0) > seq), len(found))
        return found[start:]

    def _catch_up(self) -> None:
        """Make the records of what was committed since they were last asked for."""
        now = self._writer.state.position
        values = self._values(self._told.position)
        for before, commit, after in states(self._told, values, self._log.content, until=now):
            self._records.extend(records(before, commit, after))
            self._told = after

    def _values(self, since: int) -> Iterator[bytes]:
        """The commits behind a position; of a closed log as well."""
        path = getattr(self._log, "path", None)
        if not self._is_closed or path is None:
            yield from self._log.values(since)
            return
        with read_log(path) as view:
            yield from itertools.islice((value for _, value in view.commits), since, None)

    def last_seq(self) -> int:
        return self._writer.state.last_seq

    def state_at(self, position: int) -> State:
        """The state as it was after the commit at `position`; 0 is before the first."""
        with self._writer.lock:
            now = self._writer.state
            if not 0 <= position <= now.position:
                raise InvalidInput(f"position {position} is not in 0..{now.position}")
            first = state = initial_of(decode_header(self._log.header))
            for _, _, after in states(first, self._values(0), self._log.content, until=position):
                state = after
            return state

    # -- parts -------------------------------------------------------------------------------

    def set_provider(self, provider: Provider) -> Provider | None:
        """Returns the previous one."""
        info = describe_model(provider)
        with self._writer.lock:
            previous = self._ports.provider
            self._apply(PartsDescribed(model=info, announce=True))
            self._ports.provider = provider
        return previous

    def clear_provider(self) -> Provider | None:
        with self._writer.lock:
            previous = self._ports.provider
            self._apply(PartsDescribed(model=None, announce=True))
            self._ports.provider = None
        return previous

    def provider_changed(self) -> bool:
        """Announce a provider that switched its model in place; False if it did not."""
        provider = self._ports.provider
        if provider is None:
            return False
        return bool(self._apply(PartsDescribed(model=describe_model(provider))))

    def provider(self) -> Provider | None:
        return self._ports.provider

    def model_info(self) -> ModelInfo | None:
        return parts_machine.model(self._writer.state.parts)

    def add_tool(self, tool: Tool) -> Tool | None:
        """Register a tool under its spec's id; returns the one it replaces."""
        name = describe_tool(tool).id
        with self._writer.lock:
            previous = self._ports.tools.get(name)
            self._set_tools({**self._ports.tools, name: tool})
        return previous

    def remove_tool(self, id: str) -> Tool | None:
        with self._writer.lock:
            previous = self._ports.tools.get(id)
            if previous is not None:
                rest = {name: tool for name, tool in self._ports.tools.items() if name != id}
                self._set_tools(rest)
        return previous

    def _set_tools(self, tools: dict[str, Tool]) -> None:
        with self._writer.lock:
            self._apply(PartsDescribed(tools=_specs(tools), announce=True))
            self._ports.tools = tools

    def tool(self, id: str) -> Tool | None:
        return self._ports.tools.get(id)

    def tool_ids(self) -> list[str]:
        """In the order they are offered to the model."""
        return sorted(self._ports.tools)

    def tool_specs(self) -> list[ToolSpec]:
        return list(_specs(self._ports.tools))

    def set_policy(self, policy: AnyPolicy) -> AnyPolicy | None:
        with self._writer.lock:
            previous = self.policy()
            self._apply(PartsDescribed(policy=describe_policy(policy), announce=True))
            self._ports.policy = policy
        return previous

    def policy(self) -> AnyPolicy | None:
        policy: AnyPolicy | None = self._ports.policy
        return policy

    def set_projector(self, projector: Projector) -> Projector:
        """The class must be importable by name, for the log to be judged again elsewhere."""
        with self._writer.lock:
            previous = self._writer.reducer.projector
            _check_seam(projector, "project")
            self._writer.seams[seam_of(projector)] = projector
            self._apply(PartsDescribed(projector=seam_of(projector), announce=True))
        return previous

    def projector(self) -> Projector:
        return self._writer.reducer.projector

    def set_counter(self, counter: TokenCounter) -> TokenCounter:
        """As `set_projector`; every item is measured anew."""
        with self._writer.lock:
            previous = self._writer.reducer.counter
            _check_seam(counter, "count_item", "count_message", "price")
            self._writer.seams[seam_of(counter)] = counter
            self._apply(PartsDescribed(counter=seam_of(counter), announce=True))
            self._apply(RecountItems())
        return previous

    def counter(self) -> TokenCounter:
        return self._writer.reducer.counter

    def set_params(self, params: dict[str, Any] | Json) -> dict[str, Any]:
        """Parameters sent with every request, verbatim; returns the previous ones."""
        text = Json(params) if isinstance(params, str) else compact(params)
        problem = object_problem(text)
        if problem is not None:
            raise InvalidInput(f"the parameters are not one JSON object: {problem}")
        previous = self.params()
        self._apply(SetParams(text))
        return previous

    def params(self) -> dict[str, Any]:
        import msgspec

        return msgspec.json.decode(self._writer.state.parts.params)  # type: ignore[no-any-return]

    def _describe_again(self) -> None:
        """Specs are asked for before the loop moves; what did not change is silence."""
        provider = self._ports.provider
        known = self._writer.state.parts
        changed: dict[str, Any] = {}
        if provider is not None:
            info = describe_model(provider)
            if info != known.model:
                changed["model"] = info
        specs = _specs(self._ports.tools)
        if specs != parts_machine.tools(known):
            changed["tools"] = specs
        if self._ports.policy is not None:
            policy = describe_policy(self._ports.policy)
            if policy != parts_machine.policy(known):
                changed["policy"] = policy
        if changed:
            self._apply(PartsDescribed(**changed))

    # -- the context -------------------------------------------------------------------------

    def push(self, item: ContextItem) -> int:
        """Add one item; returns its id."""
        return self.push_all([item])[0]

    def push_all(self, items: Iterable[ContextItem]) -> list[int]:
        """Add many as one operation, taken back by one undo; returns their ids."""
        given = tuple(items)
        for item in given:
            _check_item(item)
        if not given:
            return []
        with self._writer.lock:
            first = self._writer.state.context.next_id
            self._apply(PushItems(given))
            return list(range(first, self._writer.state.context.next_id))

    def supersede(self, old: int, item: ContextItem) -> int:
        """Add an item in place of an old one, which is kept as superseded. Raises `UnknownItem`."""
        _check_item(item)
        with self._writer.lock:
            id = self._writer.state.context.next_id
            self._apply(SupersedeItem(old, item))
            return id

    def set_state(
        self, ids: int | Iterable[int], state: ContextState, note: str | None = None
    ) -> StateChange:
        """Move items to a state; the note says why and replaces the one before."""
        if state not in STATES:
            raise InvalidInput(
                f"{state!r} is not a state of an item: use one of {', '.join(STATES)}"
            )
        named = (ids,) if isinstance(ids, int) else tuple(ids)
        with self._writer.lock:
            before = self._writer.state.context
            self._apply(SetState(named, state, note))
            after = self._writer.state.context
        changed: list[int] = []
        unchanged: list[int] = []
        unknown: list[int] = []
        for id in dict.fromkeys(named):
            old, new = context_machine.item(before, id), context_machine.item(after, id)
            bin_of = unknown if old is None else unchanged if old is new else changed
            bin_of.append(id)
        return StateChange(tuple(changed), tuple(unchanged), tuple(unknown))

    def exclude(self, *ids: int, note: str | None = None) -> StateChange:
        return self.set_state(ids, "excluded", note)

    def replace(self, id: int, content: object) -> None:
        """Overwrite an item's content. Raises `UnknownItem`."""
        self._apply(ReplaceContent(id, content_of(content)))

    def annotate(self, id: int, meta: object) -> None:
        """Replace an item's metadata, any JSON value. Raises `UnknownItem`."""
        self._apply(AnnotateItem(id, NULL if meta is None else compact(meta)))

    def undo(self) -> bool:
        """Take back the last operation; False where there is none. `Busy` unless it rests."""
        return self._apply(Undo())

    def redo(self) -> bool:
        return self._apply(Redo())

    def undo_len(self) -> int:
        return len(self._writer.state.context.undo)

    def redo_len(self) -> int:
        return len(self._writer.state.context.redo)

    def recount(self) -> None:
        """Measure every item with the counter and calibration in force."""
        self._apply(RecountItems())

    def items(self) -> list[ContextItem]:
        """Every item in any state, oldest first."""
        return list(context_machine.present(self._writer.state.context))

    def item(self, id: int) -> ContextItem | None:
        return context_machine.item(self._writer.state.context, id)

    def next_id(self) -> int:
        return self._writer.state.context.next_id

    def tokens(self) -> int:
        """Sum over the items that send their content."""
        return self._writer.state.context.tokens

    def tokens_withheld(self) -> int:
        return self._writer.state.context.withheld

    # -- previews ----------------------------------------------------------------------------

    def budget(self) -> Budget:
        def ask(state: State, reducer: Reducer) -> Budget:
            draw = reducer.draw(state)
            model = parts_machine.model(state.parts)
            limit = None if model is None else model.context_limit
            return Budget(
                draw.tokens, draw.tool_tokens, draw.uncounted, limit, state.requests.usage
            )

        return self._writer.read(ask)  # type: ignore[no-any-return]

    def project(self) -> Projection:
        return self._writer.read(lambda state, reducer: reducer.projection(state))  # type: ignore[no-any-return]

    def preview_request(self) -> ModelRequest:
        """What the next step would send. Raises `EmptyProjection`. Needs no provider."""
        request = self._writer.read(lambda state, reducer: reducer.draw(state).request)
        if not len(request.messages):
            raise EmptyProjection
        return request  # type: ignore[no-any-return]

    def preview_payload(self) -> Any:
        """The body the provider would send for it, or None if it cannot tell."""
        import msgspec

        provider = self._ports.provider
        if provider is None:
            raise NoProvider
        request = self.preview_request()
        render = getattr(provider, "render", None)
        body = None if render is None else render(request)
        return msgspec.json.decode(body) if isinstance(body, str) else body

    # -- the loop ----------------------------------------------------------------------------

    def state(self) -> Phase:
        return self._writer.state.loop.phase

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
        await self.recover()
        self._describe_again()
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
        return self._apply(CancelTurn(turn or 0, reason))

    def cancel_pending_calls(self, reason: str = "") -> int:
        """Answer the calls that wait as cancelled; returns how many. The turn stays open."""
        with self._writer.lock:
            before = len(calls_machine.unfinished(self._writer.state.calls))
            if not self._apply(CancelCalls(reason)):
                return 0
            return before - len(calls_machine.unfinished(self._writer.state.calls))

    # -- questions ---------------------------------------------------------------------------

    def decide(self, id: int, grant: Grant, *, args: str = "", reason: str = "") -> Phase:
        """Answer one permission question. `args`, if given, is the digest that was shown.

        Raises `AlreadyResolved` with how, `UnknownPermission` for what was never asked.
        """
        if grant not in ("allow", "deny"):
            raise InvalidInput(f"{grant!r} is no answer: use 'allow' or 'deny'")
        self._apply(DecidePermission(id, grant, args, reason))
        return self.state()

    def pending_questions(self) -> list[PermissionQuestion | OutcomeQuestion]:
        """Every open decision, in order."""
        state = self._writer.state
        found: list[PermissionQuestion | OutcomeQuestion] = []
        for question in state.questions.open:
            call = calls_machine.find(state.calls, question.call)
            tool, args = ("", "{}") if call is None else (call.tool, call.args)
            if question.kind == "outcome":
                found.append(OutcomeQuestion(question.id, question.call, tool, args))
            else:
                found.append(
                    PermissionQuestion(
                        question.id,
                        question.call,
                        tool,
                        question.capabilities,
                        args,
                        question.args,
                    )
                )
        return found

    def pending_permissions(self) -> list[PermissionQuestion]:
        return [one for one in self.pending_questions() if isinstance(one, PermissionQuestion)]

    def pending_calls(self) -> list[PendingCall]:
        """Every prepared call that has not run, answered or not, in the model's order."""
        calls = calls_machine.with_status(self._writer.state.calls, "prepared")
        return [PendingCall(call.id, call.tool, call.args, call.grant) for call in calls]

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

    # -- inside ------------------------------------------------------------------------------

    def _apply(self, input: Input) -> bool:
        """Commit an input; whether anything happened. Raises what its step raised."""
        applied = self._interpreter.apply(input)
        if applied.step.raised is not None:
            raise applied.step.raised
        return bool(applied.step.events)

    def _publish(self, before: State, commit: Commit, after: State) -> None:
        if not self._subscriptions:
            return
        made = records(before, commit, after)
        for subscription in self._subscriptions:
            for record in made:
                subscription.put(record)

    def _on_delta(self, effect: str, delta: Delta) -> None:
        self._emit(ModelDelta(effect, delta))

    def _on_output(self, call: str, tool: str, chunk: str) -> None:
        self._emit(ToolProgress(call, tool, chunk))

    def _emit(self, event: Live) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)


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


def _specs(tools: dict[str, Tool]) -> tuple[ToolSpec, ...]:
    specs = [describe_tool(tool) for tool in tools.values()]
    return tuple(sorted(specs, key=lambda spec: spec.id))


def _check_seam(seam: object, *methods: str) -> None:
    missing = [name for name in methods if not callable(getattr(seam, name, None))]
    if missing:
        raise InvalidInput(f"{type(seam).__name__} has no method {', '.join(missing)}")


def _check_item(item: object) -> None:
    if not isinstance(item, ContextItem):
        raise InvalidInput(
            f"{type(item).__name__} is not a context item: make one with ContextItem.user(...), "
            "ContextItem.file(...) or the like"
        )
