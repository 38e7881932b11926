"""Telling a story: one process, one kernel, one verb after the other."""

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import anyio

from effects.parts import Rules
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import Step, Story
from nachalnik.scenarios.oracles import question_name
from nachalnik.scenarios.provider import StoryProvider
from nachalnik.scenarios.stage import Stage, StagedKernel
from nachalnik.scenarios.tools import CodePolicy, SlowTime, World, make_tool
from nachalnik.scenarios.trace import shown_items
from nachalnik.scenarios.verbs import VERBS as KNOWN
from nachalnik.scenarios.verbs import Verb
from reducers.vocabulary.errors import KernelError
from reducers.vocabulary.events import PermissionRequested
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.phases import name_of

STEPS_MAX = 64
"""Steps `run until` makes before it gives up."""


class Unexpected(Exception):
    """Something is not as the script says it is."""


class Teller:
    """Tells a story from one of its steps on, until it ends or another process has to go on."""

    def __init__(self, story: Story, folder: Folder) -> None:
        self.story = story
        self.folder = folder
        self.stage = Stage(folder, self._act)
        self.provider = StoryProvider(story, folder, self.stage)
        self.time = SlowTime(self._sleepers)
        self.world = World(folder, self.stage, self.time)
        self.kernel: StagedKernel
        self._drive_scope: anyio.CancelScope | None = None

    async def tell(self) -> bool:
        """Returns whether the story is over; if not, another process has to open the log."""
        try:
            return await self._tell_steps()
        finally:
            self.world.drop()

    async def _tell_steps(self) -> bool:
        first = self.folder.place()
        steps = self.story.steps
        is_reopened = first < len(steps) and steps[first].verb.name == "reopen"
        if not is_reopened:
            self._open()
        for number in range(first, len(steps)):
            if steps[number].verb.name == "reopen" and number > first:
                self.folder.go_to(number)
                self._leave_process()
                return False
            self.folder.go_to(number + 1)
            await self._tell_step(number, steps[number])
        self._leave_process()
        return True

    async def _tell_step(self, number: int, step: Step) -> None:
        self.provider.step = number
        self.stage.armed = list(step.armed)
        await self._act(step.verb)
        self.stage.keep_state()
        for verb in self.stage.armed:
            self.folder.broken(f"line {verb.line}: the moment never came: {verb.text}")
        self.stage.armed = []

    async def _act(self, verb: Verb) -> None:
        """Do what a verb says. What the kernel refuses is a line of the trace; what is not as the
        script expects is a finding."""
        try:
            if verb.name == "crash":
                self._crash(verb)
            remark = await VERBS[verb.name](self, *verb.args)
        except KernelError as error:
            said = f"! {verb.text}: {type(error).__name__}: {error}"
            self.folder.note(self.stage.position, said)
        except Unexpected as problem:
            self.folder.broken(f"line {verb.line}: {verb.text}: {problem}")
        else:
            if remark:
                self._say(f"{verb.text}: {remark}")

    def _say(self, text: str) -> None:
        self.folder.note(self.stage.position, f"- {text}")

    def _crash(self, verb: Verb) -> NoReturn:
        for state in verb.args:
            _expect(state, name_of(self.kernel.state()))
        self.stage.crash(verb)

    # -- the process -------------------------------------------------------------------------

    def _open(self) -> None:
        tools = self.story.tools
        rules: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
        for tool in tools:
            rules[tool.verdict].append(tool.name)
        policy = CodePolicy(tools, self.stage) if self.story.judges_by_code else Rules(**rules)  # type: ignore[arg-type]
        is_new = not self.folder.log.exists()
        opened = StagedKernel.open(
            self.folder.log,
            provider=self.provider,
            tools=[make_tool(tool, self.world) for tool in tools],
            policy=policy,
            config=self.story.configuration() if is_new else None,
            durability="fsync" if self.story.needs_process else "os",
            clock=self.stage,
        )
        assert isinstance(opened, StagedKernel)
        self.kernel = opened
        self.stage.after_commit = self.time.move

    def _leave_process(self) -> None:
        self.stage.keep_state()
        for call, gate in self.world.gates.items():
            if not gate.opened.is_set():
                self.folder.broken(f"call {call} never returned: write `let {call} return`")
                gate.let_return("too late")
        self.kernel.close()

    def _sleepers(self) -> int:
        calls = self.kernel.live().calls.batch
        return sum(call.status == "running" and call.tool == "slow" for call in calls)

    async def _reopen(self) -> None:
        self._open()

    # -- the loop ----------------------------------------------------------------------------

    async def _drive(self, move: Callable[[], Awaitable[Any]]) -> None:
        if self._drive_scope is not None:
            await move()  # inside another drive: refused as busy
            return
        with anyio.CancelScope() as self._drive_scope:
            try:
                await move()
            finally:
                self._drive_scope = None

    async def _user(self, text: str) -> None:
        self.kernel.push(ContextItem.user(text))
        await self._drive(self.kernel.turn)

    async def _turn(self) -> None:
        await self._drive(self.kernel.turn)

    async def _step(self) -> None:
        await self._drive(self.kernel.step)

    async def _run(self, tag: str) -> None:
        seen = self.kernel.position
        for _ in range(STEPS_MAX):
            before = self.kernel.position
            await self._drive(self.kernel.step)
            new = [one for one in self.kernel.history(all=True) if one.position > seen]
            if any(one.name == tag for one in new):
                return
            if self.kernel.position == before:
                break
        raise Unexpected("it never came")

    async def _interrupt(self) -> str:
        return "asked already" if self.kernel.interrupt() else ""

    async def _leave(self) -> None:
        if self._drive_scope is None:
            raise Unexpected("nobody drives")
        self._drive_scope.cancel()

    async def _cancel(self, what: Any, reason: str) -> str:
        if what == "calls":
            return "" if self.kernel.cancel_pending_calls(reason) else "nothing waits"
        return "" if self.kernel.cancel(what, reason) else "nothing in flight"

    async def _let(self, call: str, text: str) -> None:
        gate = self.world.gates.get(call)
        if gate is None:
            raise Unexpected(f"{call} is no call that waits to be let")
        gate.let_return(text)

    # -- questions ---------------------------------------------------------------------------

    def _question(self, asked: str | int) -> int:
        """The id under which it was asked, answered or not."""
        if isinstance(asked, int):
            return asked
        for record in self.kernel.history():
            event = record.raw
            if isinstance(event, PermissionRequested) and event.call == asked:
                return event.id
        raise Unexpected(f"nothing was ever asked about {asked}")

    async def _grant(self, asked: str | int) -> None:
        self.kernel.decide(self._question(asked), "allow")

    async def _deny(self, asked: str | int, reason: str) -> None:
        self.kernel.decide(self._question(asked), "deny", reason=reason)

    async def _settle(self, call: str, text: str) -> None:
        self.kernel.settle(call, text)

    async def _fail(self, call: str, text: str) -> None:
        self.kernel.fail(call, text)

    async def _retry(self, call: str) -> None:
        self.kernel.retry(call)

    # -- the context -------------------------------------------------------------------------

    async def _push(self, item: ContextItem) -> None:
        self.kernel.push(item)

    async def _set_state(self, id: int, state: Any, note: str | None) -> str:
        change = self.kernel.set_state(id, state, note)
        if change.unknown:
            return "there is no such item"
        return "unchanged" if change.is_empty() else ""

    async def _replace(self, id: int, text: str) -> None:
        self.kernel.replace(id, text)

    async def _supersede(self, id: int, item: ContextItem) -> None:
        self.kernel.supersede(id, item)

    async def _annotate(self, id: int, meta: Any) -> None:
        self.kernel.annotate(id, meta)

    async def _recount(self) -> None:
        self.kernel.recount()

    async def _undo(self) -> str:
        return "" if self.kernel.undo() else "nothing to take back"

    async def _redo(self) -> str:
        return "" if self.kernel.redo() else "nothing to bring back"

    async def _params(self, text: Any) -> None:
        self.kernel.set_params(text)

    async def _model(self, info: ModelInfo) -> str:
        self.provider.model = info
        return "" if self.kernel.provider_changed() else "it is that model already"

    async def _finish(self) -> None:
        self.kernel.finish()

    # -- looking -----------------------------------------------------------------------------

    async def _items(self) -> None:
        for text in shown_items(self.kernel.live()):
            self._say(text)

    async def _projection(self) -> None:
        """What the next request would hold, and what was done to it."""
        projection = self.kernel.project()
        self._say(f"included {','.join(f'#{id}' for id in projection.included)}")
        for text in (*projection.repairs, *projection.reordered):
            self._say(text)

    async def _request(self, number: int) -> None:
        sent = self.folder.requests()
        if not 0 < number <= len(sent):
            raise Unexpected("there is no such request yet")
        for line in sent[number - 1].split("\n"):
            self._say(line)

    async def _state(self, name: str) -> None:
        _expect(name, name_of(self.kernel.state()))

    async def _questions(self, *names: str) -> None:
        found = [question_name(one) for one in self.kernel.live().questions.open]
        _expect(", ".join(names) or "none", ", ".join(found) or "none")

    async def _requests(self, count: int) -> None:
        _expect(count, len(self.folder.requests()))

    async def _runs(self, tool: str, count: int) -> None:
        _expect(count, self.folder.count("effect", tool))

    async def _starts(self, tool: str, count: int) -> None:
        _expect(count, self.folder.count("start", tool))


def _expect(expected: object, found: object) -> None:
    if found != expected:
        raise Unexpected(f"it is {found}")


VERBS: dict[str, Callable[..., Awaitable[str | None]]] = {
    name: getattr(Teller, f"_{name.replace('-', '_')}") for name in KNOWN if name != "crash"
}
"""A verb is a method of its name; what it returns is a remark for the trace."""
