"""The provider: one request, sent once. Retries are somebody else's, since each is billed."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

from effects.ports import DeltaSink, ProviderFailure
from effects.providers.http import Server, read_body, shown_address, unless_interrupted
from effects.providers.openai_chat.bodies import (
    is_event_stream,
    read_json,
    read_refusal,
    retry_after_s,
)
from effects.providers.openai_chat.decode import BAD_ANSWER, ChatDecoder, feed_body, parse_chunk
from effects.providers.openai_chat.encode import REASONING_FIELDS, encode_request
from effects.providers.openai_chat.failures import failure_of
from effects.providers.secrets import secrets_in
from effects.providers.sse import EventReader
from reducers.vocabulary.errors import InvalidInput, TooLong
from reducers.vocabulary.json import Json
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import Delta, ModelInfo, ModelResponse

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response, ServerSentEvent

DEFAULT_BASE_URL = "https://api.openai.com/v1"
PATH = "/chat/completions"
EVENT_STREAM = "text/event-stream"
ACCEPT = f"{EVENT_STREAM}, application/json"
BODY_MAX = 64 * 2**20
REFUSAL_MAX = 2**20
"""Bytes of a whole body, and of one that only says why not."""
AFTER_END_S = 10.0
"""How long a report of the cost is waited for once the answer is whole."""
STREAM_MAX = 256 * 2**20
"""Bytes of data in one stream: far more than any answer, and a bound for a server gone mad."""


class OpenAIChatProvider:
    """A model behind `/chat/completions`. Streams always; reads a whole answer where one comes.

    `api_key` is sent as a bearer token. Without one no such header is sent; the environment's
    `OPENAI_API_KEY` is read only for the default address, so that no other server receives it.
    `silence_timeout_s` is the longest time without an event; comments that keep a connection open
    do not count. `reasoning_fields` names the fields in which earlier reasoning goes back.
    Raises `InvalidInput` for an address or a key that cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = DEFAULT_BASE_URL,
        api_key: str | None = None,
        context_limit: int | None = None,
        max_output_tokens: int | None = None,
        connect_timeout_s: float = 15.0,
        silence_timeout_s: float = 300.0,
        name: str = "openai",
        headers: Mapping[str, str] | None = None,
        thinking_in_content: bool = True,
        reasoning_fields: Sequence[str] = REASONING_FIELDS,
        http: "AsyncClient | None" = None,
    ) -> None:
        self.model = model
        self.name = name
        self.context_limit = context_limit
        self.max_output_tokens = max_output_tokens
        self.thinking_in_content = thinking_in_content
        self.reasoning_fields = tuple(reasoning_fields)
        if api_key is None and base_url.rstrip("/") == DEFAULT_BASE_URL:
            api_key = os.environ.get("OPENAI_API_KEY")
        key = _checked("the API key", api_key or "")
        sent = {"authorization": f"Bearer {key}"} if key else {}
        for header, value in (headers or {}).items():
            sent[header] = _checked(f"the header {header!r}", value)
        self._server = Server(
            base_url,
            sent,
            connect_timeout_s=connect_timeout_s,
            silence_timeout_s=silence_timeout_s,
            http=http,
        )
        self._secrets = secrets_in(base_url, sent.values())

    def __repr__(self) -> str:
        return f"OpenAIChatProvider({self.model!r}, base_url={self._server.shown!r})"

    def info(self) -> ModelInfo:
        return ModelInfo(
            provider=self.name,
            model=self.model,
            context_limit=self.context_limit,
            max_output_tokens=self.max_output_tokens,
            tool_calling=True,
            reasoning=True,
            endpoint=self._server.shown,
        )

    def render(self, request: ModelRequest) -> Json:
        """The body that `respond` sends for this request, as it is sent."""
        body = encode_request(request, self.model, reasoning_fields=self.reasoning_fields)
        return Json(json.dumps(body, ensure_ascii=False, separators=(",", ":")))

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        """One answer. Raises `TooLong`, or `ProviderFailure` with a code.

        After an interrupt it returns what came by then, without calls, with the stop
        `interrupted`; an answer that was whole already is returned as it is.
        """
        body = self.render(request).encode("utf-8", "replace")
        decoder = ChatDecoder(
            thinking_in_content=self.thinking_in_content,
            where=self._server.shown,
            secrets=self._secrets,
        )

        async def exchange() -> None:
            async with self._server.post(PATH, body, ACCEPT) as answer:
                await self._check(answer)
                if _media_type(answer) == EVENT_STREAM:
                    await self._read_stream(answer, decoder, deltas)
                else:
                    await self._read_whole(answer, decoder, deltas)

        try:
            was_given_up = await unless_interrupted(deltas.is_interrupted, exchange)
        except (ProviderFailure, TooLong) as failure:
            self._take_out_secrets(failure)
            raise
        is_cut = not decoder.has_ended and (was_given_up or deltas.is_interrupted())
        response = decoder.interrupted() if is_cut else decoder.finish()
        deltas.mended += decoder.mended
        return response

    async def aclose(self) -> None:
        """Close what is open in this event loop; the provider can be used again."""
        await self._server.aclose()

    # -- answers -------------------------------------------------------------------------------

    async def _check(self, answer: "Response") -> None:
        """Raise what a response that is no answer means."""
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        is_encoded = encoding not in ("", "identity")
        if answer.is_success:
            if is_encoded:
                text = f"{self._server.shown} answered in the encoding {encoding!r}, unasked: "
                raise ProviderFailure(text + "a proxy on the way may do that", BAD_ANSWER)
            return
        body: object = f"a body in the encoding {encoding!r}"
        if not is_encoded:
            with self._server.failures():
                body = read_refusal(await read_body(answer, REFUSAL_MAX), self._secrets)
        if answer.is_redirect:
            text = f"{self._server.shown} moved: use {_target(answer)} as the base address"
            raise ProviderFailure(text, "model.moved")
        wait = retry_after_s(answer.headers)
        raise failure_of(answer.status_code, body, wait, self._server.shown, self._secrets)

    async def _read_whole(
        self, answer: "Response", decoder: ChatDecoder, deltas: DeltaSink
    ) -> None:
        """The answer of a server that ignored `stream`, or streamed under a wrong name."""
        with self._server.failures():
            body = await read_body(answer, BODY_MAX)
        if is_event_stream(body):
            await self._read_stream(_as_stream(answer, body), decoder, deltas)
            return
        value, mended = read_json(body, self._server.shown, self._secrets)
        deltas.mended += mended
        for delta in feed_body(decoder, value):
            deltas.send(delta)

    async def _read_stream(
        self, answer: "Response", decoder: ChatDecoder, deltas: DeltaSink
    ) -> None:
        """Feed the decoder until the end. Raises `StreamTruncated` where that is no proper one."""
        reader = EventReader(answer)
        try:
            cut = await self._follow(reader, decoder, deltas)
        finally:
            await reader.aclose(is_done=decoder.is_done)
            deltas.mended += reader.mended
        if not decoder.has_ended and not deltas.is_interrupted():
            raise decoder.truncated(cut)

    async def _follow(self, reader: EventReader, decoder: ChatDecoder, deltas: DeltaSink) -> str:
        """Returns why no more can be read, or nothing where the body simply ended."""
        size = 0
        while not decoder.is_done and not deltas.is_interrupted():
            limit = AFTER_END_S if decoder.has_ended else self._server.silence_timeout_s
            try:
                with self._server.failures(), anyio.fail_after(limit):
                    event = await reader.next()
            except TimeoutError:
                return f"{self._server.shown} was silent for {limit:g} s"
            except ProviderFailure as failure:
                return str(failure)
            if event is None:
                break
            size += len(event.data)
            if size > STREAM_MAX:
                raise ProviderFailure(f"the stream is over {STREAM_MAX} bytes", "model.bad_stream")
            for delta in _decoded(event, reader, decoder):
                deltas.send(delta)
        return ""

    def _take_out_secrets(self, failure: ProviderFailure | TooLong) -> None:
        """Servers repeat what they were sent; what they were sent must not reach a log.

        Where their words are cut this was done before; here it is done for those that are not.
        """
        text = self._secrets.hide(str(failure))
        failure.args = (text,)
        if isinstance(failure, TooLong):
            failure.said = text


def _decoded(event: "ServerSentEvent", reader: EventReader, decoder: ChatDecoder) -> list[Delta]:
    data = event.data.strip()
    if data.startswith("[") and "".join(data.split()) == "[DONE]":
        return decoder.done()
    try:
        chunk = parse_chunk(data, decoder.secrets)
    except ProviderFailure:
        if reader.at_end:
            return []  # the beginning of a line: the stream was cut in the middle of it
        if event.event == "error":
            raise failure_of(None, data, where=decoder.where, secrets=decoder.secrets) from None
        raise
    if event.event == "error" and not (isinstance(chunk, dict) and "error" in chunk):
        chunk = {"error": chunk}
    return decoder.feed(chunk)


def _media_type(answer: "Response") -> str:
    value: str = answer.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def _as_stream(answer: "Response", body: bytes) -> "Response":
    from httpx2 import Response

    headers = {"content-type": EVENT_STREAM}
    return Response(200, headers=headers, content=body, request=answer.request)


def _target(answer: "Response") -> str:
    try:
        target = shown_address(answer.headers.get("location", ""))
    except InvalidInput:
        return "the new address"
    return target.removesuffix(PATH)


def _checked(name: str, value: str) -> str:
    """A header's value without blanks around it. Raises `InvalidInput`, never showing the value."""
    value = value.strip()
    if not (value.isascii() and (value.isprintable() or not value)):
        raise InvalidInput(f"{name} holds characters that cannot be sent in a header")
    return value
