"""A player of random histories: short words that become whatever input fits the state at hand.

A history is a list of moves `(verb, a, b)`. What a move means depends on the state it meets, so
every list is a history, every part of one is one, and the same list always plays the same.
Nothing here needs more than the core does: other Pythons play it too.
"""

import json
import sys
from collections.abc import Callable, Iterable
from random import Random

import msgspec
from msgspec.structs import replace

from reducers import Input, Reducer, State, Step, fold, initial, outstanding
from reducers.codec import decode_commit, encode_commit
from reducers.statecodec import encode_state
from reducers.vocabulary import inputs as i
from reducers.vocabulary.config import Config
from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    Content,
    JsonContent,
    ReasoningBlock,
    Text,
    TextBlock,
    ToolCall,
)
from reducers.vocabulary.digests import digest_of
from reducers.vocabulary.effects import JudgeCall, ReconcileOutcome, RunTool
from reducers.vocabulary.errors import KernelError
from reducers.vocabulary.inputs import DEFAULT_SEAMS
from reducers.vocabulary.items import STATES, ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelResponse, Overrun, Usage
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolOutput, ToolSpec
from tests.reducers.driving import LOG, MODEL, NAME, Core

Move = tuple[str, int, int]

TOOLS = (
    ToolSpec("add", "Add."),
    ToolSpec("note", "Note.", capabilities=("fs:write", "fs:append"), output_limit=60),
    ToolSpec("safe", "Safe.", idempotent=True),
    ToolSpec("tells", "Tells.", reconciles=True, judged=True),
)
POLICIES = (
    PolicyInfo("Rules", (Rule(allow="*"),)),
    PolicyInfo("Rules", (Rule(allow="add"), Rule(deny="tells"))),
    PolicyInfo("AskAlways", ()),
    PolicyInfo("Code"),
)
CONFIGS = (
    Config(),
    Config(parallel_tool_calls=True),
    Config(context_undo_depth=3, max_requests_per_turn=2, default_tool_output_limit=30),
    Config(context_undo_depth=0, parallel_tool_calls=True, keep_truncated_output=False),
    Config(max_requests_per_turn=None, refuse_oversized_requests=False),
)
SMALL = replace(MODEL, model="m2", context_limit=700)
LONG = "a rather long text that fills its item well. " * 30
TEXTS = ("go", "", "zażółć \U0001f980", "line\nline", "x" * 90, LONG)


def content(n: int) -> Content:
    text = Text(TEXTS[n % len(TEXTS)])
    match n % 11:
        case 7:
            return JsonContent(Json('{"n":9007199254740993,"s":"ż"}'))
        case 8:
            return Blob("image/png", "aGVsbG8=", Json('{"name":"a.png"}'))
        case 9:
            thought = ReasoningBlock(Text("hm"), Json('{"sig":"1"}'))
            return Blocks((thought, TextBlock(text)))
        case 10:
            return Blocks((TextBlock(Blob("image/png", "aGVsbG8=")), TextBlock(text)))
        case _:
            return text


POOL = ("u0", "u1", "u2", "u3")
"""Call ids that people push by hand: few, so that they repeat, and answers come before calls."""


def pushed(n: int, m: int, block: str = "") -> ContextItem:
    """An item as somebody might push it: any kind, any state. With a block, its call ids are those
    of the block alone."""
    ids = [block + id for id in POOL]
    match n % 9:
        case 0:
            item = ContextItem.system(content(m))
        case 1:
            item = ContextItem.file(f"f{m % 4}.txt", content(m))
        case 2:
            item = ContextItem.assistant(content(m % 7), (_call(ids[m % 4], m),))
        case 3:
            calls = (_call(ids[m % 4], m), _call(ids[(m + 1) % 4], m))
            item = ContextItem.assistant("", calls).with_reasoning("thought" if m % 2 else None)
        case 4 | 5:
            item = ContextItem.tool_result(ids[m % 4], "add", content(m), bool(m % 3 == 0))
        case 6:
            blocks = Blocks((TextBlock(Text("first")), CallBlock(_call(ids[m % 4], m))))
            item = ContextItem.assistant(blocks)
        case _:
            item = ContextItem.user(content(m))
    if n % 5 == 4:
        item = item.with_state(STATES[m % 6], "as it came" if m % 2 else None)
    return item.with_meta(Json('{"by":"hand"}')) if n % 7 == 6 else item


def _call(id: str, n: int) -> ToolCall:
    args = ('{"x":1,"y":2}', "{}", '{"x":9007199254740993}')[n % 3]
    if n % 13 == 12:
        args = ("[1]", '{"x":1,"x":2}', "{")[n % 3]
    return ToolCall(id, ("add", "note", "safe", "tells", "add", "nonsense")[n % 6], Json(args))


def usage(n: int) -> Usage | None:
    return (None, Usage(12, 3), Usage(700, 90, 5, 1200), Usage(380, 20), Usage())[n % 5]


class Player(Core):
    """Plays moves. Refusals are counted and change nothing."""

    def __init__(self, config: int = 0, policy: int = 0, reducer: Reducer | None = None) -> None:
        super().__init__(reducer)
        self.answers: list[Input] = []
        self.transitions: list[tuple[State, Input, Step]] = []
        self.refused: list[tuple[Input, KernelError]] = []
        self.feed(
            i.SessionOpened(
                config=CONFIGS[config % len(CONFIGS)],
                model=MODEL,
                tools=TOOLS,
                policy=POLICIES[policy % len(POLICIES)],
            )
        )
        self.push("go")

    def feed(self, input: Input) -> Step:
        before = self.state
        step = super().feed(input)
        if step.events:
            self.transitions.append((before, input, step))
        return step

    def play(self, moves: Iterable[Move]) -> "Player":
        for verb, a, b in moves:
            self.move(verb, a, b)
        return self

    def move(self, verb: str, a: int = 0, b: int = 0) -> Step | None:
        input = MOVES[verb](self, a, b)
        if input is None:
            return None
        before = self.state
        try:
            return self.feed(input)
        except KernelError as refusal:
            assert self.state is before
            self.refused.append((input, refusal))
            return None

    def crash(self, a: int, b: int) -> Input:
        """What the log holds is all that is left."""
        state = initial(LOG, NAME)
        for commit in self.commits:
            state = fold(state, decode_commit(encode_commit(commit)[0]).events)
        assert state == self.state
        self.state, self.reducer = state, Reducer()
        return i.SessionOpened(
            config=CONFIGS[b % len(CONFIGS)] if a % 4 == 3 else msgspec.UNSET,
            model=None if a % 9 == 8 else MODEL,
            tools=TOOLS if a % 5 else TOOLS[:2],
            policy=None if b % 4 == 3 else POLICIES[b % len(POLICIES)],
        )


# -- what a move means -------------------------------------------------------------------------


def _some_id(player: Player, n: int) -> int:
    """Mostly an item there is."""
    return n % (player.state.context.next_id + 1)


def _reply(player: Player, a: int, b: int) -> Input | None:
    effect = player.state.requests.in_flight
    if not effect:
        return None
    return player_answer(player, i.ModelSettled(effect, _response(a, b)))


def _response(a: int, b: int) -> ModelResponse:
    calls = tuple(_call(_model_id(a, b, n), a + b + n) for n in range((0, 1, 2, 3, 0, 1)[a % 6]))
    if b % 6 == 5:
        thought = ReasoningBlock(Text("let me see"), Json('{"sig":"2"}'))
        said = TextBlock(Text(TEXTS[b % len(TEXTS)]))
        return replace(
            ModelResponse.of_blocks(Blocks((said, thought, *map(CallBlock, calls)))),
            usage=usage(a),
        )
    return ModelResponse(
        content=None if a % 3 == 0 and calls else content(b % 7),
        reasoning=Text("thought") if b % 4 == 1 else None,
        calls=calls,
        stop=("end_turn", "length", "odd")[b % 3] if not calls else "tool_use",
        usage=usage(b),
    )


def _model_id(a: int, b: int, n: int) -> str:
    """Fresh, empty, or used before by the model or by people."""
    return (f"c{a}_{b}_{n}", "", "c", f"c{a}_{n}", POOL[a % 4])[(a + b) % 5]


def _fail(player: Player, a: int, b: int) -> Input | None:
    effect = player.state.requests.in_flight
    if not effect:
        return None
    overrun = Overrun(900 + a, 800) if b % 3 == 0 else None
    return i.ModelSettled(effect, failure=i.Failure("no answer", "model.unreachable", overrun))


def _owed(player: Player, kind: type, n: int) -> str | None:
    effects = [owed.id for owed in outstanding(player.state) if isinstance(owed, kind)]
    return effects[n % len(effects)] if effects else None


def output(n: int) -> ToolOutput:
    return ToolOutput(content(n), is_error=n % 4 == 3)


def _settle_tool(player: Player, a: int, b: int) -> Input | None:
    effect = _owed(player, RunTool, a)
    if effect is None:
        return None
    crashed = b % 8 == 3
    return player_answer(player, i.ToolSettled(effect, output(b), crashed, mended=b % 3 // 2))


def _late(player: Player, a: int, b: int) -> Input | None:
    adrift = player.state.calls.adrift
    return i.ToolSettled(adrift[a % len(adrift)][0], output(b)) if adrift else None


def _judge(player: Player, a: int, b: int) -> Input | None:
    effect = _owed(player, JudgeCall, a)
    if effect is None:
        return None
    if b % 9 == 8:
        return i.CallJudged(effect, failure="the policy raised")
    verdict = ("allow", "ask", "deny", None, "allow", "ask")[b % 6]
    capabilities = ("fs:write",) if a % 2 else None
    limit = 25 if b % 4 == 2 else None
    judged = i.CallJudged(effect, verdict, "because", capabilities, limit)  # type: ignore[arg-type]
    return player_answer(player, judged)


def _reconcile(player: Player, a: int, b: int) -> Input | None:
    effect = _owed(player, ReconcileOutcome, a)
    if effect is None:
        return None
    found = output(b) if b % 3 else None
    return player_answer(player, i.OutcomeReconciled(effect, found))


def player_answer(player: Player, input: Input) -> Input:
    player.answers.append(input)
    return input


def _again(player: Player, a: int, b: int) -> Input | None:
    """An exact repeat of an answer given before."""
    return player.answers[a % len(player.answers)] if player.answers else None


def _decide(player: Player, a: int, b: int) -> Input:
    open_ids = [question.id for question in player.state.questions.open]
    id = open_ids[a % len(open_ids)] if open_ids and b % 5 else a
    return i.DecidePermission(id, "deny" if b % 3 == 2 else "allow", reason="no" if a % 2 else "")


def _of_call(player: Player, n: int) -> str:
    batch = player.state.calls.batch
    return batch[n % len(batch)].id if batch else "nobody"


def _go(player: Player, a: int, b: int) -> Input | None:
    """Whatever carries the loop on from here."""
    for move in (_reply, _judge, _settle_tool, _reconcile):
        input = move(player, a, b)
        if input is not None:
            return input
    if player.state.questions.open:
        question = player.state.questions.open[a % len(player.state.questions.open)]
        if question.kind == "permission":
            return i.DecidePermission(question.id, "allow" if b % 4 else "deny")
        return i.SettleOutcome(question.call, output(b))
    return i.RunStep() if b % 3 == 0 else i.RunTurn()


def _parts(player: Player, a: int, b: int) -> Input:
    match a % 6:
        case 0:
            return i.PartsDescribed(model=(MODEL, SMALL, MODEL, None)[b % 4], announce=b % 3 == 0)
        case 1:
            return i.PartsDescribed(tools=TOOLS[b % 4 :], announce=bool(b % 2))
        case 2:
            return i.PartsDescribed(policy=POLICIES[b % 4])
        case 3:
            described = replace(TOOLS[0], description=f"Add {b % 3}.")
            return i.PartsDescribed(tools=(*TOOLS[1:], described))
        case 4:
            return i.SetParams(Json(('{"seed":1}', "{}")[b % 2]))
        case _:
            return i.PartsDescribed(model=MODEL, tools=TOOLS, policy=POLICIES[b % 4])


def _seams(player: Player, a: int, b: int) -> Input:
    """The words alone: whoever drives the core switches the reducer, and these are its defaults."""
    if a % 2:
        return i.PartsDescribed(projector=DEFAULT_SEAMS.projector, announce=b % 2 == 0)
    return i.PartsDescribed(counter=DEFAULT_SEAMS.counter, announce=b % 2 == 0)


MOVES: dict[str, Callable[[Player, int, int], Input | None]] = {
    "go": _go,
    "push": lambda p, a, b: i.PushItems((pushed(a, b),), mended=a % 11 // 10),
    "push_some": lambda p, a, b: i.PushItems(tuple(pushed(a + n, b + n) for n in range(a % 4))),
    "supersede": lambda p, a, b: i.SupersedeItem(_some_id(p, a), pushed(b, a)),
    "set_state": lambda p, a, b: i.SetState(
        (_some_id(p, a), _some_id(p, a + b), _some_id(p, a)), STATES[b % 6], ("why", None)[a % 2]
    ),
    "replace": lambda p, a, b: i.ReplaceContent(_some_id(p, a), content(b)),
    "annotate": lambda p, a, b: i.AnnotateItem(_some_id(p, a), Json(("", '{"n":1}')[b % 2])),
    "undo": lambda p, a, b: i.Undo(),
    "redo": lambda p, a, b: i.Redo(),
    "recount": lambda p, a, b: i.RecountItems(),
    "reserve": lambda p, a, b: i.ReserveCalls((f"c{a}_{b}", POOL[a % 4], "call_0")[: b % 4]),
    "parts": _parts,
    "step": lambda p, a, b: i.RunStep(),
    "turn": lambda p, a, b: i.RunTurn(),
    "reply": _reply,
    "fail": _fail,
    "judge": _judge,
    "tool": _settle_tool,
    "late": _late,
    "again": _again,
    "decide": _decide,
    "interrupt": lambda p, a, b: i.InterruptTurn(),
    "cancel_calls": lambda p, a, b: i.CancelCalls("not now"),
    "cancel_turn": lambda p, a, b: i.CancelTurn(a % 3, "enough"),
    "leave": lambda p, a, b: i.DriverLeft(),
    "crash": lambda p, a, b: p.crash(a, b),
    "settle": lambda p, a, b: i.SettleOutcome(_of_call(p, a), output(b)),
    "retry": lambda p, a, b: i.RetryOutcome(_of_call(p, a)),
    "reconcile": _reconcile,
    "finish": lambda p, a, b: i.FinishSession() if a % 3 == 0 else None,
    "seams": _seams,
    "timer": lambda p, a, b: i.TimerFired("1.0"),
}

OFTEN = ("go",) * 20 + ("push", "undo", "redo", "set_state", "leave", "late", "crash") * 2
ANYTHING = (*OFTEN, *MOVES)


def moves_from(seed: int, count: int, verbs: tuple[str, ...]) -> list[Move]:
    """A long history for its seed: spread wider than a search that looks for small ones."""
    draw = Random(seed)
    return [(draw.choice(verbs), draw.randrange(61), draw.randrange(61)) for _ in range(count)]


def fingerprints(config: int, policy: int, moves: Iterable[Move]) -> list[str]:
    """Of every byte a history makes: those of its log, and those of its last state."""
    player = Player(config, policy).play(moves)
    log = b"\n".join(encode_commit(commit)[0] for commit in player.commits)
    return [digest_of(log), digest_of(encode_state(player.state))]


if __name__ == "__main__":  # the other process of law 2
    json.dump([fingerprints(*case) for case in json.load(sys.stdin)], sys.stdout)
