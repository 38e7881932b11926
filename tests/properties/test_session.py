"""The whole root machine against a model that says what must happen.

Each rule gives the model and the core the same input and compares what they say: the trace of the
commit, or the refusal. Whatever was said, the invariants are looked at after every rule.
"""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effects.replay import redrive
from reducers import Input, Reducer, fold, initial, outstanding
from reducers.codec import Header, decode_commit, encode_commit
from reducers.linear import pairing_problem
from reducers.machines.context import present
from reducers.statecodec import decode_state, encode_state
from reducers.vocabulary import inputs as i
from reducers.vocabulary.config import Config
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.items import STATES, ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelResponse, Usage
from reducers.vocabulary.phases import name_of
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolOutput
from tests.properties.histories import examples
from tests.properties.model import MALFORMED, TOOLS, Model
from tests.reducers.driving import LOG, MODEL, NAME, Core, told

POLICIES = {
    "all": PolicyInfo("all", (Rule(allow="*"),)),
    "some": PolicyInfo("some", (Rule(allow="add"), Rule(allow="safe"), Rule(deny="tells"))),
    "code": PolicyInfo("code"),
}

TEXTS = ("", "go", "żółw", "a longer text that costs more than a token")
ARGUMENTS = ("{}", '{"x":1,"y":2}', '{"text":"ż"}', *MALFORMED)
texts = st.sampled_from(TEXTS)
by_hand = st.sampled_from(["u0", "u1", "u2"])
by_model = st.sampled_from(["", "a", "b", "c", "u0", "call_0"])
numbers = st.integers(0, 12)
states = st.sampled_from(STATES)
notes = st.sampled_from([None, "why"])
kept = st.sampled_from(["active"] * 5 + list(STATES))
arguments = st.sampled_from(ARGUMENTS)
named = st.sampled_from([*TOOLS, *TOOLS, "nonsense"])
proposals = st.builds(ToolCall, by_model, named, arguments)
pieces = st.one_of(
    texts.map(ContextItem.user),
    texts.map(lambda text: ContextItem.file("a.txt", text)),
    st.builds(lambda id, text: ContextItem.tool_result(id, "add", text), by_hand, texts),
    st.builds(
        lambda ids, text: ContextItem.assistant(text, tuple(map(_pushed_call, ids))),
        st.lists(by_hand, max_size=2, unique=True),
        texts,
    ),
)
items = st.builds(lambda item, state: item.with_state(state), pieces, kept)


def _pushed_call(id: str) -> ToolCall:
    return ToolCall(id, "add", Json("{}"))


PLAIN = ("add", "note", "safe", "tells", "add")


def running(session: "Session") -> bool:
    return any(one.status == "running" and one.effect for one in session.model.calls)


class Session(RuleBasedStateMachine):
    """Whatever people, the model, the tools and crashes do, the loop says what it must."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Core()
        self.answers: list[Input] = []

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        depth=st.sampled_from([0, 2, 16]),
        limit=st.sampled_from([None, 1, 3]),
        parallel=st.booleans(),
    )
    def open(self, policy: str, depth: int, limit: int | None, parallel: bool) -> None:
        config = Config(
            context_undo_depth=depth, max_requests_per_turn=limit, parallel_tool_calls=parallel
        )
        self.model = Model(config, policy)
        opened = i.SessionOpened(
            config=config, model=MODEL, tools=tuple(TOOLS.values()), policy=POLICIES[policy]
        )

        def says(model: Model) -> None:
            model.words += ["session.started", "model.changed", "tools.changed", "policy.changed"]

        self.must(opened, says)

    def must(
        self, input: Input, says: Callable[[Model], type[Exception] | None], answers: bool = False
    ) -> None:
        """The core says what the model says, or refuses what the model refuses."""
        self.model.begin()
        refusal = says(self.model)
        expected = self.model.end()
        if refusal is not None:
            assert expected == []
            with pytest.raises(refusal) as raised:
                self.core.feed(input)
            assert type(raised.value) is refusal
            return
        step = self.core.feed(input)
        assert [told(event) for event in step.events] == expected
        if answers:
            self.answers.append(input)

    # -- the owner of the context ----------------------------------------------------------------

    @rule(pushed=st.lists(items, max_size=3))
    def push(self, pushed):
        self.must(i.PushItems(tuple(pushed)), lambda m: m.push(pushed))

    @rule(old=numbers, item=items)
    def supersede(self, old, item):
        self.must(i.SupersedeItem(old, item), lambda m: m.supersede(old, item))

    @rule(ids=st.lists(numbers, max_size=3), state=states, note=notes)
    def set_state(self, ids, state, note):
        self.must(i.SetState(tuple(ids), state, note), lambda m: m.set_state(ids, state, note))

    @rule(id=numbers, text=texts)
    def replace(self, id, text):
        self.must(i.ReplaceContent(id, Text(text)), lambda m: m.replace(id, text))

    @rule(id=numbers, meta=st.sampled_from(["", '{"n":1}']))
    def annotate(self, id, meta):
        self.must(i.AnnotateItem(id, Json(meta)), lambda m: m.annotate(id, Json(meta)))

    @rule()
    def undo(self):
        self.must(i.Undo(), lambda m: m.take_back())

    @rule()
    def redo(self):
        self.must(i.Redo(), lambda m: m.do_again())

    @rule()
    def recount(self):
        self.must(i.RecountItems(), lambda m: m.recount())

    @rule(ids=st.lists(by_hand | by_model, max_size=3))
    def reserve(self, ids):
        self.must(i.ReserveCalls(tuple(ids)), lambda m: m.reserve(ids))

    @rule(known=st.booleans())
    def describe_model(self, known):
        described = i.PartsDescribed(model=MODEL if known else None)
        self.must(described, lambda m: m.describe("model", known))

    @rule(fewer=st.booleans())
    def describe_tools(self, fewer):
        names = ("add", "tells") if fewer else tuple(TOOLS)
        described = i.PartsDescribed(tools=tuple(TOOLS[name] for name in names))
        self.must(described, lambda m: m.describe("tools", names))

    @rule(policy=st.sampled_from(sorted(POLICIES)))
    def describe_policy(self, policy):
        described = i.PartsDescribed(policy=POLICIES[policy])
        self.must(described, lambda m: m.describe("policy", policy))

    # -- who drives ------------------------------------------------------------------------------

    @rule()
    def run_step(self):
        self.must(i.RunStep(), lambda m: m.run("step"))

    @rule()
    def run_turn(self):
        self.must(i.RunTurn(), lambda m: m.run("turn"))

    @rule()
    def interrupt(self):
        self.must(i.InterruptTurn(), lambda m: m.interrupt())

    @rule(reason=texts)
    def cancel_calls(self, reason):
        self.must(i.CancelCalls(reason), lambda m: m.cancel_calls(reason))

    @rule(turn=st.sampled_from([0, 0, 1, 2]), reason=texts)
    def cancel_turn(self, turn, reason):
        self.must(i.CancelTurn(turn, reason), lambda m: m.cancel_turn(turn, reason))

    @rule()
    def driver_leaves(self):
        self.must(i.DriverLeft(), lambda m: m.driver_left())

    @rule()
    def finish(self):
        self.must(i.FinishSession(), lambda m: m.finish())

    # -- the model -------------------------------------------------------------------------------

    @precondition(lambda self: self.model.in_flight)
    @rule(text=texts, counted=st.booleans())
    def model_says(self, text, counted):
        response = ModelResponse.of_text(text, Usage(12, 3) if counted else None)
        settled = i.ModelSettled(self.model.in_flight, response)
        self.must(settled, lambda m: m.answer(text, [], counted), answers=True)

    @precondition(lambda self: self.model.in_flight)
    @rule(text=texts, asked=st.lists(proposals, min_size=1, max_size=3))
    def model_asks(self, text, asked):
        response = ModelResponse.of_calls(*asked, content=Text(text))
        settled = i.ModelSettled(self.model.in_flight, response)
        self.must(settled, lambda m: m.answer(text, asked, False), answers=True)

    @precondition(lambda self: self.model.in_flight)
    @rule()
    def model_fails(self):
        settled = i.ModelSettled(self.model.in_flight, failure=i.Failure("no answer"))
        self.must(settled, lambda m: m.fail(), answers=True)

    @rule(numbers=st.lists(st.integers(0, 255), min_size=1, max_size=9))
    def go_on(self, numbers):
        """Whatever carries the session on, several times: the other rules seldom get this deep."""
        for n in numbers:
            self.carry_on(n)

    def carry_on(self, n: int) -> None:
        model, text = self.model, f"said {n}"
        running = [one for one in model.calls if one.status == "running"]
        if model.in_flight and n % 5:
            asked = [ToolCall(f"c{n}_{m}", PLAIN[(n + m) % 5], Json("{}")) for m in range(n % 5)]
            self.model_asks(text, asked)
        elif model.in_flight:
            self.model_says(text, n % 2 == 0)
        elif any(one.status == "judging" for one in model.calls):
            self.code_judges(("allow", "ask", None, "deny")[n % 4], text)
        elif running and model.phase == "executing":
            self.tool_answers(n, text, n % 7 == 0, n % 11 == 0)
        elif model.questions:
            question = model.questions[n % len(model.questions)]
            if question.kind == "permission":
                self.decide(n, "deny" if n % 4 == 3 else "allow", text)
            elif n % 3:
                self.settle(model.calls.index(model.call(question.call)), text, n % 5 == 0)
            else:
                self.retry(model.calls.index(model.call(question.call)))
        elif not model.has_model():
            self.describe_model(True)
        elif not any(item.state == "active" for item in model.items.values()):
            self.push([ContextItem.user(text)])
        elif n % 3:
            self.run_turn()
        else:
            self.run_step()

    # -- the policy and people -------------------------------------------------------------------

    @precondition(lambda self: any(one.status == "judging" for one in self.model.calls))
    @rule(verdict=st.sampled_from([None, "allow", "allow", "ask", "deny"]), why=texts)
    def code_judges(self, verdict, why):
        one = next(one for one in self.model.calls if one.status == "judging")
        judged = i.CallJudged(one.effect, verdict, why)
        self.must(judged, lambda m: m.judged(one, verdict, why), answers=True)

    @precondition(lambda self: any(one.status == "judging" for one in self.model.calls))
    @rule()
    def code_fails_to_judge(self):
        one = next(one for one in self.model.calls if one.status == "judging")
        failed = i.CallJudged(one.effect, failure="the policy raised")
        self.must(failed, lambda m: m.judging_failed(one), answers=True)

    @precondition(lambda self: self.model.questions)
    @rule(place=numbers, grant=st.sampled_from(["allow", "allow", "deny"]), why=texts)
    def decide(self, place, grant, why):
        id = self.model.questions[place % len(self.model.questions)].id
        self.must(i.DecidePermission(id, grant, reason=why), lambda m: m.decide(id, grant, why))

    @rule(id=numbers)
    def decide_anything(self, id):
        self.must(i.DecidePermission(id, "allow"), lambda m: m.decide(id, "allow", ""))

    # -- the tools -------------------------------------------------------------------------------

    @precondition(running)
    @rule(place=numbers, text=texts, is_error=st.booleans(), crashed=st.booleans())
    def tool_answers(self, place, text, is_error, crashed):
        left = [one for one in self.model.calls if one.status == "running" and one.effect]
        one = left[place % len(left)]
        settled = i.ToolSettled(one.effect, ToolOutput(Text(text), is_error), crashed)

        def says(model: Model) -> None:
            model.tool_answered(one, Text(text), is_error, crashed)

        self.must(settled, says, answers=True)

    @precondition(lambda self: self.model.adrift)
    @rule(place=numbers)
    def tool_answers_late(self, place):
        effect = sorted(self.model.adrift)[place % len(self.model.adrift)]
        settled = i.ToolSettled(effect, ToolOutput(Text("after all")))
        self.must(settled, lambda m: m.late(effect), answers=True)

    @precondition(lambda self: any(one.effect for one in self.model.questions))
    @rule(found=st.none() | texts)
    def tool_reconciles(self, found):
        question = next(one for one in self.model.questions if one.effect)
        output = None if found is None else ToolOutput(Text(found))
        reconciled = i.OutcomeReconciled(question.effect, output)
        self.must(reconciled, lambda m: m.reconciled(question, found), answers=True)

    @precondition(lambda self: self.answers)
    @rule(place=numbers)
    def an_answer_comes_again(self, place):
        self.must(self.answers[place % len(self.answers)], lambda m: None)

    @rule(kind=st.sampled_from([i.ModelSettled, i.ToolSettled, i.CallJudged]))
    def an_answer_to_nothing(self, kind):
        given = {"response": ModelResponse.of_text("?")} if kind is i.ModelSettled else {}
        given |= {"output": ToolOutput(Text("?"))} if kind is i.ToolSettled else {}
        self.must(kind("0.7", **given), lambda m: None)

    # -- crashes ---------------------------------------------------------------------------------

    @rule(has_model=st.booleans(), policy=st.none() | st.sampled_from(sorted(POLICIES)))
    def crash(self, has_model, policy):
        state = initial(LOG, NAME)
        for commit in self.core.commits:
            state = fold(state, decode_commit(encode_commit(commit)[0]).events)
        assert state == self.core.state
        self.core.state, self.core.reducer = state, Reducer()
        opened = i.SessionOpened(
            model=MODEL if has_model else None,
            tools=tuple(TOOLS.values()),
            policy=None if policy is None else POLICIES[policy],
        )
        self.must(opened, lambda m: m.reopen(has_model, policy))

    @precondition(lambda self: self.model.calls)
    @rule(place=numbers, text=texts, is_error=st.booleans())
    def settle(self, place, text, is_error):
        id = self.model.calls[place % len(self.model.calls)].id
        settled = i.SettleOutcome(id, ToolOutput(Text(text), is_error))
        self.must(settled, lambda m: m.settle(id, text, is_error))

    @precondition(lambda self: self.model.calls)
    @rule(place=numbers)
    def retry(self, place):
        id = self.model.calls[place % len(self.model.calls)].id
        self.must(i.RetryOutcome(id), lambda m: m.retry(id))

    # -- whatever was said -----------------------------------------------------------------------

    @invariant()
    def the_items_are_those_that_must_be_there(self):
        context = self.core.state.context
        assert list(present(context)) == [item for _, item in sorted(self.model.items.items())]
        assert context.next_id == self.model.next_item
        assert [len(context.undo), len(context.redo)] == [
            len(self.model.undo),
            len(self.model.redo),
        ]

    @invariant()
    def sums_are_sums(self):
        context = self.core.state.context
        there = present(context)
        assert context.count == len(there)
        assert context.tokens == self.model.tokens()
        assert context.tokens + context.withheld == sum(item.tokens for item in there)

    @invariant()
    def the_loop_stands_where_it_must(self):
        loop = self.core.state.loop
        assert name_of(loop.phase) == self.model.phase
        assert [loop.turn, loop.is_open, loop.is_interrupted, loop.drive, loop.requests] == [
            self.model.turn,
            self.model.is_open,
            self.model.flag,
            self.model.drive or "none",
            self.model.requests,
        ]

    @invariant()
    def outstanding_is_announced_and_not_settled(self):
        assert set(outstanding(self.core.state)) == self.model.outstanding()

    @invariant()
    def questions_are_those_that_are_open(self):
        asked = [(one.id, one.kind, one.call) for one in self.core.state.questions.open]
        assert asked == [(one.id, one.kind, one.call) for one in self.model.questions]
        assert self.core.state.questions.next_id == self.model.next_question

    @invariant()
    def the_request_answers_every_call(self):
        drawn = self.core.reducer.draw(self.core.state)
        assert pairing_problem(drawn.request.messages) is None

    def teardown(self) -> None:
        """The log explains it all: judged again it says the same, and the state survives."""
        values = [encode_commit(commit)[0] for commit in self.core.commits]
        header = Header(LOG, NAME, None, "nachalnik 0.1.0")
        assert redrive(header, iter(values), bytes.fromhex).divergence is None
        raw = encode_state(self.core.state)
        assert decode_state(raw) == self.core.state
        assert encode_state(decode_state(raw)) == raw


Session.TestCase.settings = examples(50, stateful_step_count=40)
TestSession = Session.TestCase


# -- further than a search that looks for small examples ---------------------------------------


class Wanderer(Session):
    """Walks at random, by the same rules and against the same model."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = Random(seed)
        pick = self.chance.choice
        self.open(pick(sorted(POLICIES)), pick([0, 2, 16]), pick([None, 1, 3]), pick([True, False]))

    def walk(self, steps: int) -> None:
        for _ in range(steps):
            self.wander()
            for check in INVARIANTS:
                check(self)
        self.teardown()

    def wander(self) -> None:
        pick, n, m = self.chance.choice, self.chance.randrange(16), self.chance.randrange(256)
        model, text = self.model, self.chance.choice(TEXTS)
        match pick(range(44)):
            case 0:
                self.push([self.an_item() for _ in range(n % 4)])
            case 1:
                self.supersede(n, self.an_item())
            case 2 | 3:
                self.set_state([n, m % 16, n], pick(STATES), pick([None, "why"]))
            case 4:
                self.replace(n, text)
            case 5:
                self.annotate(n, pick(["", '{"n":1}']))
            case 6 | 7:
                self.undo()
            case 8:
                self.redo()
            case 9:
                self.describe_tools(pick([True, False, False]))
            case 10:
                self.describe_policy(pick(sorted(POLICIES)))
            case 11:
                self.describe_model(pick([True, True, False]))
            case 12:
                self.run_step()
            case 13:
                self.interrupt()
            case 14:
                self.cancel_calls(text)
            case 15:
                self.cancel_turn(pick([0, 0, model.turn]), text)
            case 16 | 17:
                self.driver_leaves()
            case 18:
                self.crash(pick([True, True, False]), pick([None, *sorted(POLICIES)]))
            case 19 if model.calls:
                self.settle(n, text, n % 2 == 0)
            case 20 | 21 if model.calls:
                self.retry(n)
            case 22 if model.adrift:
                self.tool_answers_late(n)
            case 23 if self.answers:
                self.an_answer_comes_again(m)
            case 24 if any(one.effect for one in model.questions):
                self.tool_reconciles(pick([None, "found"]))
            case 25 if running(self):
                self.tool_answers(n, text, n % 2 == 0, n % 3 == 0)
            case 26 if n == 0:
                self.finish()
            case 27:
                self.reserve([pick(["u0", "a", "call_0"]), f"c{m}_0"])
            case 28 if model.in_flight:
                ids = ("", "a", "b", "u0", "call_0", "a")
                asked = [ToolCall(ids[n % 6], PLAIN[n % 5], Json(pick(ARGUMENTS)))] * (1 + n % 2)
                self.model_asks(text, asked)
            case 30 | 31 | 32 | 33 if model.phase in ("idle", "finished"):
                pick([self.undo, self.undo, self.redo])()
            case 29 if any(one.status == "judging" for one in model.calls):
                self.code_fails_to_judge()
            case _:
                self.carry_on(m)

    def an_item(self) -> ContextItem:
        pick = self.chance.choice
        id, text = pick(["u0", "u1", "u2"]), pick(TEXTS)
        item = pick(
            [
                ContextItem.user(text),
                ContextItem.file("a.txt", text),
                ContextItem.tool_result(id, "add", text),
                ContextItem.assistant(text, (_pushed_call(id),)),
            ]
        )
        return item.with_state(pick(["active", "active", *STATES]))


INVARIANTS = (
    Session.the_items_are_those_that_must_be_there,
    Session.sums_are_sums,
    Session.the_loop_stands_where_it_must,
    Session.outstanding_is_announced_and_not_settled,
    Session.questions_are_those_that_are_open,
    Session.the_request_answers_every_call,
)


@pytest.mark.accepts(107)
@pytest.mark.parametrize("seed", range(12))
def test_a_long_session(seed):
    Wanderer(seed).walk(150)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_very_long_sessions(seed):
    Wanderer(seed).walk(800)
