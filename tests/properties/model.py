"""What must happen: the loop of kernel.md 2 told once more, plainly and with nothing clever.

The model keeps whole lists where the core keeps edits, and walks through the batch where the core
has rules. For each input it says the trace of the commit that must come (in the words of
`tests.reducers.driving`), or the refusal; and it knows the items, the questions and the effects
that must then be there. It never looks at the core's state.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from reducers import Effect, wording
from reducers.linear import LinearProjector
from reducers.vocabulary.config import Config
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.effects import CallModel, JudgeCall, ReconcileOutcome, RunTool
from reducers.vocabulary.errors import (
    AlreadyResolved,
    Busy,
    InvalidInput,
    NoProvider,
    UnknownCall,
    UnknownItem,
    UnknownPermission,
)
from reducers.vocabulary.items import AssistantMessage, ContextItem, ToolResult
from reducers.vocabulary.json import Json
from reducers.vocabulary.tools import ToolSpec

Items = dict[int, ContextItem]
Words = list[str]

TOOLS = {
    "add": ToolSpec("add", "Add."),
    "note": ToolSpec("note", "Note.", capabilities=("fs:write",)),
    "safe": ToolSpec("safe", "Safe.", idempotent=True),
    "tells": ToolSpec("tells", "Tells.", reconciles=True, judged=True),
}
MALFORMED = {"[1]": "it is a list, not an object"}

VERDICTS = {
    "all": dict.fromkeys(TOOLS, "allow"),
    "some": {"add": "allow", "safe": "allow", "note": "ask", "tells": "deny"},
    "code": dict.fromkeys(TOOLS, "ask"),
    "none": dict.fromkeys(TOOLS, "ask"),
}
"""What each policy says by itself. `code` says nothing, and without one people are asked."""


@dataclass
class Point:
    """An undo point: the whole list as it was."""

    items: Items
    commit: int


@dataclass
class Pending:
    """A call of the last reply."""

    id: str
    tool: str
    args: str
    status: str = "proposed"
    known: bool = False
    effect: str = ""
    attempt: int = 0
    verdict: str | None = None
    why: str = ""
    grant: str | None = None
    source: str = ""
    question: int = 0
    held: tuple[Text, bool, bool] | None = None
    """Text, whether an error, whether a crash."""


@dataclass
class Question:
    id: int
    kind: str
    call: str
    effect: str = ""


@dataclass
class Model:
    config: Config
    policy: str
    position: int = 0
    items: Items = field(default_factory=dict)
    next_item: int = 1
    undo: list[Point] = field(default_factory=list)
    redo: list[tuple[Point, Items]] = field(default_factory=list)
    loop_point: Point | None = None
    phase: str = "idle"
    drive: str = ""
    flag: bool = False
    turn: int = 0
    is_open: bool = False
    requests: int = 0
    in_flight: str = ""
    finished_on: int = 0
    calls: list[Pending] = field(default_factory=list)
    execution: list[str] = field(default_factory=list)
    has_results: bool = False
    seen: set[str] = field(default_factory=set)
    adrift: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    resolved: set[int] = field(default_factory=set)
    next_question: int = 1
    known_model: bool = True
    tools: tuple[str, ...] = tuple(TOOLS)
    here: set[str] = field(default_factory=lambda: {"model", "tools", "policy"})
    opening: bool = False
    words: Words = field(default_factory=list)
    announced: int = 0

    # -- saying ----------------------------------------------------------------------------------

    def begin(self) -> None:
        self.words, self.announced, self.opening = [], 0, False

    def end(self) -> Words:
        if self.words:
            self.position += 1
        return self.words

    def say(self, words: str) -> None:
        self.words.append(words)

    def announce(self) -> str:
        self.announced += 1
        return f"{self.position + 1}.{self.announced - 1}"

    # -- the list and the way back ---------------------------------------------------------------

    def point(self, mode: str, by_loop: bool) -> None:
        """Before a change: open a point, or join the one it belongs to."""
        here = self.position + 1
        if mode == "j":
            if self.undo and self.undo[-1].commit == here:
                return
            if self.loop_point is not None:
                found = [one is self.loop_point for one in self.undo]
                self.undo = self.undo[: found.index(True) + 1] if any(found) else []
                return
        opened = Point(dict(self.items), here)
        self.undo = [*self.undo, opened][-self.config.context_undo_depth :]
        if not self.config.context_undo_depth:
            self.undo = []
        self.redo = []
        if by_loop:
            self.loop_point = opened

    def add(self, item: ContextItem, mode: str, by_loop: bool) -> int:
        self.point(mode, by_loop)
        id, self.next_item = self.next_item, self.next_item + 1
        self.items[id] = priced(replace(item, id=id))
        self.say(f"context.added {id} {mode}")
        if item.state != "active":
            self.say(f"context.changed {id}>{item.state} j")
        return id

    # -- edits by the owner of the context -------------------------------------------------------

    def push(self, items: list[ContextItem]) -> None:
        for n, item in enumerate(items):
            self.add(item, "j" if n else "o", False)

    def supersede(self, old: int, item: ContextItem) -> type[Exception] | None:
        if old not in self.items:
            return UnknownItem
        id = self.add(item, "o", False)
        note = f"superseded by item {id}"
        self.items[old] = replace(self.items[old], state="superseded", note=note)
        self.say(f"context.changed {old}>superseded j")
        return None

    def set_state(self, ids: list[int], state: str, note: str | None) -> None:
        mode = "o"
        for id in dict.fromkeys(ids):
            item = self.items.get(id)
            if item is None or (item.state, item.note) == (state, note):
                continue
            self.point(mode, False)
            self.items[id] = replace(item, state=state, note=note)
            self.say(f"context.changed {id}>{state} {mode}")
            mode = "j"

    def replace(self, id: int, text: str) -> type[Exception] | None:
        if id not in self.items:
            return UnknownItem
        if self.items[id].content != Text(text):
            self.point("o", False)
            self.items[id] = priced(replace(self.items[id], content=Text(text)))
            self.say(f"context.replaced {id} o")
        return None

    def annotate(self, id: int, meta: Json) -> type[Exception] | None:
        if id not in self.items:
            return UnknownItem
        if self.items[id].meta != meta:
            self.items[id] = replace(self.items[id], meta=meta)
            self.redo = []
            self.say(f"context.annotated {id}")
        return None

    def take_back(self) -> type[Exception] | None:
        if self.phase not in ("idle", "finished"):
            return Busy
        if self.undo:
            point = self.undo.pop()
            self.redo = [*self.redo, (point, self.items)][-self.config.context_undo_depth :]
            if point is self.loop_point:
                self.loop_point = None
            self._exchange("undone", dict(point.items))
        return None

    def do_again(self) -> type[Exception] | None:
        if self.phase not in ("idle", "finished"):
            return Busy
        if self.redo:
            point, items = self.redo.pop()
            self.undo = [*self.undo, point][-self.config.context_undo_depth :]
            self._exchange("redone", items)
        return None

    def _exchange(self, how: str, items: Items) -> None:
        before, self.items = self.items, items
        moved = before.keys() - items.keys() if how == "undone" else items.keys() - before.keys()
        changed = [id for id in items if id in before and items[id] != before[id]]
        self.say(f"context.{how} {sorted(moved)} {sorted(changed)}")
        if self.phase == "finished" and self.finished_on not in items:
            self.enter("idle")

    def recount(self) -> None:
        self.say(f"context.recounted {self.tokens()}>{self.tokens()}")

    def tokens(self) -> int:
        return sum(one.tokens for one in self.items.values() if one.state in ("active", "pinned"))

    def reserve(self, ids: list[str]) -> None:
        new = [id for id in dict.fromkeys(ids) if id not in self.seen]
        self.seen |= set(new)
        if new:
            self.say(f"tool.reserved {len(new)}")

    # -- phases ----------------------------------------------------------------------------------

    def enter(self, phase: str, ends: bool = False, drive: str = "turn") -> None:
        """`ends`: the drive ends here, by a failure, a cancel or an absent driver."""
        self.phase, self.execution = phase, []
        if phase == "idle":
            self.give_up_judgements()
        if phase == "requesting":
            self.requests = self.requests + 1 if self.drive == "turn" else 1
            self.drive = drive
        elif phase == "executing":
            self.execution = [one.id for one in self.calls if one.status == "waiting"]
            self.drive = drive
        elif ends or phase == "finished":
            self.drive, self.flag = "", False
        elif self.drive == "step" or phase == "deciding":
            self.drive = ""
        inside = {
            "deciding": ",".join(str(one.id) for one in self.questions),
            "ready": ",".join(one.id for one in self.calls if one.status == "waiting"),
            "executing": ",".join(self.execution),
            "finished": f"{self.finished_on} end_turn",
        }.get(phase)
        self.say(f">{phase}" if inside is None else f">{phase}{{{inside}}}")

    def rest(self) -> None:
        """Where the loop stands when calls wait; then the turn may go on by itself."""
        waiting = any(one.status == "waiting" for one in self.calls)
        self.enter("deciding" if self.questions else "ready" if waiting else "idle")
        self.go_on()

    def go_on(self) -> None:
        if self.drive != "turn" or self.phase not in ("idle", "ready"):
            return
        limit = self.config.max_requests_per_turn
        if self.phase == "idle" and limit is not None and self.requests >= limit:
            self.say(f"turn.paused {self.requests}")
            self.drive = ""
        elif self.flag:
            self.spend()
        elif self.phase == "ready":
            self.execute("turn")
        else:
            self.request("turn")

    def spend(self) -> None:
        self.say("[interrupt.spent]")
        self.flag, self.drive = False, ""

    def run(self, drive: str) -> type[Exception] | None:
        if self.phase in ("requesting", "executing"):
            return Busy
        rests = self.phase in ("idle", "finished")
        if rests and drive == "turn" and self.config.max_requests_per_turn == 0:
            self.say("turn.paused 0")
        elif self.flag:
            self.spend()
        elif self.phase == "ready":
            self.execute(drive)
        elif rests and not self.has_model():
            return NoProvider
        elif rests:
            self.request(drive)
        return None

    def has_model(self) -> bool:
        return self.known_model and "model" in self.here

    def open_turn(self) -> None:
        if not self.is_open:
            self.turn, self.is_open = self.turn + 1, True
            self.say(f"[turn.opened {self.turn}]")

    # -- requests --------------------------------------------------------------------------------

    def request(self, drive: str) -> None:
        self.open_turn()
        self.enter("requesting", drive=drive)
        mode = "o"
        for one in self.unfinished():
            unknown = one.status == "running"
            text = wording.outcome_unknown() if unknown else wording.was_not_run()
            self.record(one, text, True, mode=mode)
            mode = "j"
        sent = LinearProjector().project(self.items.values()).messages
        if not self.has_model() or not sent:
            self.say("step.failed")
            self.enter("idle", ends=True)
        else:
            self.say("model.requested")
            self.in_flight = self.announce()

    def answer(self, text: str, asked: list[ToolCall], counted: bool) -> None:
        self.in_flight = ""
        if counted:
            self.say("[counter.observed]")
        asked = self._own_ids(asked)
        kind = AssistantMessage(tuple(asked))
        turn = ContextItem(
            kind=kind, source="model", label="assistant", content=Text(text), state="active"
        )
        id = self.add(turn, "o", True)
        self.say(f"model.finished {id}")
        self.has_results = False
        self.calls = [Pending(one.id, one.tool, one.args) for one in asked]
        if asked:
            self.look()
        else:
            self.finished_on = id
            self.enter("finished")
            if self.is_open:
                self.is_open = False
                self.say(f"[turn.closed {self.turn} finished]")

    def _own_ids(self, asked: list[ToolCall]) -> list[ToolCall]:
        """Empty and used ids are replaced by `call_<place>`, or the next free name like it."""
        given: list[ToolCall] = []
        for place, one in enumerate(asked):
            if not one.id or one.id in self.seen:
                tries = [f"call_{place}", *(f"call_{place}_{n}" for n in range(1, 99))]
                fresh = next(id for id in tries if id not in self.seen)
                self.say(f"tool.repaired {one.id!r}>{fresh}")
                one = replace(one, id=fresh)
            self.seen.add(one.id)
            given.append(one)
        return given

    def fail(self) -> None:
        self.in_flight = ""
        self.say("model.failed")
        self.enter("idle", ends=True)

    # -- calls: looked at, judged, permitted -----------------------------------------------------

    def look(self) -> None:
        """Look at each call in order; stop at one whose code has to be asked."""
        for one in self.calls:
            if one.status != "proposed":
                continue
            one.known = "tools" in self.here and one.tool in self.tools
            well_formed = one.args not in MALFORMED
            code = self.rules() == "code" or one.tool == "tells"
            one.status = "asked"
            if one.known and well_formed and code and not self.opening:
                self.say(f"tool.requested {one.id} ?")
                one.status, one.effect = "judging", self.announce()
                one.question, self.next_question = self.next_question, self.next_question + 1
                return
            self.say(f"tool.requested {one.id}")
            if not one.known:
                self.say(f"tool.unknown {one.id}")
                specs = [TOOLS[name] for name in self.tools] if "tools" in self.here else []
                self.record(one, wording.unknown_tool(one.tool, specs), True, mode="j")
            elif not well_formed:
                self.record(one, wording.not_arguments(MALFORMED[one.args]), True, mode="j")
        for one in self.calls:
            if one.status in ("asked", "judged"):
                self.permit(one)
        self.rest()

    def rules(self) -> str:
        return self.policy if "policy" in self.here else "none"

    def permit(self, one: Pending) -> None:
        verdict, why = one.verdict, one.why
        if one.status == "asked" and one.tool == "tells":
            verdict = "ask"  # its code was never heard
        elif verdict is None:
            verdict = VERDICTS[self.rules()][one.tool]
            why = f'the rule {verdict} "{one.tool}"'
        one.status, one.effect = "waiting", ""
        if not one.question:
            one.question, self.next_question = self.next_question, self.next_question + 1
        if verdict == "ask":
            self.questions.append(Question(one.question, "permission", one.id))
            self.say(f"permission.requested {one.question} {one.id}")
        else:
            self.decided(one, verdict, "policy", why if verdict == "deny" else "")

    def decided(self, one: Pending, grant: str, source: str, why: str) -> None:
        one.grant, one.source, one.why, one.status = grant, source, why, "waiting"
        self.resolved.add(one.question)
        self.questions = [each for each in self.questions if each.id != one.question]
        self.say(f"permission.decided {one.question} {one.id} {grant}/{source}")

    def judged(self, one: Pending, verdict: str | None, why: str) -> None:
        one.status, one.effect, one.verdict, one.why = "judged", "", verdict, why
        self.say(f"[call.judged {one.id}]")
        self.look()

    def judging_failed(self, one: Pending) -> None:
        one.status, one.effect = "judged", ""
        self.say(f"[call.judged {one.id}]")
        self.say("step.failed")
        self.take_proposed()
        self.enter("idle", ends=True)

    def give_up_judgements(self) -> None:
        for one in self.calls:
            if one.status == "judging":
                one.status, one.effect = "asked", ""

    def take_proposed(self) -> None:
        for one in self.calls:
            if one.status == "proposed":
                one.known = one.tool in self.tools
                one.status = "asked"
                self.say(f"tool.requested {one.id}")

    def decide(self, id: int, grant: str, why: str) -> type[Exception] | None:
        question = next((one for one in self.questions if one.id == id), None)
        if question is None:
            return AlreadyResolved if id in self.resolved else UnknownPermission
        if question.kind != "permission":
            return UnknownPermission
        self.decided(self.call(question.call), grant, "user", why)
        self.rest()
        return None

    # -- calls: run and recorded -----------------------------------------------------------------

    def call(self, id: str) -> Pending:
        return next(one for one in self.calls if one.id == id)

    def unfinished(self) -> list[Pending]:
        return [one for one in self.calls if one.status not in ("ended", "proposed")]

    def execute(self, drive: str) -> None:
        self.open_turn()
        self.enter("executing", drive=drive)
        self.go_on_executing()

    def go_on_executing(self) -> None:
        batch = [self.call(id) for id in self.execution]
        if any(one.status == "running" for one in batch):
            return
        if self.config.parallel_tool_calls:
            for one in batch:
                if one.status == "waiting" and one.grant == "allow":
                    self.start(one)
            if any(one.status == "running" for one in batch):
                return
        for one in batch:
            if one.status != "waiting":
                continue
            if self.flag and not self.config.parallel_tool_calls:
                self.record(one, wording.interrupted(), True)
            elif one.grant == "allow":
                self.start(one)
                return
            else:
                self.refuse(one)
        self.enter("idle")
        self.go_on()

    def start(self, one: Pending) -> None:
        one.attempt += 1
        one.status, one.effect = "running", self.announce()
        again = f" #{one.attempt}" if one.attempt > 1 else ""
        self.say(f"tool.started {one.id}{again}")

    def refuse(self, one: Pending) -> None:
        refused = wording.refused_by_person if one.source == "user" else wording.refused_by_rule
        self.record(one, refused(one.why), True)

    def tool_answered(self, one: Pending, text: Text, is_error: bool, crashed: bool) -> None:
        if one.id not in self.execution:
            self.conclude(one, text.text, is_error, "answered", crashed)
            return
        batch = [self.call(id) for id in self.execution]
        if sum(each.status == "running" for each in batch) > 1:
            one.status, one.held = "held", (text, is_error, crashed)
            self.say(f"[call.answered {one.id}]")
            return
        one.held = (text, is_error, crashed)
        last = max(n for n, each in enumerate(batch) if each.status in ("running", "held"))
        for each in batch[: last + 1]:
            if each.held is not None:
                self.record_held(each)
            elif each.status == "waiting":
                self.refuse(each)
        self.go_on_executing()

    def record_held(self, one: Pending) -> None:
        assert one.held is not None
        text, is_error, crashed = one.held
        self.record(one, text.text, is_error, crashed=crashed, answered=True)

    def record(
        self,
        one: Pending,
        text: str,
        is_error: bool,
        *,
        mode: str = "",
        crashed: bool = False,
        answered: bool = False,
        stop: bool = False,
    ) -> None:
        joins = self.has_results and self.phase not in ("idle", "finished")
        if crashed:
            self.say(f"tool.panicked {one.id}")
        item = ContextItem.tool_result(one.id, one.tool, text, is_error)
        self.add(item, mode or ("j" if joins else "o"), True)
        if one.status == "running" and one.effect and not answered:
            self.adrift[one.effect] = one.id
        if one.grant is not None:
            self.has_results = True
        one.status, one.held = "ended", None
        error = " error" if is_error else ""
        self.say(f"tool.finished {one.id}{error}{' stop' if stop else ''}")

    # -- cancelling, leaving, opening ------------------------------------------------------------

    def interrupt(self) -> None:
        if not self.flag:
            self.flag = True
            self.say("turn.interrupted")

    def cancel_calls(self, reason: str, ends: bool = False) -> None:
        if self.phase not in ("deciding", "ready"):
            return
        left = self.unfinished()
        for one in left:
            if one.status == "waiting":
                self.decided(one, "deny", "cancellation", "")
        for question in self.questions:
            self.resolved.add(question.id)
            self.say(f"[question.answered {question.id} cancelled]")
        self.questions = []
        self.phase, self.drive = "executing", ""
        self.say(f">executing{{{','.join(one.id for one in left)}}}")
        self.cancel_each(left, reason)
        self.enter("idle", ends=ends)

    def cancel_each(self, left: list[Pending], reason: str) -> None:
        mode = ""
        for one in left:
            if one.status == "held":
                self.record_held(one)
            elif one.status == "running" and not one.effect:
                self.record(one, wording.cancelled_unknown(reason), True, mode=mode)
            elif one.status == "running":
                self.announced += 1
                self.record(one, wording.cancelled_running(reason), True, mode=mode, stop=True)
            else:
                self.record(one, wording.cancelled(reason), True, mode=mode)
            mode = "j"

    def cancel_turn(self, turn: int, reason: str) -> None:
        if not self.is_open or turn not in (0, self.turn):
            return
        if self.phase in ("deciding", "ready"):
            self.cancel_calls(reason, ends=True)
        elif self.phase in ("requesting", "executing"):
            self.give_up_request(stop=True)
            self.take_proposed()
            self.cancel_each(self.unfinished(), reason)
            self.enter("idle", ends=True)
        self.is_open, self.drive = False, ""
        self.say(f"[turn.closed {self.turn} cancelled]")

    def give_up_request(self, stop: bool) -> None:
        if self.in_flight:
            self.announced += stop
            self.in_flight = ""
            self.say("[request.abandoned stop]" if stop else "[request.abandoned]")

    def driver_left(self) -> None:
        if self.phase == "requesting":
            self.give_up_request(stop=True)
            self.take_proposed()
            self.enter("idle", ends=True)
        elif self.phase == "executing":
            for one in self.calls:
                if one.status == "held":
                    self.record_held(one)
            self.enter("idle", ends=True)

    def finish(self) -> None:
        if self.phase in ("deciding", "ready"):
            self.say(f"turn.unfinished {','.join(one.id for one in self.unfinished())}")
        elif self.is_open and self.phase not in ("requesting", "executing"):
            self.is_open, self.drive = False, ""
            self.say(f"[turn.closed {self.turn} session finished]")
        self.say("session.finished")

    def reopen(self, model: bool, policy: str | None) -> None:
        self.opening = True
        self.here = {"tools"} | ({"model"} if model else set()) | ({"policy"} if policy else set())
        self.flag, self.drive = False, ""
        self.give_up_judgements()
        self.adrift = {}
        for one in self.calls:
            if one.status == "running":
                one.effect = ""  # its process is gone, and with it whoever could answer
        self.say("[session.opened]")
        if model and not self.known_model:
            self.known_model = True
            self.say("model.changed")
        if self.tools != tuple(TOOLS):
            self.tools = tuple(TOOLS)
            self.say("tools.changed")
        if policy is not None and policy != self.policy:
            self.policy = policy
            self.say("policy.changed")
        if self.phase == "requesting" and self.in_flight:
            self.give_up_request(stop=False)
            self.enter("idle", ends=True)
        elif self.phase == "requesting":
            self.look()
        elif self.phase == "executing":
            self.recover_calls()

    def recover_calls(self) -> None:
        for one in self.calls:
            if one.status == "held":
                self.record_held(one)
        for one in self.calls:
            if one.status != "running":
                continue
            if one.tool == "safe":
                one.status = "waiting"
                self.say(f"[tool.retried {one.id}]")
                continue
            effect = self.announce() if one.tool == "tells" else ""
            question = Question(self.next_question, "outcome", one.id, effect)
            self.next_question += 1
            self.questions.append(question)
            self.say(f"[question.opened {question.id} outcome {one.id}{' ?' if effect else ''}]")
        self.rest()

    # -- outcomes that are unknown ---------------------------------------------------------------

    def unanswered(self, id: str) -> Pending | type[Exception]:
        """The call, where a person may say how it ended."""
        one = next((each for each in self.calls if each.id == id), None)
        if one is None or one.status == "ended":
            return AlreadyResolved if id in self.seen else UnknownCall
        if self.phase in ("requesting", "executing"):
            return Busy
        question = next((each for each in self.questions if each.call == id), None)
        if question is not None:
            return one if question.kind == "outcome" else UnknownCall
        resting = self.phase in ("idle", "finished")
        return one if resting or one.status == "running" else UnknownCall

    def settle(self, id: str, text: str, is_error: bool) -> type[Exception] | None:
        one = self.unanswered(id)
        if not isinstance(one, Pending):
            return one
        self.conclude(one, text, is_error, "failed" if is_error else "settled")
        return None

    def retry(self, id: str) -> type[Exception] | None:
        one = self.unanswered(id)
        if not isinstance(one, Pending):
            return one
        denied = "deny" in (one.verdict, one.grant)
        if not one.known or one.args in MALFORMED or denied:
            return InvalidInput
        self.close_question(id, "retried")
        if one.status == "running" and one.effect:
            self.adrift[one.effect] = one.id
        one.status = "waiting"
        self.say(f"[tool.retried {one.id}]")
        if one.grant is None:
            one.question, self.next_question = self.next_question, self.next_question + 1
            self.decided(one, "allow", "user", "")
        self.rest()
        return None

    def reconciled(self, question: Question, found: str | None) -> None:
        if found is None:
            question.effect = ""
            self.say(f"[question.left {question.id}]")
        else:
            self.conclude(self.call(question.call), found, False, "reconciled", owed=True)

    def conclude(
        self,
        one: Pending,
        text: str,
        is_error: bool,
        how: str,
        crashed: bool = False,
        owed: bool = False,
    ) -> None:
        self.close_question(one.id, how)
        self.record(one, text, is_error, crashed=crashed, answered=how == "answered")
        if self.phase == "deciding":
            self.rest()

    def close_question(self, call: str, how: str) -> None:
        for question in self.questions:
            if question.call == call:
                self.resolved.add(question.id)
                self.say(f"[question.answered {question.id} {how}]")
        self.questions = [one for one in self.questions if one.call != call]

    def late(self, effect: str) -> None:
        if effect in self.adrift:
            self.say(f"[tool.late {self.adrift.pop(effect)}]")

    # -- parts -----------------------------------------------------------------------------------

    def describe(self, part: str, value: object) -> None:
        known = {"model": self.known_model, "tools": self.tools, "policy": self.policy}[part]
        if value != known:
            self.say(f"{part}.changed")
            setattr(self, "known_model" if part == "model" else part, value)
            self.here |= {part}
        elif part not in self.here and value is not False:
            self.here |= {part}
            self.say("[parts.described]")

    # -- what must be there ----------------------------------------------------------------------

    def outstanding(self) -> set[Effect]:
        owed: set[Effect] = set()
        if self.in_flight:
            owed.add(CallModel(self.in_flight))
        for one in self.calls:
            if one.status == "judging":
                owed.add(JudgeCall(one.effect, one.id))
            elif one.status == "running" and one.effect:
                owed.add(RunTool(one.effect, one.id))
        for question in self.questions:
            if question.effect:
                owed.add(ReconcileOutcome(question.effect, question.call))
        return owed


def priced(item: ContextItem) -> ContextItem:
    """With its figure: four bytes a token, each part rounded up."""
    parts = [item.content.text]  # type: ignore[union-attr]
    for one in item.calls():
        parts += [one.tool, one.args]
    return replace(item, tokens=sum(-(-len(part.encode()) // 4) for part in parts))


__all__ = ["MALFORMED", "TOOLS", "VERDICTS", "Model", "Pending", "Question", "ToolResult"]
