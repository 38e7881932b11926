"""What tools, providers and policies may answer, and what becomes of it."""

import asyncio

import anyio
import pytest

from effects.ports import ProviderFailure, StreamTruncated, ToolError
from nachalnik import ModelResponse, Rules, Text, ToolCall
from reducers.vocabulary.content import Blob, JsonContent
from reducers.vocabulary.errors import InvalidInput, KernelError, ProviderError, TooLong
from reducers.vocabulary.models import Overrun, Usage
from reducers.vocabulary.phases import Deciding, Finished, Idle
from reducers.vocabulary.tools import ToolOutput
from tests.effects.shell import (
    Model,
    Policy,
    Tool,
    calls,
    kernel,
    named,
    names,
    results,
    said,
    sound,
)

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("parallel", [False, True])


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("it has no words")


# -- tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (b"bytes", "bytes"),
        (None, ""),
        (3, "3"),
        ([1, "zwei", None], '[1,"zwei",null]'),
        ({"größe": 1.5}, '{"größe":1.5}'),
        (True, "true"),
        (ToolOutput("bare text"), "bare text"),
        (ToolOutput({"a": 1}), '{"a":1}'),
        (Text("content"), "content"),
    ],
)
async def test_any_json_value_is_a_result(value, text):
    k = kernel(calls("a"), said("x"), tools=[Tool("a", value)])
    assert await k.turn() == Finished(4, "end_turn")
    assert results(k) == [("c1", text, False)]
    sound(k)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "NaN|not JSON compliant"),
        ([float("inf")], "inf|not JSON compliant"),
        (object(), "object is not JSON serializable"),
        ({1, 2}, "set is not JSON serializable"),
        (ToolOutput(object()), "object is not JSON serializable"),
    ],
)
async def test_what_json_cannot_say_is_an_error_that_names_it(value, words):
    k = kernel(calls("a"), said("x"), tools=[Tool("a", value)])
    assert await k.turn() == Finished(4, "end_turn")
    ((_, text, is_error),) = results(k)
    assert is_error
    assert any(word in text for word in words.split("|"))
    assert named(k, "tool.panicked") == []
    sound(k)


@pytest.mark.parametrize(
    "value",
    [
        Text(7),
        Text(b"bytes"),
        JsonContent("{not json"),
        JsonContent(""),
        Blob("image/png", b"raw"),
        Blob("image/png", "aGk=", meta="{"),
    ],
)
async def test_what_no_log_could_hold_is_an_error_and_the_log_stays_readable(value):
    k = kernel(calls("a"), said("x"), tools=[Tool("a", value)])
    assert await k.turn() == Finished(4, "end_turn")
    ((_, text, is_error),) = results(k)
    assert is_error
    assert text.startswith("The tool returned a value that cannot be recorded: tool.settled: ")
    assert named(k, "tool.panicked") == []
    sound(k)


@pytest.mark.parametrize("status", [2, None, "usage: a [-h]"])
async def test_a_tool_that_exits_is_a_crash_and_the_turn_goes_on(status):
    k = kernel(calls("a"), said("x"), tools=[Tool("a", SystemExit(status))])
    assert isinstance(await k.turn(), Finished)
    ((_, text, is_error),) = results(k)
    assert is_error
    assert f"SystemExit: it tried to end the process, with status {status!r}" in text
    assert len(named(k, "tool.panicked")) == 1


@pytest.mark.parametrize("exits", ["the provider", "the policy"])
async def test_no_part_ends_the_process(exits):
    async def leave(*_):
        raise SystemExit(3)

    k = kernel(leave if exits == "the provider" else calls("a"), tools=[Tool("a")])
    if exits == "the policy":
        k.set_policy(Policy(a=SystemExit(3)))
    with pytest.raises(KernelError, match="tried to end the process, with status 3"):
        await k.turn()
    assert k.state() == Idle()
    sound(k)


@pytest.mark.parametrize(
    ("value", "shown", "count"),
    [
        (b"ok \xff\xfe!", "ok \ufffd\ufffd!", 2),
        ("half \ud800", "half \ufffd", 1),
        (["half \udfff"], '["half \ufffd"]', 1),
    ],
)
async def test_malformed_text_is_mended_with_a_marker(value, shown, count):
    k = kernel(calls("a"), said("x"), tools=[Tool("a", value)])
    await k.turn()
    assert results(k) == [("c1", shown, False)]
    assert f"{count} character(s) were no valid text" in k.item(3).included_because
    sound(k)


@pytest.mark.accepts(414)
@modes
async def test_a_declared_failure_is_a_result_and_the_turn_goes_on(parallel):
    tools = [Tool("a", ToolError("no such file")), Tool("b")]
    k = kernel(calls("a", "b"), said("x"), tools=tools, parallel_tool_calls=parallel)
    assert await k.turn() == Finished(5, "end_turn")
    assert results(k) == [("c1", "no such file", True), ("c2", "done", False)]
    assert named(k, "tool.panicked") == []
    sound(k)


@pytest.mark.accepts(73, 74, 75, 76)
@modes
async def test_a_crash_is_told_and_the_others_go_on(parallel):
    tools = [Tool("a"), Tool("b", ValueError("bad luck")), Tool("c")]
    k = kernel(calls("a", "b", "c"), said("x"), tools=tools, parallel_tool_calls=parallel)
    assert await k.turn() == Finished(6, "end_turn")
    assert results(k) == [
        ("c1", "done", False),
        ("c2", "The tool crashed: ValueError: bad luck.", True),
        ("c3", "done", False),
    ]
    record = names(k)
    place = record.index("tool.panicked")
    assert record[place + 1 : place + 3] == ["context.added", "tool.finished"]
    sound(k)


async def test_a_crash_without_words_is_told_by_its_type():
    for error, text in ((Mute(), "Mute"), (KeyError(), "KeyError"), (StopIteration(), "Stop")):
        k = kernel(calls("a"), said("x"), tools=[Tool("a", error)])
        assert await k.turn() == Finished(4, "end_turn")
        assert text in results(k)[0][1]
        sound(k)


async def test_a_tool_that_is_no_coroutine_crashes():
    class Sync(Tool):
        def invoke(self, call, output):
            return ToolOutput(Text("at once"))

    k = kernel(calls("a"), said("x"), tools=[Sync("a")])
    assert await k.turn() == Finished(4, "end_turn")
    assert "The tool crashed: TypeError" in results(k)[0][1]


@modes
async def test_what_is_no_exception_goes_through_and_the_kernel_goes_on(parallel):
    class Stop(BaseException):
        pass

    tools = [Tool("a", Stop("now")), Tool("b")]
    k = kernel(calls("a", "b"), said("x"), tools=tools, parallel_tool_calls=parallel)
    with pytest.raises(Stop, match="now"):
        await k.turn()
    assert k.state() == Idle()
    assert k.unanswered_calls()[0].call == "c1"
    assert await k.turn() == Finished(5, "end_turn")
    sound(k)


@pytest.mark.accepts(77)
@modes
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_whose_own_wait_was_cancelled_did_not_run_to_completion(parallel):
    """Nobody cancelled the turn, so it is no cancellation of the turn (kernel.md 2.8)."""

    async def waiting(call, sink):
        inner = asyncio.ensure_future(asyncio.sleep(5))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    tools = [Tool("a", waiting), Tool("b")]
    k = kernel(calls("a", "b"), said("x"), tools=tools, parallel_tool_calls=parallel)
    assert await k.turn() == Finished(5, "end_turn")
    assert "did not run to completion" in results(k)[0][1]
    assert results(k)[1] == ("c2", "done", False)
    sound(k)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_of_the_driver_is_one():
    began = asyncio.Event()

    async def waiting(call, sink):
        began.set()
        await asyncio.sleep(5)

    k = kernel(calls("a"), said("x"), tools=[Tool("a", waiting)])
    task = asyncio.ensure_future(k.turn())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.call for one in k.unanswered_calls()] == ["c1"]
    assert results(k) == []


async def test_what_a_provider_mended_is_told_with_its_answer():
    async def reply(request, deltas):
        deltas.mended += 2
        return said("a\ufffd\ufffd")

    k = kernel(reply)
    await k.turn()
    assert "2 character(s) were no valid text" in k.items()[-1].included_because


# -- providers ---------------------------------------------------------------------------------


class Odd(Exception):
    code = 404


@pytest.mark.accepts(204)
@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RuntimeError("no net"), "model.failed", "no net"),
        (RuntimeError(), "model.failed", "RuntimeError"),
        (Mute(), "model.failed", "Mute"),
        (Odd("not found"), "model.failed", "not found"),
        (ProviderFailure("slow down", "model.rate_limited"), "model.rate_limited", "slow down"),
        (StreamTruncated("cut"), "model.stream_truncated", "cut"),
        (ExceptionGroup("several", [ValueError("one")]), "model.failed", "several"),
        (KernelError("from inside"), "model.failed", "from inside"),
    ],
)
async def test_whatever_the_provider_raises_is_a_failed_request(error, code, text):
    k = kernel(error, said("hello"))
    with pytest.raises(ProviderError, match=text) as raised:
        await k.turn()
    assert raised.value.__cause__ is error
    (failed,) = named(k, "model.failed")
    assert (failed["code"], text in failed["error"]) == (code, True)
    assert k.state() == Idle()
    assert [one["to"]["state"] for one in named(k, "state.changed")] == ["requesting", "idle"]
    assert len(k.items()) == 1
    assert await k.turn() == Finished(2, "end_turn")
    sound(k)


@pytest.mark.accepts(205, 274)
async def test_too_long_is_found_in_the_chain_of_causes():
    error = RuntimeError("400 Bad Request")
    error.__cause__ = TooLong(Overrun(9000, 8000), "prompt is too long")
    k = kernel(error)
    with pytest.raises(ProviderError) as raised:
        await k.turn()
    found = TooLong.of(raised.value)
    assert found.overrun == Overrun(9000, 8000)
    (failed,) = named(k, "model.failed")
    assert failed["overrun"] == {"tokens": 9000, "limit": 8000}
    assert failed["code"] == "model.too_long"
    sound(k)


@pytest.mark.accepts(276)
async def test_too_large_a_request_is_refused_here():
    k = kernel(tools=[Tool("a")])
    k.set_provider(Model(info=_small()))
    with pytest.raises(TooLong, match="not sent") as raised:
        await k.turn()
    assert str(raised.value.overrun.tokens) in str(raised.value)
    assert str(raised.value.overrun.limit) in str(raised.value)
    assert names(k)[-2:] == ["step.failed", "state.changed"]
    assert k.provider().requests == []
    sound(k)


def _small():
    from nachalnik import ModelInfo

    return ModelInfo("scripted", "small", 5)


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        "text",
        {"content": "text"},
        ModelResponse(content="bare text"),
        ModelResponse(content=Text(3)),
        ModelResponse(stop=None),
        ModelResponse(calls=[("a", {})]),
        ModelResponse(calls=(ToolCall(None, "a", "{}"),)),
        ModelResponse(calls=(ToolCall("c1", "a", {"x": 1}),)),
        ModelResponse(usage={"input_tokens": "12"}),
        ModelResponse(usage=Usage(input_tokens="12")),
        ModelResponse(content=JsonContent("{")),
        ModelResponse(content=Text("x"), extra="{"),
        ModelResponse(calls=(ToolCall("c1", "a", "{}", extra="nonsense"),)),
    ],
    ids=repr,
)
async def test_nonsense_from_the_provider_is_a_failed_request(nonsense):
    k = kernel(nonsense, said("hello"), tools=[Tool("a")])
    with pytest.raises(ProviderError) as raised:
        await k.turn()
    assert raised.value.__cause__ is not None
    assert len(named(k, "model.failed")) == 1
    assert k.state() == Idle()
    assert await k.turn() == Finished(2, "end_turn")
    sound(k)


async def test_lists_and_plain_objects_are_taken_for_what_they_say():
    """Structs are not checked when they are made, so a list may stand where a tuple should."""
    reply = ModelResponse(calls=[ToolCall("c1", "a", "{}")], usage={"input_tokens": 12})
    k = kernel(reply, said("x"), tools=[Tool("a")])
    assert await k.turn() == Finished(4, "end_turn")
    (usage, _) = [one["usage"] for one in named(k, "model.finished")]
    assert usage["input_tokens"] == 12
    assert k.item(2).kind.tool_calls == (ToolCall("c1", "a", "{}"),)
    sound(k)


async def test_arguments_that_are_no_object_never_reach_the_tool():
    from nachalnik import ModelResponse as Response

    a = Tool("a")
    for args in ("", "nonsense", "[1]", '{"x":NaN}', '{"x":1,"x":2}', '{"x":"\\ud800"}', "null"):
        k = kernel(Response.of_calls(ToolCall("c1", "a", args)), said("x"), tools=[a])
        assert await k.turn() == Finished(4, "end_turn")
        ((_, text, is_error),) = results(k)
        assert is_error
        assert "not one JSON object" in text
        sound(k)
    assert a.runs == []


async def test_half_characters_in_a_reply_are_mended_with_a_marker():
    k = kernel(said("half \ud800"))
    await k.turn()
    assert k.item(2).content == Text("half \ufffd")
    assert "1 character(s)" in k.item(2).included_because
    sound(k)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_provider_whose_own_wait_was_cancelled_has_failed():
    async def waiting(request, sink):
        inner = asyncio.ensure_future(asyncio.sleep(5))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    k = kernel(waiting, said("hello"))
    with pytest.raises(ProviderError, match="cancelled"):
        await k.turn()
    assert await k.turn() == Finished(2, "end_turn")


async def test_what_is_no_exception_goes_through_a_request_too():
    class Stop(BaseException):
        pass

    k = kernel(Stop("now"), said("hello"))
    with pytest.raises(Stop, match="now"):
        await k.turn()
    assert k.state() == Idle()
    assert await k.turn() == Finished(2, "end_turn")
    sound(k)


# -- policies ----------------------------------------------------------------------------------


async def test_a_policy_is_asked_about_each_call_in_order():
    policy = Policy(a="allow", b="deny", c="ask")
    k = kernel(calls("a", "b", "c"), tools=[Tool("a"), Tool("b"), Tool("c")], policy=policy)
    start = k.position
    assert await k.turn() == Deciding((3,))
    assert [(one.id, one.call, one.tool) for one in policy.requests] == [
        (1, "c1", "a"),
        (2, "c2", "b"),
        (3, "c3", "c"),
    ]
    spoken = [one for one in names(k, since=start, all=False) if one.startswith("permission")]
    assert spoken == ["permission.decided", "permission.decided", "permission.requested"]
    sound(k)


@pytest.mark.accepts(381, 383, 384, 385, 390)
async def test_why_is_asked_of_refusals_only_and_with_the_same_request():
    asked = []

    class Explaining(Policy):
        def why(self, request):
            asked.append(request)
            return f"not {request.tool}"

    policy = Explaining(a="allow", b="deny", c="ask")
    tools = [Tool("a"), Tool("b"), Tool("c")]
    k = kernel(calls("a", "b", "c"), said("x"), tools=tools, policy=policy)
    assert await k.turn() == Deciding((3,))
    k.decide(3, "deny")
    assert await k.turn() == Finished(6, "end_turn")
    assert asked == [policy.requests[1]]
    assert asked[0] is policy.requests[1]
    by_rule, by_person = (text for _, text, _ in results(k)[1:])
    assert "Not permitted" in by_rule
    assert "not b" in by_rule
    assert "is a standing rule" in by_rule
    assert "not a standing rule" in by_person
    assert "not c" not in by_person
    assert "  " not in by_rule + by_person
    assert [one["call"] for one in named(k, "tool.started")] == ["c1"]
    decided = [(one["call"], one["grant"], one["source"]) for one in named(k, "permission.decided")]
    assert ("c2", "deny", "policy") in decided
    assert ("c3", "deny", "user") in decided


@pytest.mark.accepts(78)
@pytest.mark.parametrize("where", ["evaluate", "why", "needs", "limit"])
@modes
async def test_its_own_exception_comes_out_and_the_next_turn_is_fine(where, parallel):
    trouble = LookupError("the list of rules is gone")
    healed = []

    def fail(*_):
        if not healed:
            raise trouble

    policy, a = Policy(a=_failing(fail)) if where == "evaluate" else Policy(a="deny"), Tool("a")
    if where == "why":
        policy.why = fail
    elif where in ("needs", "limit"):
        setattr(a, where, lambda call: fail() or ([] if where == "needs" else None))
    k = kernel(
        calls("b", "a"),
        said("x"),
        tools=[a, Tool("b")],
        policy=policy,
        parallel_tool_calls=parallel,
    )
    with pytest.raises(LookupError) as raised:
        await k.turn()
    assert raised.value is trouble
    assert k.state() == Idle()
    assert named(k, "step.failed")[0]["error"] == "the list of rules is gone"
    healed.append(True)
    assert await k.turn() == Finished(5, "end_turn")
    assert all("was not run" in text for _, text, _ in results(k))
    sound(k)


def _failing(fail):
    async def evaluate(request):
        fail()
        return "allow"

    return evaluate


@pytest.mark.parametrize(
    ("verdict", "words"), [("yes", "say allow, ask or deny"), (None, "say allow, ask or deny")]
)
async def test_a_verdict_nobody_knows_is_a_fault(verdict, words):
    k = kernel(calls("a"), said("x"), tools=[Tool("a")], policy=Policy(a=_giving(verdict)))
    with pytest.raises(InvalidInput, match=words):
        await k.turn()
    assert k.state() == Idle()
    sound(k)


def _giving(verdict):
    async def evaluate(request):
        return verdict

    return evaluate


@pytest.mark.parametrize(
    ("method", "value"),
    [("needs", "fs:read"), ("needs", [7]), ("needs", None), ("limit", "many"), ("limit", 1.5)],
)
async def test_what_a_tool_says_of_a_call_must_make_sense(method, value):
    a = Tool("a", capabilities=("fs:read",))
    setattr(a, method, lambda call: value)
    k = kernel(calls("a"), said("x"), tools=[a])
    with pytest.raises((InvalidInput, TypeError)):
        await k.turn()
    assert k.state() == Idle()
    assert a.runs == []
    assert await k.turn() == Finished(4, "end_turn")
    sound(k)


@pytest.mark.accepts(391, 428, 430)
async def test_needs_are_what_the_rules_judge_and_what_the_label_says():
    a = Tool("a", capabilities=("fs:read", "fs:write"))
    a.needs = lambda call: ["fs:read"]
    a.limit = lambda call: 10
    a.act = "x" * 100
    rules = Rules(allow=["fs:read"], deny=["fs:write"])
    k = kernel(calls("a"), said("x"), tools=[a], policy=rules)
    assert await k.turn() == Finished(5, "end_turn")
    assert [item.label for item in k.items()[2:4]] == ["a:fs:read".replace("fs:", "")] * 2
    assert named(k, "tool.finished")[0]["truncated"] == 90
    sound(k)


async def test_a_fault_while_others_run_stops_them():
    """A log that takes no more is a fault; the calls that still run are not left alone."""
    from effects.logs.port import LogUnusable

    stopped = []

    async def waiting(call, sink):
        try:
            await anyio.sleep(5)
        except anyio.get_cancelled_exc_class():
            stopped.append(call.id)
            raise

    async def closing(call, sink):
        await anyio.lowlevel.checkpoint()
        k._log.close()
        return "done"

    tools = [Tool("a", closing), Tool("b", waiting)]
    k = kernel(calls("a", "b"), tools=tools, parallel_tool_calls=True)
    with pytest.raises(LogUnusable):
        await k.turn()
    assert stopped == ["c2"]
