"""`@tool`: forms of the decorator, the schema, threads, sinks, keys, reconcilers."""

import functools
import json
import threading

import anyio
import pytest

from effects.ports import OutputSink, ToolError
from effects.tools.function import FunctionTool, tool
from nachalnik import ModelResponse, Rules, ToolOutput
from reducers.vocabulary.content import JsonContent, Text, ToolCall
from reducers.vocabulary.errors import InvalidInput
from tests.effects.shell import call, calls, kernel, named, results, said, sound

pytestmark = pytest.mark.anyio


@tool
def add(x: int, y: int = 2) -> int:
    """Add two integers."""
    return x + y


async def invoked(made, args="{}", sink=None):
    return await made.invoke(ToolCall("c1", made.spec().id, args), sink or OutputSink())


# -- making ------------------------------------------------------------------------------------


async def test_the_spec_comes_from_the_signature():
    spec = add.spec()
    assert (spec.id, spec.description) == ("add", "Add two integers.")
    assert json.loads(spec.schema) == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 2}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert (spec.capabilities, spec.output_limit, spec.idempotent) == ((), None, False)
    assert (spec.reconciles, spec.judged) == (False, False)


async def test_it_stays_the_function_it_was():
    assert add(1, 2) == 3
    assert add(x=1) == 3
    assert isinstance(add, FunctionTool)


async def test_the_decorator_with_words():
    @tool(
        id="plus",
        description="Adds.",
        capabilities=["fs:read", "net:get"],
        output_limit=10,
        idempotent=True,
    )
    def other(x: int) -> int:
        """Never shown."""
        return x

    spec = other.spec()
    assert (spec.id, spec.description, spec.output_limit) == ("plus", "Adds.", 10)
    assert (spec.capabilities, spec.idempotent) == (("fs:read", "net:get"), True)


async def test_without_a_docstring_the_name_describes_it():
    @tool()
    def lonely() -> None:
        return None

    assert lonely.spec().description == "lonely"


async def test_a_plain_call_of_the_decorator_and_a_method():
    class Box:
        def __init__(self, value):
            self.value = value

        def get(self, times: int = 1) -> str:
            """Get it."""
            return self.value * times

    made = tool(Box("x").get)
    assert (await invoked(made, '{"times":2}')).content == Text("xx")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x, "annotate the argument 'x'"),
        (lambda *args: args, "cannot be an argument"),
        (lambda **words: words, "cannot be an argument"),
        (functools.partial(lambda x: x, 1), "has no name"),
    ],
)
async def test_what_cannot_be_a_tool_is_refused_when_it_is_made(function, words):
    with pytest.raises(InvalidInput, match=words):
        tool(function)


async def test_positional_only_arguments_are_refused():
    def function(x: int, /) -> int:
        """Nothing."""

    with pytest.raises(InvalidInput, match="cannot be an argument"):
        tool(function)


async def test_an_annotation_that_cannot_be_read_is_named():
    def function(x: "Nowhere") -> int:  # noqa: F821
        """Nothing."""

    with pytest.raises(InvalidInput, match=r"function.*Nowhere"):
        tool(function)


async def test_a_capability_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="names no operation"):
        tool(capabilities=["read"])(add.function)


# -- running -----------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [True, False])
async def test_a_plain_function_runs_in_a_thread_unless_told_otherwise(thread):
    @tool(thread=thread)
    def where() -> int:
        """Tell the thread."""
        return threading.get_ident()

    found = (await invoked(where)).content.value
    assert (found != threading.get_ident()) is thread


async def test_a_coroutine_runs_in_the_loop():
    @tool
    async def where() -> int:
        """Tell the thread."""
        await anyio.lowlevel.checkpoint()
        return threading.get_ident()

    assert (await invoked(where)).content.value == threading.get_ident()


@pytest.mark.parametrize("thread", [True, False])
async def test_what_it_raises_comes_out(thread):
    @tool(thread=thread)
    def fail(kind: str) -> None:
        """Fail."""
        raise {"declared": ToolError("no such file"), "crash": LookupError("oops")}[kind]

    with pytest.raises(ToolError, match="no such file"):
        await invoked(fail, '{"kind":"declared"}')
    with pytest.raises(LookupError, match="oops"):
        await invoked(fail, '{"kind":"crash"}')


async def test_outputs_of_all_kinds():
    @tool
    def give(what: str) -> object:
        """Give."""
        return {
            "text": "t",
            "json": [1],
            "output": ToolOutput.error("no"),
            "nothing": None,
            "bytes": b"\xffab",
        }[what]

    found = {
        what: await invoked(give, json.dumps({"what": what}))
        for what in ("text", "json", "output", "nothing", "bytes")
    }
    assert found == {
        "text": ToolOutput(Text("t")),
        "json": ToolOutput(JsonContent("[1]")),
        "output": ToolOutput(Text("no"), is_error=True),
        "nothing": ToolOutput(Text("")),
        "bytes": ToolOutput(Text("\ufffdab")),
    }


async def test_arguments_that_do_not_fit_are_a_result_and_the_function_is_not_run():
    ran = []

    @tool
    def note(x: int) -> None:
        """Note."""
        ran.append(x)

    reply = ModelResponse.of_calls(call("c1", "note", '{"x":"q"}'))
    k = kernel(reply, said("x"), tools=[note])
    await k.turn()
    assert results(k) == [
        ("c1", 'The arguments do not fit note: x: expected an integer, got "q".', True)
    ]
    assert named(k, "tool.panicked") == []
    assert ran == []
    sound(k)


async def test_bytes_that_are_no_text_are_mended_with_a_marker():
    @tool
    def raw() -> bytes:
        """Give bytes."""
        return b"a\xffb"

    k = kernel(calls("raw"), said("x"), tools=[raw])
    await k.turn()
    assert "1 character(s)" in k.item(3).included_because


# -- the sink ----------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [True, False])
async def test_the_sink_is_given_and_not_shown_to_the_model(thread):
    @tool(thread=thread)
    def work(sink: OutputSink) -> str:
        """Work."""
        sink.push("half")
        return sink.key

    assert json.loads(work.spec().schema)["properties"] == {}
    k = kernel(calls("work"), said("x"), tools=[work])
    stream = k.subscribe()
    await k.turn()
    ((_, key, _),) = results(k)
    (started,) = [one for one in k.history() if one.name == "tool.started"]
    assert key == f"{k.log_id}:{started.position}.0"
    assert [one.chunk for one in stream.drain() if one.name == "tool.output"] == ["half"]


async def test_the_model_cannot_give_the_sink():
    @tool
    def work(sink: OutputSink) -> str:
        """Work."""
        return "done"

    with pytest.raises(ToolError, match="sink: no such argument"):
        await invoked(work, '{"sink":1}')


# -- reconcilers -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_reconciler_gets_the_key_and_the_arguments_it_names(is_async):
    @tool
    def write(path: str, text: str) -> str:
        """Write."""
        return "written"

    asked = []

    def found(key, path):
        asked.append((key, path))
        return f"{path} was written"

    async def found_later(key, path):
        return found(key, path)

    made = write.reconciler(found_later if is_async else found)
    assert made in (found, found_later)
    assert write.spec().reconciles
    text = await write.reconcile(call("c1", "write", '{"path":"a","text":"b"}'), "log:7.0")
    assert (asked, text) == ([("log:7.0", "a")], "a was written")


async def test_without_a_reconciler_there_is_nothing_to_ask():
    assert not hasattr(add, "reconcile")


async def test_a_thread_that_ended_as_it_was_cancelled_still_tells():
    """The end may come between the cancellation of its await and the news of it."""
    told = []

    @tool
    def quick() -> str:
        """Be quick."""
        return "done"

    sink = OutputSink(late=lambda output, mended: told.append(output))
    run_sync = anyio.to_thread.run_sync

    async def ended_then_cancelled(work, **options):
        await run_sync(work)
        scope.cancel()
        await anyio.sleep(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", ended_then_cancelled)
        with anyio.CancelScope() as scope:
            await invoked(quick, sink=sink)
    assert told == [ToolOutput(Text("done"))]


@pytest.mark.parametrize(
    ("error", "text"),
    [(ToolError("no"), "no"), (LookupError("oops"), "crashed: LookupError: oops")],
)
async def test_a_thread_that_fails_late_tells_how(error, text):
    told = []
    began, go = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Be slow."""
        began.set()
        go.wait(5)
        raise error

    sink = OutputSink(late=lambda output, mended: told.append(output))
    async with anyio.create_task_group() as group:
        group.start_soon(invoked, slow, "{}", sink)
        await anyio.to_thread.run_sync(began.wait)
        group.cancel_scope.cancel()
    go.set()
    with anyio.fail_after(5):
        while not told:  # noqa: ASYNC110 - a thread tells it
            await anyio.sleep(0.001)
    (output,) = told
    assert output.is_error
    assert text in output.content.text


async def test_rules_judge_it_by_its_capabilities():
    made = tool(capabilities=["fs:write"])(add.function)
    k = kernel(calls("add"), said("x"), tools=[made], policy=Rules(deny=["fs:write"]))
    await k.turn()
    assert results(k)[0][1].startswith("Not permitted")
