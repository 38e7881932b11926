"""`model>` lines: what the scripted model answers, whole or cut anywhere, or how it fails."""

from collections.abc import Iterator

from effects.ports import ProviderFailure, StreamTruncated
from nachalnik.scenarios.words import Words
from reducers.vocabulary.content import Text, ToolCall, as_text
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.json import EMPTY_OBJECT, Json
from reducers.vocabulary.models import Delta, ModelResponse, Overrun, Usage

MARK = "model>"
Answer = ModelResponse | Exception

STOPS = {"end": "end_turn", "tool": "tool_use"}
"""Short words for stop reasons; any other word is the provider's own."""


class CutStream(StreamTruncated):
    """A stream that ended without its end; `arrived` are the fragments that came before."""

    def __init__(self, arrived: tuple[Delta, ...]) -> None:
        super().__init__("the stream ended before its proper end")
        self.arrived = arrived


def reply(words: Words) -> Answer:
    """The answer on a `model>` line, the mark itself read already. Raises `NotationError`."""
    if words.take("fails"):
        text = words.string("the failure's text")
        code = words.word("a dotted code") if words.take("code") else None
        words.end()
        return ProviderFailure(text, code)
    if words.take_all("too long"):
        tokens = words.number("the tokens counted")
        limit = words.number("the limit") if words.take("of") else None
        words.end()
        return TooLong(Overrun(tokens, limit), f"the provider counts {tokens} tokens")
    cut = words.number("after how many characters") if words.take_all("cut after") else None
    response = _response(words)
    words.end()
    if cut is None:
        return response
    return CutStream(tuple(fragments(response, cut)))


def _response(words: Words) -> ModelResponse:
    text, thought, calls = parts(words)
    stop = "tool_use" if calls else "end_turn"
    if words.take("["):
        word = words.word("a stop reason, such as end, tool or length")
        stop = STOPS.get(word, word)
        words.expect("]")
    usage = None
    if words.take("usage"):
        word = words.word("tokens as INPUT/OUTPUT")
        given, slash, answered = word.partition("/")
        if not slash or not (given + answered).isdecimal():
            raise words.error("tokens as INPUT/OUTPUT")
        usage = Usage(words.whole(given), words.whole(answered))
    content = None if text is None else Text(text)
    reasoning = None if thought is None else Text(thought)
    return ModelResponse(content, reasoning, calls, stop, usage)


def parts(words: Words) -> tuple[str | None, str | None, tuple[ToolCall, ...]]:
    """Text, thinking and calls, joined by `+`. An empty id is written `""`."""
    text: str | None = None
    thought: str | None = None
    calls: list[ToolCall] = []
    while True:
        if words.take("call"):
            id = words.string("the call's id") if words.starts_with('"') else words.word("an id")
            calls.append(ToolCall(id, words.word("a tool's name"), _arguments(words)))
        elif words.take("thinking"):
            thought = words.string("the thinking")
        else:
            text = words.string("a text, thinking or a call")
        if not words.take("+"):
            return text, thought, tuple(calls)


def _arguments(words: Words) -> Json:
    """One JSON value, or any other text between single quotes."""
    if words.starts_with("'"):
        return Json(words.raw("arguments in single quotes"))
    return words.json_text("the arguments") if words.starts_with("{") else EMPTY_OBJECT


def fragments(response: ModelResponse, limit: int | None = None) -> Iterator[Delta]:
    """The answer as it is streamed: word by word, arguments in halves; cut after `limit`
    characters where one is given."""
    left = limit
    for delta in _whole_fragments(response):
        if left is None:
            yield delta
        elif left > 0:
            text = delta.text[:left]
            left -= len(text)
            yield Delta(delta.kind, text, delta.index, delta.call, delta.tool)


def _whole_fragments(response: ModelResponse) -> Iterator[Delta]:
    if response.reasoning is not None:
        yield from (Delta("reasoning", one) for one in _split(as_text(response.reasoning)))
    if response.content is not None:
        yield from (Delta("text", one) for one in _split(as_text(response.content)))
    for index, call in enumerate(response.calls):
        half = len(call.args) // 2
        yield Delta("tool_args", call.args[:half], index, call.id, call.tool)
        yield Delta("tool_args", call.args[half:], index, call.id, call.tool)


def _split(text: str) -> Iterator[str]:
    start = 0
    while (space := text.find(" ", start)) >= 0:
        yield text[start : space + 1]
        start = space + 1
    if text[start:]:
        yield text[start:]
