"""What happens in a session, printed as it happens: for people, or as JSON lines."""

from typing import Protocol, assert_never

from nachalnik.cli.output import Output
from nachalnik.cli.snapshot import question_dict
from nachalnik.cli.words import counted, on_one_line, shortened, visible
from nachalnik.kernel import Kernel
from nachalnik.subscriptions import Live, ModelDelta, Subscription, ToolProgress
from reducers.shapes import shape
from reducers.views import Record
from reducers.vocabulary.content import as_text
from reducers.vocabulary.events import (
    ContextAdded,
    ModelRequested,
    PermissionDecided,
    ToolFinished,
    ToolRequested,
    ToolUnknown,
)
from reducers.vocabulary.items import AssistantMessage, ToolResult
from reducers.vocabulary.json import compact
from reducers.vocabulary.phases import (
    Deciding,
    Executing,
    Finished,
    Idle,
    Ready,
    Requesting,
    name_of,
)

RESULT_WIDTH = 200


class Watcher(Protocol):
    def show(self, event: Live) -> None: ...

    def rest(self, kernel: Kernel, status: int) -> None:
        """The last word of a command: where the session rests."""
        ...


async def watch(subscription: Subscription, watcher: Watcher) -> None:
    """Until the subscription is closed."""
    async for event in subscription:
        watcher.show(event)


def catch_up(subscription: Subscription, watcher: Watcher) -> None:
    """Show at once what has happened so far."""
    for event in subscription.drain():
        watcher.show(event)


# -- for people --------------------------------------------------------------------------------


class TextWatcher:
    """Text streams; each call, each result and each refusal has a line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._streamed = False
        """Whether text of the reply at hand was shown as it came."""
        self._is_mid_line = False
        self._results: dict[int, str] = {}

    def show(self, event: Live) -> None:
        match event:
            case ModelDelta():
                if event.delta.kind == "text":
                    self._stream(event.delta.text)
            case ToolProgress():
                self._line(f"[{_name(event.call)}] ... {shortened(event.chunk, RESULT_WIDTH)}")
            case Record():
                self._show_record(event)
            case _:
                assert_never(event)

    def rest(self, kernel: Kernel, status: int) -> None:  # noqa: ARG002 - the shell has it
        self._line(f"-- {resting(kernel)}, at position {kernel.position}")

    def _show_record(self, record: Record) -> None:
        event = record.raw
        match event:
            case ModelRequested():
                self._end_line()
                self._streamed = False
            case ContextAdded() if isinstance(event.item.kind, AssistantMessage):
                if not self._streamed and (text := as_text(record.content)):
                    self._stream(text)
                self._end_line()
            case ContextAdded() if isinstance(event.item.kind, ToolResult):
                if event.item.state == "active":
                    self._results[event.item.id] = as_text(record.content)
            case ToolRequested():
                args = record["args"]
                text = args if isinstance(args, str) else compact(args)
                self._line(f"[{_name(event.call)}] {_name(event.tool)} {on_one_line(text)}")
            case ToolUnknown():
                self._line(f"[{_name(event.call)}] there is no such tool")
            case PermissionDecided() if event.grant == "deny":
                by = " by the rules" if event.source == "policy" else ""
                why = f": {on_one_line(event.reason)}" if event.reason else ""
                self._line(f"[{_name(event.call)}] refused{by}{why}")
            case ToolFinished():
                how = "failed:" if event.is_error else "gave"
                result = shortened(self._results.pop(event.item, ""), RESULT_WIDTH)
                self._line(f"[{_name(event.call)}] {how} {result}")
            case _:  # any other event: bookkeeping, or told in the lines above; `show` tells all
                pass

    def _stream(self, text: str) -> None:
        if text:
            self._streamed = True
            self._is_mid_line = not text.endswith("\n")
            self._output.write(visible(text))

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._output.line()
            self._is_mid_line = False

    def _line(self, text: str) -> None:
        self._end_line()
        self._output.line(text)


def resting(kernel: Kernel) -> str:
    """Where a session rests, in words."""
    state = kernel.state()
    match state:
        case Finished(stop=stop):
            return "finished" if stop == "end_turn" else f"finished: {on_one_line(stop)}"
        case Deciding(calls=ids):
            numbers = ", ".join(map(str, ids))
            return (
                f"waits for an answer to {'question' if len(ids) == 1 else 'questions'} {numbers}"
            )
        case Ready(calls=calls):
            return f"ready to run {counted(len(calls), 'call')}"
        case Idle():
            return "idle, the turn is not at its end" if kernel.is_turn_open() else "idle"
        case Requesting() | Executing():
            return name_of(state)
        case _:
            assert_never(state)


def _name(text: str) -> str:
    return shortened(text, 80)


# -- for programs ------------------------------------------------------------------------------


class JsonWatcher:
    """Each record as `show --json` gives it, fragments between them, and one last line that says
    where the session rests."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def show(self, event: Live) -> None:
        if isinstance(event, Record):
            self._output.json(event.to_dict())
        elif isinstance(event, ModelDelta):
            delta = {"event": event.name, "effect": event.effect, **shape(event.delta)}
            self._output.json({"event": delta})
        else:
            chunk = {"event": event.name, "call": event.call, "tool": event.tool}
            self._output.json({"event": {**chunk, "chunk": event.chunk}})

    def rest(self, kernel: Kernel, status: int) -> None:
        self._output.json(
            {
                "position": kernel.position,
                "state": shape(kernel.state()),
                "questions": [question_dict(one) for one in kernel.pending_questions()],
                "status": status,
            }
        )
