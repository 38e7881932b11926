"""`@tool`: a typed Python function as a tool the model can call.

The schema comes from the signature, the description from the docstring. Arguments are structured by
cattrs; what does not fit is an error the model can read and mend, and the function is not run.
"""

import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_type_hints, overload

import anyio
import attrs
import msgspec

from effects.handlers.tool import as_output, crashed
from effects.ports import OutputSink, ToolError
from effects.tools.arguments import check_hints, structured
from effects.tools.schema import schema_of
from reducers.vocabulary.content import ToolCall
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import compact
from reducers.vocabulary.tools import ToolOutput, ToolSpec, parse_capability

Reconcile = Callable[..., Any]


def _recorded(value: Any, sink: OutputSink) -> ToolOutput:
    output, mended = as_output(value)
    sink.mended += mended
    return output


class _Threaded:
    """A run in a thread, which cannot be stopped: when its await is cancelled it goes on, and its
    end, once it comes, is told as a late answer."""

    def __init__(
        self, function: Callable[..., Any], given: dict[str, Any], sink: OutputSink
    ) -> None:
        self._function = function
        self._given = given
        self._sink = sink
        self._lock = threading.Lock()
        self._is_left = False
        self._ended: tuple[Any, Exception | SystemExit | None] | None = None

    async def run(self) -> Any:
        try:
            return await anyio.to_thread.run_sync(self._work, abandon_on_cancel=True)
        except Exception:
            raise
        except BaseException as left:  # a cancellation; on trio, Ctrl-C comes by itself
            if self._ended is not None and self._ended[1] is left:
                raise  # the function's own
            with self._lock:
                self._is_left = True
                ended = self._ended
            if ended is not None:  # it had come to its end, and nobody was told
                self._tell(*ended)
            raise

    def _work(self) -> Any:
        value: Any = None
        error: Exception | SystemExit | None = None
        try:
            value = self._function(**self._given)
        except (Exception, SystemExit) as raised:
            error = raised
        with self._lock:
            self._ended = value, error
            is_left = self._is_left
        if is_left:
            self._tell(value, error)
        if error is not None:
            raise error
        return value

    def _tell(self, value: Any, error: Exception | SystemExit | None) -> None:
        if isinstance(error, ToolError):
            self._sink.settle_late(ToolOutput.error(str(error)))
        elif error is not None:
            self._sink.settle_late(crashed(error))
        else:
            self._sink.settle_late(_recorded(value, self._sink))


@attrs.define
class FunctionTool:
    """A function with what the loop has to know of it. Call it like the function it was."""

    function: Callable[..., Any]
    _spec: ToolSpec
    _hints: dict[str, Any]
    _sink: str
    """Name of the parameter that wants the sink (and the key in it), or empty."""
    _in_thread: bool
    _reconcile: Reconcile | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def spec(self) -> ToolSpec:
        return self._spec

    async def invoke(self, call: ToolCall, output: OutputSink) -> ToolOutput:
        given = structured(self.function, self._hints, call)
        if self._sink:
            given[self._sink] = output
        if inspect.iscoroutinefunction(self.function):
            value = await self.function(**given)
        elif self._in_thread:
            value = await _Threaded(self.function, given, output).run()
        else:
            value = self.function(**given)
        if inspect.isawaitable(value):  # a coroutine function behind a plain wrapper
            value = await value
        return _recorded(value, output)

    def reconciler(self, function: Reconcile) -> Reconcile:
        """Mark what tells, by key, whether an earlier run took effect; it must not run anything.

        It gets the key and, by name, any of the tool's arguments; it returns the result of that
        run, or None when it cannot tell.
        """
        self._reconcile = function
        self._spec = msgspec.structs.replace(self._spec, reconciles=True)
        return function

    @property
    def reconcile(self) -> Callable[[ToolCall, str], Awaitable[object]]:
        """Only there when there is a reconciler: a tool is asked what it has."""
        if self._reconcile is None:
            raise AttributeError(f"the tool {self._spec.id} has no reconciler")
        return self._ask

    async def _ask(self, call: ToolCall, key: str) -> object:
        assert self._reconcile is not None
        wanted = inspect.signature(self._reconcile).parameters
        given = structured(self.function, self._hints, call)
        ask = functools.partial(
            self._reconcile, key, **{name: given[name] for name in given if name in wanted}
        )
        if self._in_thread and not inspect.iscoroutinefunction(self._reconcile):
            found = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
        else:
            found = ask()
        return await found if inspect.isawaitable(found) else found


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    id: str = "",
    description: str = "",
    capabilities: Sequence[str] = (),
    output_limit: int | None = None,
    idempotent: bool = False,
    thread: bool = True,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    id: str = "",
    description: str = "",
    capabilities: Sequence[str] = (),
    output_limit: int | None = None,
    idempotent: bool = False,
    thread: bool = True,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a typed function.

    `capabilities` are `domain:op` words the rules speak of; `output_limit` is in bytes;
    `idempotent` says that a second run under the same key takes effect once. A plain function runs
    in a worker thread unless `thread` is False. A parameter annotated `OutputSink` gets the sink,
    with the durable key in it, and is not shown to the model.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        name = id or getattr(function, "__name__", "")
        if not name:
            raise InvalidInput(f"{function!r} has no name: give the tool one, @tool(id=...)")
        hints = _hints_of(function, name)
        sink = next((one for one, hint in hints.items() if hint is OutputSink), "")
        hints.pop(sink, None)
        _check_signature(function, hints, sink, name)
        check_hints(name, hints)
        spec = ToolSpec(
            name,
            description or inspect.getdoc(function) or name,
            compact(schema_of(function, hints)),
            tuple(parse_capability(text) for text in capabilities),
            output_limit,
            idempotent,
        )
        return FunctionTool(function, spec, hints, sink, thread)

    return make if function is None else make(function)


def _hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        hints = get_type_hints(function)
    except Exception as error:
        raise InvalidInput(
            f"tool {name}: an annotation cannot be read: {type(error).__name__}: {error}"
        ) from error
    hints.pop("return", None)
    return hints


def _check_signature(
    function: Callable[..., Any], hints: dict[str, Any], sink: str, name: str
) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        ):
            raise InvalidInput(f"tool {name}: {parameter} cannot be an argument; name each one")
        if parameter.name != sink and parameter.name not in hints:
            raise InvalidInput(f"tool {name}: annotate the argument {parameter.name!r} with a type")
