"""`RunTool` and `ReconcileOutcome`: run a call, or ask whether an earlier run took effect."""

from typing import Any

import anyio
from msgspec.structs import replace

from effects.handlers.cancelled import is_cancelled
from effects.ports import OutputSink, Tool, ToolError
from effects.raised import said
from reducers import wording
from reducers.announce import ToolWork
from reducers.vocabulary.content import Text, content_of
from reducers.vocabulary.effects import ReconcileOutcome, RunTool
from reducers.vocabulary.inputs import OutcomeReconciled, ToolSettled
from reducers.vocabulary.json import NotJson
from reducers.vocabulary.text import mend_bytes
from reducers.vocabulary.tools import ToolOutput


async def run_tool(
    effect: RunTool, work: ToolWork, tool: Tool | None, sink: OutputSink
) -> ToolSettled:
    """A declared failure is a result; anything else the tool raises is a crash, and one too."""
    if tool is None:
        return _failed(effect, f"The tool {work.call.tool!r} is not available in this process.")
    try:
        output, mended = as_output(await tool.invoke(work.call, sink))
    except ToolError as error:
        return _failed(effect, said(error))
    except (Exception, SystemExit) as error:
        # A command parser that exits means its call, not this program.
        return ToolSettled(effect.id, crashed(error), crashed=True)
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            sink.abandon()
            raise
        return _failed(effect, wording.incomplete())
    except BaseException:
        sink.abandon()
        raise
    finally:
        sink.close()
    return ToolSettled(effect.id, output, mended=mended + sink.mended)


def _failed(effect: RunTool, text: str) -> ToolSettled:
    return ToolSettled(effect.id, ToolOutput(Text(text), is_error=True))


def crashed(error: BaseException) -> ToolOutput:
    """The result of a call whose tool raised what it did not declare."""
    name, words = type(error).__name__, said(error)
    text = name if words == name else f"{name}: {words}"
    return ToolOutput(Text(wording.crashed(text)), is_error=True)


def as_output(value: Any) -> tuple[ToolOutput, int]:
    """What a tool returned as an output, and how many characters of it had to be mended.

    Text, bytes read as UTF-8, a content, or any JSON value, bare or in a `ToolOutput`; a value JSON
    cannot say (NaN, an object of some class) is an error result that names it.
    """
    if isinstance(value, ToolOutput):
        if type(value.content) is Text and type(value.is_error) is bool:
            return value, 0
        found, mended = as_output(value.content)
        return replace(found, is_error=bool(value.is_error) or found.is_error), mended
    if isinstance(value, bytes | bytearray):
        text, mended = mend_bytes(bytes(value))
        return ToolOutput(Text(text)), mended
    try:
        return ToolOutput(content_of("" if value is None else value)), 0
    except NotJson as problem:
        return unrecordable(problem), 0


def unrecordable(problem: Exception) -> ToolOutput:
    """The result of a call whose tool returned what no log can hold."""
    text = f"The tool returned a value that cannot be recorded: {problem}."
    return ToolOutput(Text(text), is_error=True)


async def reconcile_outcome(
    effect: ReconcileOutcome, work: ToolWork, tool: Tool | None
) -> OutcomeReconciled:
    """The tool's own word on an earlier run. One that cannot tell, or fails to, says nothing."""
    reconcile = getattr(tool, "reconcile", None)
    if reconcile is None:
        return OutcomeReconciled(effect.id)
    try:
        found = await reconcile(work.call, work.key)
        output, mended = (None, 0) if found is None else as_output(found)
    except (Exception, SystemExit):
        # Asking is not running: a tool that cannot even be asked leaves the question to people.
        return OutcomeReconciled(effect.id)
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            raise
        return OutcomeReconciled(effect.id)
    return OutcomeReconciled(effect.id, output, mended=mended)
