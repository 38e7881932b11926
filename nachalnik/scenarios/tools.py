"""The tools of the notation. What they do outside is counted in a file outside the process."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import attrs

from effects.ports import OutputSink, ToolError
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import ToolDeclared
from nachalnik.scenarios.stage import Stage
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.json import Json, parse_object
from reducers.vocabulary.text import mend_bytes
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
        if is_ours and self._asleep and len(self._asleep) >= self._running():
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


@attrs.define
class World:
    """What the tools of one process share."""

    folder: Folder
    stage: Stage
    time: SlowTime
    gates: dict[str, Gate] = attrs.Factory(dict)


class StoryTool:
    """One tool of the notation."""

    def __init__(self, declared: ToolDeclared, world: World) -> None:
        self.name = declared.name
        self._declared = declared
        self._world = world

    def spec(self) -> ToolSpec:
        import msgspec

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

    async def invoke(self, call: ToolCall, output: OutputSink) -> ToolOutput:
        args = self._arguments(call)
        self._world.folder.started(self.name, call.id)
        await self._world.stage.reach("running", call.id)
        text = await _BODIES[self.name](self._world, args, call, output)
        if not (self._declared.idempotent and self._world.folder.effect_of(output.key)):
            self._world.folder.took_effect(self.name, call.id, output.key, text)
        await self._world.stage.reach("effect", call.id)
        return ToolOutput(Text(text))

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        given = parse_object(call.args)
        for name, kind in PARAMETERS[self.name].items():
            if not isinstance(given.get(name), KINDS[kind]):
                raise ToolError(f"The argument {name} of {self.name} must be of type {kind}.")
        return given


class ReconcilingTool(StoryTool):
    """One that can tell from the file outside what an earlier run did."""

    async def reconcile(self, call: ToolCall, key: str) -> ToolOutput | None:
        text = self._world.folder.effect_of(key)
        return None if text is None else ToolOutput(Text(text))


def make_tool(declared: ToolDeclared, world: World) -> StoryTool:
    return (ReconcilingTool if declared.reconciles else StoryTool)(declared, world)


# -- what they do ------------------------------------------------------------------------------

Body = Callable[[World, dict[str, Any], ToolCall, OutputSink], Any]


async def _add(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    return str(args["x"] + args["y"])


async def _note(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    return f"noted {args['text']}"


async def _slow(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    await world.time.sleep(args["s"])
    return f"slept {args['s']} s"


async def _deaf(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    gate = world.gates[call.id] = Gate(anyio.Event())

    def work() -> str:
        gate.opened.wait()
        if gate.is_left:
            world.folder.took_effect(call.tool, call.id, output.key, gate.text)
            output.settle_late(ToolOutput(Text(gate.text)))
            gate.told.set()
        return gate.text

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        gate.is_left = True
        raise


async def _ext(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    gate = world.gates[call.id] = Gate(anyio.Event())
    await gate.event.wait()
    return gate.text


async def _big(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    return "x" * int(args["n"])


async def _raw(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    try:
        raw = bytes.fromhex(args["hex"])
    except ValueError as error:
        raise ToolError(f"The argument hex is not hexadecimal: {error}.") from None
    return mend_bytes(raw)[0]


async def _boom(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    raise RuntimeError("boom")


async def _now(world: World, args: dict[str, Any], call: ToolCall, output: OutputSink) -> str:
    return "noon"


_BODIES: dict[str, Body] = {
    "add": _add,
    "note": _note,
    "slow": _slow,
    "deaf": _deaf,
    "big": _big,
    "raw": _raw,
    "boom": _boom,
    "ext": _ext,
    "now": _now,
}
