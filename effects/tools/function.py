"""`@tool`: a typed Python function as a tool the model can call.

The schema comes from the signature, the description from the docstring. Arguments are structured by
cattrs; what does not fit is an error the model can read and mend, and the function is not run.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints, overload

import anyio
import attrs
import cattrs
import msgspec

from effects.handlers.tool import as_output
from effects.ports import OutputSink, ToolError
from effects.tools.schema import schema_of
from reducers import wording
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import NotJson, compact, parse_object
from reducers.vocabulary.tools import ToolOutput, ToolSpec, parse_capability

Reconcile = Callable[..., Any]


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
        given = self._arguments(call)
        if self._sink:
            given[self._sink] = output
        if inspect.iscoroutinefunction(self.function):
            value = await self.function(**given)
        elif self._in_thread:
            value = await self._threaded(given, output)
        else:
            value = self.function(**given)
        return as_output(value)[0]

    async def _threaded(self, given: dict[str, Any], output: OutputSink) -> Any:
        """A thread cannot be stopped: cancelled, it goes on, and tells its end as a late answer."""
        is_left = False

        def run() -> Any:
            try:
                value = self.function(**given)
            except Exception as error:
                if is_left:
                    said = f"{type(error).__name__}: {error}"
                    output.settle_late(ToolOutput(Text(wording.crashed(said)), is_error=True))
                raise
            if is_left:
                output.settle_late(as_output(value)[0])
            return value

        try:
            return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            is_left = True
            raise

    def reconciler(self, function: Reconcile) -> Reconcile:
        """Mark what tells, by key, whether an earlier run took effect; it must not run anything.

        It gets the key and, by name, any of the tool's arguments; it returns the result of that
        run, or None when it cannot tell.
        """
        self._reconcile = function
        self._spec = msgspec.structs.replace(self._spec, reconciles=True)
        return function

    async def reconcile(self, call: ToolCall, key: str) -> ToolOutput | None:
        if self._reconcile is None:
            return None
        wanted = inspect.signature(self._reconcile).parameters
        given = {name: value for name, value in self._arguments(call).items() if name in wanted}
        found = self._reconcile(key, **given)
        value = await found if inspect.isawaitable(found) else found
        return None if value is None else as_output(value)[0]

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        """Structured by the function's types. Raises `ToolError` that says what does not fit."""
        try:
            plain = parse_object(call.args)
        except NotJson as problem:
            raise ToolError(f"The arguments are not one JSON object: {problem}.") from None
        problems = self._misfits(plain)
        given: dict[str, Any] = {}
        for name, value in plain.items():
            if name in self._hints:
                try:
                    given[name] = _CONVERTER.structure(value, self._hints[name])
                except Exception as error:
                    problems += [f"{name}: {one}" for one in _said(error)]
        if problems:
            raise ToolError(f"The arguments do not fit {call.tool}: {'; '.join(problems)}.")
        return given

    def _misfits(self, plain: dict[str, Any]) -> list[str]:
        parameters = inspect.signature(self.function).parameters
        missing = [
            f"{name} is missing"
            for name in self._hints
            if name not in plain and parameters[name].default is inspect.Parameter.empty
        ]
        unknown = [f"there is no argument {name!r}" for name in plain if name not in self._hints]
        return missing + unknown


def _strict(kind: type) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        is_number = kind is float and type(value) is int
        if type(value) is not kind and not is_number:
            raise TypeError(f"expected {_WORDS[kind]}, got {json.dumps(value)[:60]}")
        return kind(value)

    return structure


_WORDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_CONVERTER = cattrs.Converter(forbid_extra_keys=True)
for _kind in _WORDS:
    _CONVERTER.register_structure_hook(_kind, _strict(_kind))


def _said(error: Exception) -> list[str]:
    return [one.replace(" @ $", " at ").strip() for one in cattrs.transform_error(error)]


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
        hints = get_type_hints(function)
        hints.pop("return", None)
        sink = next((name for name, hint in hints.items() if hint is OutputSink), "")
        hints.pop(sink, None)
        name = id or function.__name__
        _check_signature(function, hints, sink, name)
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
