"""The tools of the notation, and its policy as code.

What a tool does outside is counted in a file outside the process.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import attrs
import msgspec

from effects.ports import OutputSink, PermissionRequest, ToolError
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import ToolDeclared
from nachalnik.scenarios.stage import Stage
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.json import Json, parse_object
from reducers.vocabulary.policies import Verdict
from reducers.vocabulary.tools import Capability, ToolOutput, ToolSpec

PARAMETERS = {
    "add": {"x": "integer", "y": "integer"},
    "note": {"text": "string"},
    "slow": {"s": "number"},
    "deaf": {"s": "number"},
    "big": {"n": "integer"},
    "raw": {"hex": "string"},
    "boom": {},
    "ext": {},
    "now": {},
}
DESCRIPTIONS = {
    "add": "Add two integers.",
    "note": "Append a line to a file.",
    "slow": "Take some seconds; stop when told to.",
    "deaf": "Take some seconds; never stop before.",
    "big": "Give back n bytes.",
    "raw": "Give back bytes, written in hex.",
    "boom": "Raise.",
    "ext": "Be finished from outside.",
    "now": "Say the time.",
}
KINDS: dict[str, Any] = {"integer": int, "number": (int, float), "string": str}
CAPABILITIES: dict[str, tuple[Capability, ...]] = {"note": ("fs:write",)}


class SlowTime:
    """A clock that moves only when everybody waits for it: the shortest sleep ends first."""

    def __init__(self, running: Callable[[], int]) -> None:
        self._running = running
        """How many calls to tools that sleep are running."""
        self._asleep: list[tuple[float, int, anyio.Event]] = []
        self._count = 0
        self._thread = threading.get_ident()

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        event = anyio.Event()
        sleeper = (seconds, self._count, event)
        self._asleep.append(sleeper)
        try:
            self.move()
            await event.wait()
        finally:
            if sleeper in self._asleep:
                self._asleep.remove(sleeper)

    def move(self) -> None:
        is_ours = threading.get_ident() == self._thread
        if is_ours and 0 < self._running() <= len(self._asleep):
            first = min(self._asleep, key=lambda sleeper: sleeper[:2])
            self._asleep.remove(first)
            first[2].set()


@attrs.define(eq=False)
class Gate:
    """A call that goes on when it is let."""

    event: anyio.Event
    opened: threading.Event = attrs.Factory(threading.Event)
    told: threading.Event = attrs.Factory(threading.Event)
    text: str = ""
    is_left: bool = False

    def let_return(self, text: str) -> None:
        """Let the call return. A run that nobody awaits any more has told its end by then."""
        self.text = text
        self.opened.set()
        self.event.set()
        if self.is_left:
            self.told.wait(timeout=10)

    def drop(self) -> None:
        """Let a run end that nobody wants to hear of: its thread would keep the process."""
        self.is_left = False
        self.opened.set()


@attrs.define
class World:
    """What the tools of one process share."""

    folder: Folder
    stage: Stage
    time: SlowTime
    gates: dict[str, Gate] = attrs.Factory(dict)

    def drop(self) -> None:
        """Wherever the story ended, no thread of a tool outlives it."""
        for gate in self.gates.values():
            gate.drop()


class StoryTool:
    """One tool of the notation."""

    def __init__(self, declared: ToolDeclared, world: World) -> None:
        self.name = declared.name
        self._declared = declared
        self._world = world

    def spec(self) -> ToolSpec:
        fields = PARAMETERS[self.name]
        schema = {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in fields.items()},
            "required": list(fields),
        }
        return ToolSpec(
            self.name,
            DESCRIPTIONS[self.name],
            Json(msgspec.json.encode(schema).decode()),
            CAPABILITIES.get(self.name, ()),
            idempotent=self._declared.idempotent,
        )

    async def invoke(self, call: ToolCall, output: OutputSink) -> Any:
        args = self._arguments(call)
        folder, stage = self._world.folder, self._world.stage
        folder.started(self.name, call.id)
        if self.name != "deaf":
            await stage.reach("running", call.id)
        value: str | bytes = ""
        if self.name in AT_ONCE:
            value = AT_ONCE[self.name](args)
        if not (self._declared.idempotent and folder.effect_of(output.key)):
            said = value if isinstance(value, str) else value.hex()
            folder.took_effect(self.name, call.id, output.key, said)
        if self.name in TAKING_TIME:
            value = await TAKING_TIME[self.name](Run(self._world, args, call, output))
        await stage.reach("effect", call.id)
        return value

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        given = parse_object(call.args)
        for name, kind in PARAMETERS[self.name].items():
            if not isinstance(given.get(name), KINDS[kind]):
                raise ToolError(f"The argument {name} of {self.name} must be of type {kind}.")
        return given


class ReconcilingTool(StoryTool):
    """One that can tell from the file outside what an earlier run did."""

    async def reconcile(self, _: ToolCall, key: str) -> ToolOutput | None:
        text = self._world.folder.effect_of(key)
        return None if text is None else ToolOutput(Text(text))


def make_tool(declared: ToolDeclared, world: World) -> StoryTool:
    return (ReconcilingTool if declared.reconciles else StoryTool)(declared, world)


class CodePolicy:
    """The verdicts of the script's tools, given by code."""

    def __init__(self, declared: list[ToolDeclared], stage: Stage) -> None:
        self._verdicts = {tool.name: tool.verdict for tool in declared}
        self._stage = stage

    def name(self) -> str:
        return "CodePolicy"

    async def evaluate(self, request: PermissionRequest) -> Verdict:
        await self._stage.reach("judged", request.call)
        await anyio.lowlevel.checkpoint()
        return self._verdicts[request.tool]


# -- what they do ------------------------------------------------------------------------------


@attrs.frozen
class Run:
    """One run of a call that takes its time."""

    world: World
    args: dict[str, Any]
    call: ToolCall
    output: OutputSink


async def _slow(run: Run) -> str:
    await run.world.time.sleep(run.args["s"])
    return f"slept {run.args['s']} s"


async def _deaf(run: Run) -> str:
    """In a thread, which nothing can stop; the call is running when the thread is."""
    gate = run.world.gates[run.call.id] = Gate(anyio.Event())
    begun = anyio.Event()

    def work() -> None:
        anyio.from_thread.run_sync(begun.set)
        gate.opened.wait()
        if gate.is_left:
            run.output.settle_late(ToolOutput(Text(gate.text)))
            gate.told.set()

    async def say_running() -> None:
        await begun.wait()
        await run.world.stage.reach("running", run.call.id)

    async with anyio.create_task_group() as group:
        group.start_soon(say_running)
        try:
            await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            gate.is_left = True
            raise
    return gate.text


async def _ext(run: Run) -> str:
    gate = run.world.gates[run.call.id] = Gate(anyio.Event())
    await gate.event.wait()
    return gate.text


def _raw(args: dict[str, Any]) -> bytes:
    try:
        return bytes.fromhex(args["hex"])
    except ValueError as error:
        raise ToolError(f"The argument hex is not hexadecimal: {error}.") from None


def _boom(_: dict[str, Any]) -> str:
    raise RuntimeError("boom")


AT_ONCE: dict[str, Callable[[dict[str, Any]], str | bytes]] = {
    "add": lambda args: str(args["x"] + args["y"]),
    "note": lambda args: f"noted {args['text']}",
    "big": lambda args: "x" * int(args["n"]),
    "raw": _raw,
    "boom": _boom,
    "now": lambda _: "noon",
}
TAKING_TIME: dict[str, Callable[[Run], Awaitable[str]]] = {
    "slow": _slow,
    "deaf": _deaf,
    "ext": _ext,
}
