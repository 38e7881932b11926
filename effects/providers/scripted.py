"""A provider whose replies are written down beforehand: for tests, demos and examples."""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any

from effects.ports import DeltaSink, ProviderFailure
from effects.providers.openai_chat.encode import encode_request
from reducers.vocabulary.content import as_text
from reducers.vocabulary.json import Json
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse

SCRIPTED = ModelInfo("scripted", "scripted", context_limit=128_000, tool_calling=True)

Answer = ModelResponse | str | Exception
Reply = Answer | Callable[[ModelRequest], Answer | Awaitable[Answer]]
"""A response, a text, an exception to raise, or a function of the request that gives one."""


class ScriptedProvider:
    """Answers in the order of `replies`. `requests` are those it was asked, in order."""

    def __init__(self, replies: Iterable[Reply] = (), *, info: ModelInfo | None = None) -> None:
        self._replies = deque(replies)
        self._info = info or SCRIPTED
        self.requests: list[ModelRequest] = []

    def info(self) -> ModelInfo:
        return self._info

    def remaining(self) -> int:
        """How many replies are left."""
        return len(self._replies)

    def render(self, request: ModelRequest) -> Json:
        """The request as the Chat Completions dialect would send it."""
        body = encode_request(request, self._info.model, stream=False)
        return Json(json.dumps(body, ensure_ascii=False, separators=(",", ":")))

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        """The next reply; its text is streamed as one fragment. Raises what the script says, and
        `ProviderFailure` (`model.script_empty`) where it says nothing more."""
        self.requests.append(request)
        if not self._replies:
            asked = len(self.requests)
            text = f"the script has no reply left for request {asked}: add one, or ask less"
            raise ProviderFailure(text, "model.script_empty")
        answer: Any = self._replies.popleft()
        if callable(answer):
            answer = answer(request)
            if isawaitable(answer):
                answer = await answer
        if isinstance(answer, Exception):
            raise answer
        response = ModelResponse.of_text(answer) if isinstance(answer, str) else answer
        if not isinstance(response, ModelResponse):
            raise TypeError(f"the script gave {type(response).__name__}, not a reply")
        text = "" if response.content is None else as_text(response.content)
        if text:
            deltas.text(text)
        return response
