"""Provider, tools, policy, seams and parameters: what is announced, returned, put back."""

import re

import pytest

from effects.parts import SeamMissing
from effects.replay import redrive
from nachalnik import Config, ContextItem, Kernel, ModelInfo, Rules, Text
from reducers.codec import decode_header
from reducers.linear import Projection
from reducers.projection import LinearProjector
from reducers.tokens import BytesPerToken
from reducers.vocabulary.errors import InvalidInput, NoProvider, SeamFailed
from reducers.vocabulary.messages import Message
from reducers.vocabulary.phases import Finished, Idle
from tests.effects.shell import Model, Policy, Tool, calls, kernel, named, names, said, sound


def since(k, before):
    return names(k, since=before, all=False)


# -- provider ----------------------------------------------------------------------------------


@pytest.mark.accepts(369)
def test_set_and_clear_provider_return_what_was_and_always_tell():
    k = Kernel(Config(session_name="demo"))
    first, second = Model(), Model(info=ModelInfo("scripted", "m2"))
    assert k.set_provider(first) is None
    assert k.set_provider(first) is first
    assert k.set_provider(second) is first
    assert k.clear_provider() is second
    assert k.clear_provider() is None
    changes = [(one["from"], one["to"]) for one in named(k, "model.changed")]
    models = [(old and old["model"], new and new["model"]) for old, new in changes]
    assert models == [(None, "m1"), ("m1", "m1"), ("m1", "m2"), ("m2", None), (None, None)]
    assert k.model_info() is None
    sound(k)


@pytest.mark.accepts(370, 371)
def test_a_provider_that_switched_in_place_is_announced_once():
    k = kernel()
    assert not k.provider_changed()
    k.provider().described = ModelInfo("scripted", "m2")
    assert k.provider_changed()
    assert not k.provider_changed()
    assert k.model_info().model == "m2"
    k.clear_provider()
    assert not k.provider_changed()
    # `from` is what was announced last, whatever the outgoing object says now.
    k.set_provider(Model())
    k.provider().described = ModelInfo("scripted", "m9")
    k.clear_provider()
    assert named(k, "model.changed")[-1]["from"]["model"] == "m1"


@pytest.mark.accepts(369)
@pytest.mark.anyio
async def test_without_a_provider_a_step_raises_and_says_nothing():
    k = kernel(said("x"))
    k.clear_provider()
    before = k.position
    with pytest.raises(NoProvider):
        await k.step()
    with pytest.raises(NoProvider):
        k.preview_payload()
    assert k.position == before
    assert len(k.preview_request().messages) == 1


@pytest.mark.anyio
async def test_a_provider_that_cannot_describe_itself_stops_the_step_before_it_begins():
    k = kernel(said("x"))
    k.provider().described = "m1"
    before = k.position
    with pytest.raises(InvalidInput):
        await k.step()
    with pytest.raises(InvalidInput):
        k.set_provider(k.provider())
    assert (k.position, k.state()) == (before, Idle())
    sound(k)


# -- tools -------------------------------------------------------------------------------------


def test_tools_are_kept_by_id_and_told_sorted():
    k = Kernel(Config(session_name="demo"))
    a, b, other = Tool("a"), Tool("b"), Tool("a", capabilities=("fs:read",))
    assert k.add_tool(b) is None
    assert k.add_tool(a) is None
    assert k.add_tool(other) is a
    assert (k.tool("a"), k.tool("c")) == (other, None)
    assert k.tool_ids() == ["a", "b"]
    assert [spec.id for spec in k.tool_specs()] == ["a", "b"]
    assert k.tool_specs()[0].capabilities == ("fs:read",)
    before = k.position
    assert k.remove_tool("c") is None
    assert k.position == before
    assert k.remove_tool("b") is b
    told = [[spec["id"] for spec in one["tools"]] for one in named(k, "tools.changed")]
    assert told == [["b"], ["a", "b"], ["a", "b"], ["a"]]
    sound(k)


@pytest.mark.accepts(413, 427)
@pytest.mark.anyio
async def test_a_call_to_an_unknown_tool_is_told_what_there_is():
    k = kernel(calls("zip"), said("x"), tools=[Tool("b"), Tool("a")])
    assert await k.turn() == Finished(4, "end_turn")
    assert k.item(3).kind.is_error
    text = k.item(3).content.text
    assert "No such tool" in text
    assert "zip" in text
    assert "a, b" in text
    assert len(named(k, "tool.unknown")) == 1
    bare = kernel(calls("zip"), said("x"))
    await bare.turn()
    assert "no tools" in bare.item(3).content.text


# -- policy ------------------------------------------------------------------------------------


@pytest.mark.accepts(171)
def test_set_policy_returns_what_was_and_tells_both_names():
    k = Kernel(Config(session_name="demo"))
    first, second = Rules(allow=["*"]), Policy()
    assert k.set_policy(first) is None
    assert k.set_policy(first) is first
    assert k.set_policy(second) is first
    assert k.policy() is second
    changes = [(one["from"], one["to"]["name"]) for one in named(k, "policy.changed")]
    assert changes == [
        ("AskAlways", "Rules"),
        ("Rules", "Rules"),
        ("Rules", "tests.effects.shell.Policy"),
    ]
    sound(k)


# -- parameters --------------------------------------------------------------------------------


@pytest.mark.accepts(368, 433)
@pytest.mark.anyio
async def test_parameters_go_verbatim_and_equal_ones_are_silence():
    k = kernel(said("x"))
    assert k.set_params({"temperature": 0.5}) == {}
    before = k.position
    assert k.set_params({"temperature": 0.5}) == {"temperature": 0.5}
    assert k.position == before
    assert k.set_params('{"top_p":1}') == {"temperature": 0.5}
    assert k.params() == {"top_p": 1}
    assert k.preview_request().params == '{"top_p":1}'
    for wrong in ("[1]", "nonsense", '{"a":1,"a":2}'):
        with pytest.raises(InvalidInput, match="not one JSON object"):
            k.set_params(wrong)
    assert [one["params"] for one in named(k, "model.params")] == [
        {"temperature": 0.5},
        {"top_p": 1},
    ]
    sound(k)


# -- seams -------------------------------------------------------------------------------------


class Last(LinearProjector):
    """Sends the last item alone."""

    def project(self, items):
        items = list(items)
        return super().project(items[-1:])


class Broken(LinearProjector):
    def project(self, items):
        raise LookupError("the projector is broken")


class Unpaired(LinearProjector):
    """A call without its answer."""

    def project(self, items):
        from nachalnik import ToolCall

        turn = Message("assistant", Text(""), tool_calls=(ToolCall("c1", "a", "{}"),))
        return Projection((turn,), (1,), ())


class Nonsense(LinearProjector):
    lists = ("messages", "included", "skipped")

    def project(self, items):
        return Projection(*self.lists)


class Fractions(BytesPerToken):
    def price(self, raw, calibration):
        return raw / 2


class Worn(BytesPerToken):
    def count_item(self, item):
        if "wear" in str(item.content):
            raise ArithmeticError("the counter is worn")
        return super().count_item(item)


@pytest.mark.accepts(439)
@pytest.mark.anyio
async def test_a_projector_of_ones_own_is_what_is_previewed_sent_and_recorded(tmp_path):
    path = tmp_path / "demo.jsonl"
    provider = Model(said("x"), said("y"))
    with Kernel.open(path, provider=provider, durability="memory") as k:
        k.push_all([ContextItem.user("one"), ContextItem.user("two")])
        mine = Last()
        assert type(k.set_projector(mine)) is LinearProjector
        assert k.projector() is mine
        (changed,) = named(k, "projector.changed")
        assert changed["from"] == "reducers.projection:LinearProjector"
        assert changed["to"] == f"{__name__}:Last"
        assert [one.content for one in k.preview_request().messages] == [Text("two")]
        await k.turn()
        assert [one.content for one in provider.requests[0]] == [Text("two")]
        sound(k)
    with Kernel.open(path, provider=provider, durability="memory") as k:
        assert type(k.projector()) is Last
        k.push(ContextItem.user("three"))
        await k.turn()
        assert [one.content for one in provider.requests[1]] == [Text("three")]
        sound(k)


@pytest.mark.anyio
async def test_a_projector_that_raises_fails_the_step_with_its_own_exception():
    k = kernel(said("x"))
    k.set_projector(Broken())
    with pytest.raises(LookupError, match="the projector is broken"):
        await k.turn()
    assert named(k, "step.failed")[0]["error"] == "the projector is broken"
    assert (k.state(), k.provider().requests) == (Idle(), [])
    k.set_projector(LinearProjector())
    assert await k.turn() == Finished(2, "end_turn")


@pytest.mark.anyio
async def test_a_projector_that_breaks_pairing_is_not_sent():
    k = kernel(said("x"))
    k.set_projector(Unpaired())
    with pytest.raises(SeamFailed, match="c1"):
        await k.turn()
    assert len(named(k, "step.failed")) == 1
    assert k.provider().requests == []
    sound(k)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "lists",
    [
        (("text",), (), ()),
        ((Message("user", Text("x")),), ("one",), ()),
        ((Message("user", Text("x")),), (1,), ("because",)),
        ((Message("user", Text("x")),), (1,), (), (3,)),
        (None, (), ()),
    ],
)
async def test_a_projector_that_makes_nonsense_is_not_recorded(lists):
    k = kernel(said("x"))
    k.set_projector(Nonsense())
    Nonsense.lists = lists
    with pytest.raises((SeamFailed, AttributeError, TypeError)):
        await k.turn()
    assert k.state() == Idle()
    assert k.provider().requests == []
    sound(k, redriven=False)


@pytest.mark.anyio
async def test_a_projector_that_fails_behind_an_answer_loses_no_answer():
    """What was absorbed is recorded: the result stays, the next request is what failed."""
    k = kernel(calls("a"), said("x"), tools=[Tool("a")])

    async def breaking(call, sink):
        k.set_projector(Broken())
        return "the only copy"

    k.tool("a").act = breaking
    with pytest.raises(LookupError, match="the projector is broken"):
        await k.turn()
    assert k.item(3).content == Text("the only copy")
    assert names(k)[-2:] == ["step.failed", "state.changed"]
    k.set_projector(LinearProjector())
    assert await k.turn() == Finished(4, "end_turn")
    sound(k)


@pytest.mark.anyio
async def test_a_counter_of_ones_own_measures_everything_anew(tmp_path):
    path = tmp_path / "demo.jsonl"
    with Kernel.open(path, durability="memory") as k:
        k.push(ContextItem.user("x" * 40))
        before = k.position
        mine = BytesPerToken(1)
        k.set_counter(mine)
        assert k.counter() is mine
        assert since(k, before) == ["counter.changed", "context.recounted"]
        assert k.item(1).tokens == k.tokens() == 40
        recounted = named(k, "context.recounted")[-1]
        assert (recounted["tokens_before"], recounted["tokens_after"]) == (10, 40)
        sound(k)
    with Kernel.open(path, durability="memory") as k:
        assert k.counter().bytes_per_token == 1
        k.push(ContextItem.user("y" * 10))
        assert k.item(2).tokens == 10
        sound(k)


def test_a_counter_that_gives_no_integers_is_refused_and_nothing_is_written():
    k = kernel()
    k.set_counter(BytesPerToken())
    k._writer.reducer.counter = Fractions()
    before = k.position
    with pytest.raises(SeamFailed, match="no integer"):
        k.push(ContextItem.user("x"))
    assert k.position == before


@pytest.mark.anyio
async def test_a_counter_that_fails_on_an_answer_loses_no_answer():
    k = kernel(said("wear and tear"))
    k.set_counter(Worn())
    with pytest.raises(ArithmeticError, match="the counter is worn"):
        await k.turn()
    assert k.item(2).content == Text("wear and tear")
    assert k.item(2).uncounted == 1
    with pytest.raises(ArithmeticError):
        k.push(ContextItem.user("wear"))
    sound(k)


def test_what_is_no_seam_is_refused():
    k = kernel()
    before = k.position
    with pytest.raises(InvalidInput, match="no method project"):
        k.set_projector("a projector")
    with pytest.raises(InvalidInput, match="no method count_item"):
        k.set_counter(LinearProjector())
    assert k.position == before


def test_a_seam_that_cannot_be_imported_lives_as_long_as_its_process(tmp_path):
    class Local(LinearProjector):
        pass

    path = tmp_path / "demo.jsonl"
    with Kernel.open(path, durability="memory") as k:
        mine = Local()
        k.set_projector(mine)
        k.push(ContextItem.user("x"))
        assert k.projector() is mine
    before = path.read_bytes()
    with pytest.raises(SeamMissing, match=r"Local.*cannot be loaded"):
        Kernel.open(path, durability="memory")
    assert path.read_bytes() == before
    with Kernel.open(path, durability="memory", projector=Local()) as k:
        assert type(k.projector()) is Local
        assert len(k.items()) == 1


def test_another_seam_given_on_opening_is_a_change_in_the_log(tmp_path):
    path = tmp_path / "demo.jsonl"
    with Kernel.open(path, durability="memory", counter=BytesPerToken(1)) as k:
        k.push(ContextItem.user("x" * 40))
    with Kernel.open(path, durability="memory", projector=Last()) as k:
        assert k.counter().bytes_per_token == 1
        assert len(named(k, "projector.changed")) == 1
        assert named(k, "counter.changed") == []
        sound(k)
    with Kernel.open(path, durability="memory", projector=Last()) as k:
        assert len(named(k, "projector.changed")) == 1
        sound(k)


def test_a_missing_seam_leaves_the_other_one_as_the_log_names_it(tmp_path):
    class Local(LinearProjector):
        pass

    path = tmp_path / "demo.jsonl"
    options = {"durability": "memory"}
    with Kernel.open(path, projector=Local(), counter=BytesPerToken(1), **options) as k:
        k.push(ContextItem.user("x" * 40))
    with Kernel.open(path, projector=Last(), **options) as k:
        assert k.counter().bytes_per_token == 1
        k.push(ContextItem.user("y" * 10))
        assert k.item(2).tokens == 10


def test_the_log_judges_again_under_the_seams_of_each_moment():
    k = kernel()
    k.set_counter(BytesPerToken(1))
    k.push(ContextItem.user("x" * 40))
    k.set_counter(BytesPerToken(2))
    k.push(ContextItem.user("x" * 40))
    k.set_projector(Last())
    assert [item.tokens for item in k.items()] == [1, 20, 20]
    found = redrive(decode_header(k._log.header), k._log.values(), k._log.content)
    assert (found.divergence, found.commits) == (None, k.position)


# -- what is no part, and what JSON cannot say --------------------------------------------------


@pytest.mark.parametrize(
    ("give", "says"),
    [
        (lambda k: k.set_provider(None), "NoneType is no provider: it has no method info, respond"),
        (lambda k: k.add_tool(len), "is no tool (@tool makes one of a function): it has no method"),
        (lambda k: k.set_policy("nope"), "str is no policy: it has no method evaluate"),
        (lambda k: k.set_params({"temperature": float("nan")}), "a parameter cannot be recorded"),
        (lambda k: k.annotate(1, object()), "the metadata cannot be recorded: "),
        (lambda k: k.replace(1, {"a": {1, 2}}), "the content cannot be recorded: "),
        (lambda k: k.cancel(0), "0 is not the number of a turn"),
    ],
)
def test_what_cannot_be_used_is_refused_and_named(give, says):
    k = Kernel()
    k.push(ContextItem.user("go"))
    before = k.position
    with pytest.raises(InvalidInput, match=re.escape(says)):
        give(k)
    assert k.position == before


def test_no_log_is_begun_for_tools_that_cannot_be_used(tmp_path):
    twice = [Tool("a"), Tool("a")]
    with pytest.raises(InvalidInput, match="two tools are named 'a'"):
        Kernel.open(tmp_path / "s.jsonl", tools=twice)
    assert list(tmp_path.iterdir()) == []
