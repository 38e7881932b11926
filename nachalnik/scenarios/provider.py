"""The scripted model of a story: it checks what it is sent, streams, and may be cut off."""

import anyio.lowlevel

from effects.ports import DeltaSink, ProviderFailure
from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import Story
from nachalnik.scenarios.oracles import wire_problems
from nachalnik.scenarios.replies import Answer, CutStream, fragments
from nachalnik.scenarios.stage import Stage
from nachalnik.scenarios.trace import shown_request
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse


class StoryProvider:
    """Takes the story's replies in their order; a reply counts as taken when it begins to come,
    so a request that is cut off before takes none. Oracle W is asked of every request."""

    def __init__(self, story: Story, folder: Folder, stage: Stage) -> None:
        self.model = story.model
        self.step = 0
        """The step that is being told: replies that stand further down are not for it."""
        self._story = story
        self._folder = folder
        self._stage = stage

    def info(self) -> ModelInfo:
        return self.model

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        number = str(self._folder.requested(shown_request(request)))
        for problem in wire_problems(request):
            position = deltas.effect.partition(".")[0]
            self._folder.broken(f"oracle W, position {position}, request {number}: {problem}")
        await self._stage.reach("request", number)
        await anyio.lowlevel.checkpoint()
        answer: Answer = self._next(number)
        arriving = answer.arrived if isinstance(answer, CutStream) else ()
        if isinstance(answer, ModelResponse):
            arriving = tuple(fragments(answer))
        for place, delta in enumerate(arriving):
            deltas.send(delta)
            if place == 0:
                await self._stage.reach("streams", number)
            await anyio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _next(self, number: str) -> Answer:
        place = self._folder.next_reply()
        if place >= len(self._story.replies):
            self._folder.broken(f"request {number} was sent, and the script has no reply left")
            raise ProviderFailure("the script has no reply left", "model.script_empty")
        reply = self._story.replies[place]
        if reply.step > self.step:
            self._folder.broken(
                f"line {reply.line}: request {number} took this reply before its place was reached"
            )
        self._folder.answered(place)
        return reply.answer
