"""What a stream of chat completion chunks adds up to. Pure, and total over any JSON value.

An answer counts only when it ended: with a finish reason or with `[DONE]`. A lone `</think>` is
found when the text before it has been streamed already; everywhere else the text of the answer is
exactly what was streamed.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from effects.ports import ProviderFailure, StreamTruncated
from effects.providers.openai_chat.calls import CallAssembler
from effects.providers.openai_chat.failures import failure_of
from effects.providers.openai_chat.pieces import Mender, as_dict, as_list, as_str, json_text
from effects.providers.openai_chat.reasoning import Reasoning
from effects.providers.openai_chat.thinking import ThinkingSplitter, split_at_lone_closer
from effects.providers.openai_chat.usage import merged, usage_in
from effects.providers.secrets import NO_SECRETS, Secrets
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.json import NULL
from reducers.vocabulary.models import Delta, ModelResponse, Usage
from reducers.vocabulary.text import mend

STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "length",
    "content_filter": "refusal",
}
BAD_ANSWER = "model.bad_answer"


def parse_chunk(data: str, secrets: Secrets = NO_SECRETS) -> object:
    """The value of one data line. Raises `ProviderFailure` (`model.bad_stream`)."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass  # half a character in a string, or a number that is too large: the slow reader's task
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        quote = secrets.quote(data)
        raise _bad_stream(f"a line of the stream is not JSON ({error}): {quote!r}") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def _bad_stream(text: str) -> ProviderFailure:
    return ProviderFailure(text, "model.bad_stream")


class ChatDecoder:
    """Feed it chunks in order, `done()` for `[DONE]`, then ask `finish()` once.

    `thinking_in_content` looks for `<think>` where no reasoning field came; `where` names the
    server in failures, and `secrets` are what they never repeat.
    """

    def __init__(
        self,
        *,
        thinking_in_content: bool = True,
        where: str = "",
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        self.where = where
        self.secrets = secrets
        self._thinking_in_content = thinking_in_content
        self._content, self._refusing = Mender(), Mender()
        self._splitter = ThinkingSplitter()
        self._reasoning = Reasoning()
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls = CallAssembler()
        self._has_refused = False
        self.has_choice = False
        """Whether any chunk carried an answer: one with only a report of its cost does not."""
        self._finish_reason = ""
        self._usage: Usage | None = None
        self._failure: Exception | None = None
        self.is_done = False
        """Whether the stream said that nothing follows: what is fed now is ignored."""

    @property
    def has_ended(self) -> bool:
        """Whether the answer is whole, although a report of its cost may follow."""
        return self.is_done or bool(self._finish_reason)

    @property
    def mended(self) -> int:
        """Characters of what was said and thought that were no valid text and were replaced."""
        return self._content.count + self._refusing.count + self._reasoning.mended

    # -- in ------------------------------------------------------------------------------------

    def feed(self, chunk: object) -> list[Delta]:
        """Take one chunk; returns what it adds. Raises what the server reports in it."""
        if self.is_done or self._failure is not None:
            return []
        try:
            return list(self._take(chunk))
        except (ProviderFailure, TooLong) as failure:
            self._failure = failure
            raise

    def done(self) -> list[Delta]:
        """Take the mark of the end; returns what was held back until then."""
        if self.is_done or self._failure is not None:
            return []
        self.is_done = True
        return list(self._flush())

    def _take(self, chunk: object) -> Iterator[Delta]:
        if not isinstance(chunk, dict):
            quote = self.secrets.quote(json_text(chunk))
            raise _bad_stream(f"a chunk of the stream is no object: {quote}")
        choice = _first_choice(chunk)
        self._raise_error(chunk, choice)
        usage = usage_in(chunk, choice)
        if usage is not None:
            self._usage = merged(self._usage, usage)
        self.has_choice = self.has_choice or bool(choice)
        message = as_dict(choice.get("delta"))
        is_whole = not message and not self._has_begun()
        if is_whole:
            message = as_dict(choice.get("message"))
        yield from self._think(self._reasoning.add(chunk, message, is_whole))
        yield from self._take_content(message.get("content"))
        yield from self._take_refusal(as_str(message.get("refusal")))
        yield from self._take_calls(message, is_whole)
        reason = mend(as_str(choice.get("finish_reason")))[0]
        if reason == "error":
            raise self._failed({"message": "the server ended the answer with an error"})
        if reason and not self._finish_reason:
            self._finish_reason = reason
            yield from self._flush()

    def _raise_error(self, chunk: dict[str, Any], choice: dict[str, Any]) -> None:
        for holder in (chunk, choice):
            if holder.get("error"):
                raise self._failed({"error": holder["error"]})
        if chunk.get("object") == "error":
            raise self._failed(chunk)

    def _failed(self, body: object) -> Exception:
        return failure_of(None, body, where=self.where, secrets=self.secrets)

    def _has_begun(self) -> bool:
        return bool(self._said or self._thought or self._calls.drafts)

    def _take_content(self, content: object) -> Iterator[Delta]:
        """A text, or a list of typed parts (Mistral), some of them thinking."""
        for piece, is_thinking in _parts(content):
            text = self._content.add(piece)
            if is_thinking:
                yield from self._think(text)
            elif self._thought and not self._splitter.is_opened:
                # Thinking has a field of its own here: a tag in the content is talk about one.
                yield from self._heard(self._splitter.end())
                yield from self._say(text)
            else:
                yield from self._split(text)

    def _split(self, text: str) -> Iterator[Delta]:
        if not self._thinking_in_content:
            yield from self._say(text)
            return
        yield from self._heard(self._splitter.add(text))

    def _heard(self, parts: list[tuple[str, bool]]) -> Iterator[Delta]:
        for text, is_thinking in parts:
            yield from self._think(text) if is_thinking else self._say(text)

    def _take_refusal(self, piece: str) -> Iterator[Delta]:
        if piece:
            self._has_refused = True
            yield from self._say(self._refusing.add(piece))

    def _take_calls(self, message: dict[str, Any], is_whole: bool) -> Iterator[Delta]:
        for entry in as_list(message.get("tool_calls")):
            yield from self._calls.add(entry, is_whole)
        function = as_dict(message.get("function_call"))  # the dialect's first form, without ids
        if function:
            yield from self._calls.add({"index": "function_call", "function": function}, is_whole)

    def _flush(self) -> Iterator[Delta]:
        yield from self._think(self._reasoning.end())
        yield from self._heard(self._splitter.end())
        yield from self._say(self._content.end() + self._refusing.end())

    def _say(self, text: str) -> Iterator[Delta]:
        if text:
            self._said.append(text)
            yield Delta("text", text)

    def _think(self, text: str) -> Iterator[Delta]:
        if text:
            self._thought.append(text)
            yield Delta("reasoning", text)

    # -- out -----------------------------------------------------------------------------------

    def finish(self) -> ModelResponse:
        """The answer.

        Raises `StreamTruncated` where neither a finish reason nor `[DONE]` came, and
        `ProviderFailure` where the server failed or never answered.
        """
        if self._failure is not None:
            raise self._failure
        if not self.has_ended:
            raise self.truncated()
        self._settle()
        if not self.has_choice:
            raise ProviderFailure("the server ended the stream without an answer in it", BAD_ANSWER)
        calls = self._calls.finished()
        return self._response(calls, self._stop(bool(calls)), self._usage)

    def truncated(self, cut: str = "") -> StreamTruncated:
        """The failure of a stream without its end; `cut` says why no more can be read."""
        why = cut or f"the stream of {self.where or 'the server'} ended"
        return StreamTruncated(f"{why}, before the answer was whole: it was not kept")

    def interrupted(self) -> ModelResponse:
        """What came until somebody asked to stop: no calls, since a cut reply runs nothing, and
        no details to send back, since their signatures come last."""
        self._settle()
        return replace(self._response((), "interrupted", None), extra=NULL)

    def _settle(self) -> None:
        """Take what was held back, too late to be streamed."""
        for _ in self._flush():
            pass

    def _response(
        self, calls: tuple[ToolCall, ...], stop: str, usage: Usage | None
    ) -> ModelResponse:
        said, thought = "".join(self._said), "".join(self._thought)
        if self._thinking_in_content and not thought:
            thought, said = split_at_lone_closer(said) or (thought, said)
        return ModelResponse(
            content=Text(said) if said else None,
            reasoning=Text(thought) if thought else None,
            calls=calls,
            stop=stop,
            usage=usage,
            extra=self._reasoning.extra(),
        )

    def _stop(self, has_calls: bool) -> str:
        if self._has_refused:
            return "refusal"
        stop = STOPS.get(self._finish_reason, self._finish_reason or "end_turn")
        return "tool_use" if stop == "end_turn" and has_calls else stop


def decode_body(
    body: object, *, thinking_in_content: bool = True, where: str = ""
) -> ModelResponse:
    """The answer of a server that did not stream. Raises like `ChatDecoder`.

    `body` is the JSON value; a list is read as the chunks of a stream.
    """
    decoder = ChatDecoder(thinking_in_content=thinking_in_content, where=where)
    feed_body(decoder, body)
    return decoder.finish()


def feed_body(decoder: ChatDecoder, body: object) -> list[Delta]:
    """Take a whole body into a new decoder; returns what it says, as a stream would tell it."""
    deltas: list[Delta] = []
    for chunk in body if isinstance(body, list) else [body]:
        if isinstance(chunk, dict):
            deltas += decoder.feed(chunk)
    if not decoder.has_choice:
        text = f"the answer of {decoder.where or 'the server'} is no chat completion: "
        raise ProviderFailure(text + decoder.secrets.quote(json_text(body)), BAD_ANSWER)
    return deltas + decoder.done()


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any]:
    """The choice that counts: other choices of one question are other answers."""
    for choice in as_list(chunk.get("choices")):
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            return choice
    return {}


def _parts(content: object) -> Iterator[tuple[str, bool]]:
    if isinstance(content, str):
        yield content, False
        return
    for part in as_list(content):
        if isinstance(part, str):
            yield part, False
            continue
        one = as_dict(part)
        if one.get("type") == "thinking":
            thinking = one.get("thinking")
            pieces = [thinking] if isinstance(thinking, str) else as_list(thinking)
            yield from ((_text_of(piece), True) for piece in pieces)
        elif one.get("type") == "text":
            yield as_str(one.get("text")), False


def _text_of(part: object) -> str:
    return part if isinstance(part, str) else as_str(as_dict(part).get("text"))
