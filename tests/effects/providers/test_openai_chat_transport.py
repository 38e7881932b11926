"""The provider against a real server on loopback, which behaves as badly as servers do."""

import json
import math
import socket
import time
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effects.ports import DeltaSink, ProviderFailure, StreamTruncated
from effects.providers import openai_chat
from effects.providers.openai_chat import OpenAIChatProvider
from effects.providers.openai_chat import provider as module
from nachalnik.testing.wire import Reply, WireServer, chat_stream, sse
from reducers.vocabulary.content import Text
from reducers.vocabulary.errors import InvalidInput, TooLong
from reducers.vocabulary.messages import Message, ModelRequest
from reducers.vocabulary.models import ModelResponse, Usage
from tests.effects.providers.streams import BROKEN, WHOLE, call, chunk, raw, streamed

ASK = ModelRequest((Message("user", Text("go")),))
HI = ModelResponse(Text("hi"))
TEXT_STREAM = chat_stream("hi")


class Sink:
    """What was streamed; raises the interrupt after so many deltas."""

    def __init__(self, interrupt_after=math.inf):
        self.deltas = []
        self.interrupt_after = interrupt_after
        self.sink = DeltaSink("1.0", lambda _, delta: self.deltas.append(delta), self.is_up)

    def is_up(self):
        return len(self.deltas) >= self.interrupt_after


@asynccontextmanager
async def served(*replies, **options):
    with WireServer(replies) as server:
        provider = OpenAIChatProvider("m1", base_url=server.base_url, **options)
        yield provider, server
        await provider.aclose()


async def ask(reply, **options):
    """The answer to one request that gets this reply."""
    async with served(reply, **options) as (provider, _):
        return await provider.respond(ASK, DeltaSink.disconnected())


async def failed(reply, kind=ProviderFailure, **options):
    with pytest.raises(kind) as failure:
        await ask(reply, **options)
    return failure.value


async def hung_up(server):
    """Until the server sees that its client is gone."""
    with anyio.fail_after(5):
        while not server.hangups:  # noqa: ASYNC110 (another thread counts it)
            await anyio.sleep(0.01)


def outcome(response, deltas):
    return response, [streamed(deltas, kind) for kind in ("text", "reasoning")]


# -- every cut -----------------------------------------------------------------------------


async def outcomes(name, replies):
    """What each delivery of one stream comes to; failures by their code."""
    found = []
    async with served(*replies) as (provider, _):
        for _ in replies:
            sink = Sink()
            try:
                found.append(outcome(await provider.respond(ASK, sink.sink), sink.deltas))
            except ProviderFailure as failure:
                found.append((failure.code, str(failure)))
    return found


def cuts(body, every):
    """Places to cut: all, or some and all those inside a character or around a line end."""
    inside = {n for n in range(1, len(body)) if body[n] & 0xC0 == 0x80}
    around = {n + k for n in range(len(body)) if body[n : n + 1] == b"\n" for k in (0, 1)}
    near = {*sorted(around)[::every]} | {*sorted(inside)[:: min(every, 2)]}
    return sorted(near | {*range(1, len(body), every)})


@pytest.mark.anyio
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
async def test_a_stream_is_the_same_wherever_it_is_cut(name, line_end):
    """SB-01, SB-07."""
    body = raw(name).replace(b"\n", line_end)
    ways = [Reply(body), *(Reply(body, cuts=(at,)) for at in cuts(body, 23)), Reply(body, drip=1)]
    first, *others = await outcomes(name, ways)
    assert all(other == first for other in others)
    if name in WHOLE:
        assert first[0] == WHOLE[name]
        assert "\ufffd" not in repr(first)
    else:
        assert first[0] == BROKEN[name]


@pytest.mark.deep
@pytest.mark.anyio
@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
async def test_a_stream_is_the_same_at_every_cut(name):
    body = raw(name).replace(b"\n", b"\r\n")
    ways = [Reply(body), *(Reply(body, cuts=(at,)) for at in range(1, len(body)))]
    first, *others = await outcomes(name, ways)
    assert all(other == first for other in others)


def ends_at(body):
    """Where the line with the finish reason is complete: from there on the answer is whole."""
    return body.index(b"\n", body.index(b'"finish_reason":"'))


@pytest.mark.anyio
@pytest.mark.parametrize("framing", ["close", "chunked", "length"])
@pytest.mark.parametrize("name", ["text", "unicode", "two_calls_interleaved", "length"])
async def test_a_stream_that_breaks_off_is_no_answer(name, framing):
    """SB-05, in the form of this dialect: the closed connection looks like a proper end."""
    body = raw(name)
    end = ends_at(body)
    places = [*range(0, end, 61), end - 1]
    ways = [Reply(body, break_at=at, framing=framing) for at in places]
    found = await outcomes(name, [*ways, Reply(body, break_at=end, framing=framing)])
    assert {code for code, _ in found[:-1]} == {"model.stream_truncated"}
    assert found[-1][0].stop == WHOLE[name].stop


# -- the end of a stream -------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_end_is_the_mark_and_not_the_connection():
    """CH13: the connection stays open."""
    started = time.monotonic()
    assert await ask(Reply(TEXT_STREAM, stall_at=len(TEXT_STREAM))) == HI
    assert time.monotonic() - started < 5


@pytest.mark.anyio
@pytest.mark.parametrize("mark", ["data: [DO\ndata: NE]", "data:[DONE]", "data: [DONE] "])
async def test_the_mark_may_be_written_oddly(mark):
    body = sse(chunk(content="hi"), done=False) + mark.encode() + b"\n\n"
    assert await ask(Reply(body, stall_at=len(body))) == HI


@pytest.mark.anyio
async def test_silence_behind_the_finish_reason_is_the_end(monkeypatch):
    """CH15."""
    monkeypatch.setattr(module, "AFTER_END_S", 0.1)
    body = sse(chunk(content="hi"), chunk("stop"), done=False)
    assert await ask(Reply(body, stall_at=len(body))) == HI


@pytest.mark.anyio
@pytest.mark.parametrize("alive", [b"", b": still here\n\n"])
async def test_silence_before_it_is_a_cut(alive):
    """CH15; comments are no progress."""
    body = sse(chunk(content="h"), done=False) + alive * 100
    reply = Reply(body, drip=len(alive), pause_s=0.02, stall_at=len(body))
    failure = await failed(reply, StreamTruncated, silence_timeout_s=0.3)
    assert "silent for 0.3 s" in str(failure)


@pytest.mark.anyio
async def test_the_last_event_needs_no_blank_line():
    """SB-07."""
    for end in ("", "\n", "\r\n"):
        body = sse(chunk(content="hi"), done=False) + b"data: " + json.dumps(chunk("stop")).encode()
        assert await ask(Reply(body + end.encode(), framing="close")) == HI


@pytest.mark.anyio
@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + TEXT_STREAM,
        TEXT_STREAM.replace(b"data: ", b"data:"),
        TEXT_STREAM.replace(b"\n", b"\r"),
        b": hello\n\nid: 7\n\nretry: 3\n\nevent: ping\n\n" + TEXT_STREAM,
        b'data: {"choices":[{"delta":{"content":"hi"},\ndata: "finish_reason":"stop"}]}\n\n',
        TEXT_STREAM.replace(b"data: ", b"event: chunk\ndata: "),
    ],
    ids=["mark", "no-space", "cr", "other-fields", "several-lines", "named"],
)
async def test_events_in_every_form_are_read(body):
    """CH16, SB-07."""
    assert await ask(Reply(body, drip=1)) == HI
    assert await ask(Reply(body, framing="close")) == HI


@pytest.mark.anyio
async def test_a_stream_is_utf_8_whatever_its_head_says():
    body = sse(chunk("stop", content="hé"))
    response = await ask(Reply(body, content_type="Text/Event-Stream; charset=iso-8859-1"))
    assert response == ModelResponse(Text("hé"))


@pytest.mark.anyio
@pytest.mark.parametrize("drip", [0, 1])
async def test_what_is_no_utf_8_is_replaced_and_counted(drip):
    """R27. A U+FFFD that was sent as one is no repair; the last half comes with the end."""
    stream = sse(chunk(content="a\ufffdb?c"), chunk("stop", content="\ud83e", reasoning="\udd80"))
    stream = stream.replace(b"\\ufffd", b"\xef\xbf\xbd").replace(b"?", b"\xff")
    message = {"message": {"content": "a\ufffdb?c"}, "finish_reason": "stop"}
    whole = json.dumps({"choices": [message]}, ensure_ascii=False).encode().replace(b"?", b"\xff")
    for reply, text, count in (
        (Reply(stream, drip=drip), "a\ufffdb\ufffdc\ufffd", 3),
        (Reply(whole, content_type="application/json"), "a\ufffdb\ufffdc", 1),
    ):
        async with served(reply) as (provider, _):
            sink = DeltaSink.disconnected()
            response = await provider.respond(ASK, sink)
            assert response.content == Text(text)
            assert sink.mended == count


@pytest.mark.anyio
async def test_a_very_long_line_is_read():
    text = "é" * 3_000_000
    assert (await ask(sse(chunk("stop", content=text)))).content == Text(text)


@pytest.mark.anyio
async def test_a_line_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr("effects.providers.sse.EVENT_MAX", 10_000)
    failure = await failed(Reply(b"data: " + b"x" * 20_000), StreamTruncated)
    assert "10000 byte limit" in str(failure)


@pytest.mark.anyio
async def test_a_stream_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "STREAM_MAX", 10_000)
    failure = await failed(sse(*[chunk(content="x" * 100)] * 200))
    assert failure.code == "model.bad_stream"


# -- answers that are no stream ------------------------------------------------------------

WHOLE_BODY = {
    "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 1},
}


def as_json(value, status=200, **options):
    return Reply(json.dumps(value).encode(), status, "application/json", **options)


@pytest.mark.anyio
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_a_whole_answer_is_read_and_shown(framing):
    """CH14."""
    async with served(as_json(WHOLE_BODY, framing=framing)) as (provider, _):
        sink = Sink()
        response = await provider.respond(ASK, sink.sink)
    assert response == ModelResponse(Text("hi"), usage=Usage(2, 1))
    assert streamed(sink.deltas, "text") == "hi"


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["application/json", "text/plain", ""])
async def test_a_stream_under_a_wrong_name_is_read(kind):
    assert await ask(Reply(TEXT_STREAM, content_type=kind)) == HI
    assert await ask(Reply(b": hello\n\n" + TEXT_STREAM, content_type=kind)) == HI


@pytest.mark.anyio
async def test_an_error_in_a_good_status_is_a_failure():
    """SB-08."""
    failure = await failed(as_json({"error": {"code": 429, "message": "slow down"}}))
    assert failure.code == "model.rate_limited"
    assert "slow down" in str(failure)


GZIPPED = bytes.fromhex("1f8b08000000000000")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(b"<!DOCTYPE html><title>Sign in</title>", 200, "text/html"), "'Sign in'"),
        (Reply(b"<html><h1>It works</h1>", 200, "text/html"), "web page"),
        (Reply(GZIPPED, 200, "application/json"), "compressed data"),
        (Reply(b"\x00\xff\xfe", 200, "application/json"), "no text"),
        (Reply(b"", 200, "application/json"), "empty body"),
        (Reply(b"ok", 200, "text/plain"), "'ok'"),
        (Reply(b'{"status":"ok"}', 200, "application/json"), '{"status":"ok"}'),
        (Reply(b"x", headers={"content-encoding": "br"}), "encoding 'br'"),
        (Reply(b"x", headers={"content-encoding": "gzip"}, content_type=""), "encoding 'gzip'"),
    ],
)
async def test_what_is_no_completion_is_named(reply, said):
    """CH14."""
    failure = await failed(reply)
    assert failure.code == "model.bad_answer"
    assert said in str(failure)


@pytest.mark.anyio
async def test_a_large_body_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "BODY_MAX", 1000)
    failure = await failed(as_json({"x": "x" * 2000}))
    assert failure.code == "model.bad_answer"


@pytest.mark.anyio
async def test_an_error_event_is_a_failure():
    for data in ('{"message":"overloaded"}', "overloaded", '{"error":{"message":"overloaded"}}'):
        failure = await failed(f"event: error\ndata: {data}\n\n".encode())
        assert failure.code == "model.overloaded"


@pytest.mark.anyio
@pytest.mark.parametrize("line", ["ping", "{", "NaN", "[1]", "null"])
async def test_a_line_that_is_no_chunk_is_a_failure(line):
    failure = await failed(sse(line, chunk("stop", content="x")))
    assert failure.code == "model.bad_stream"


# -- refusals ------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "model.refused_request"),
        (401, "model.unauthorized"),
        (402, "model.quota"),
        (404, "model.not_found"),
        (413, "model.too_long"),
        (429, "model.rate_limited"),
        (500, "model.server_error"),
        (501, "model.refused_request"),
        (503, "model.overloaded"),
        (529, "model.overloaded"),
    ],
)
async def test_a_status_is_a_code(status, code):
    for body in (b'{"error":{"message":"no"}}', b"no", b"", GZIPPED):
        failure = await failed(Reply(body, status, "application/json"))
        assert (failure.code, failure.status) == (code, status)
        assert f"/v1 answered {status}" in str(failure)


@pytest.mark.anyio
async def test_an_overflow_has_its_figures():
    error = {
        "code": 400,
        "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5024,
        "n_ctx": 4096,
    }
    failure = await failed(as_json({"error": error}, 400), TooLong)
    assert (failure.overrun.tokens, failure.overrun.limit) == (5024, 4096)
    assert "exceeds the available context size" in failure.said


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("head", "wait", "code"),
    [
        ({"retry-after": "20"}, 20, "model.rate_limited"),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5, "model.rate_limited"),
        ({"retry-after": "3600"}, 3600, "model.quota"),
        ({"retry-after": "Fri, 01 Jan 2010 00:00:00 GMT"}, 0, "model.rate_limited"),
        ({"retry-after": "soon"}, None, "model.rate_limited"),
    ],
)
async def test_how_long_to_wait_is_read(head, wait, code):
    """W1."""
    failure = await failed(as_json({"error": {"message": "busy"}}, 429, headers=head))
    assert (failure.retry_after_s, failure.code) == (wait, code)


@pytest.mark.anyio
async def test_one_request_is_sent_and_no_second_one():
    async with served(Reply(b"", 503), TEXT_STREAM) as (provider, server):
        with pytest.raises(ProviderFailure):
            await provider.respond(ASK, DeltaSink.disconnected())
        assert len(server.requests) == 1


@pytest.mark.anyio
async def test_a_redirect_is_named_and_not_followed():
    place = "https://user:word@elsewhere.example/v1/chat/completions?key=s"
    failure = await failed(Reply(b"", 308, headers={"location": place}))
    assert failure.code == "model.moved"
    assert "use https://elsewhere.example/v1 as" in str(failure)


# -- no answer at all ----------------------------------------------------------------------


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.anyio
async def test_a_refused_connection_is_named():
    port = closed_port()
    provider = OpenAIChatProvider("m1", base_url=f"http://user:word@127.0.0.1:{port}/v1?key=s3cret")
    with pytest.raises(ProviderFailure) as failure:
        await provider.respond(ASK, DeltaSink.disconnected())
    await provider.aclose()
    assert failure.value.code == "model.unreachable"
    assert f"no connection to http://127.0.0.1:{port}/v1: " in str(failure.value)
    assert "is the server running there?" in str(failure.value)
    assert "word" not in str(failure.value)
    assert "s3cret" not in str(failure.value)


@pytest.mark.anyio
async def test_silence_before_the_head_is_named():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        provider = OpenAIChatProvider("m1", base_url=base, silence_timeout_s=0.2)
        with pytest.raises(ProviderFailure) as failure:
            await provider.respond(ASK, DeltaSink.disconnected())
        await provider.aclose()
    assert failure.value.code == "model.timeout"
    assert "silent for 0.2 s" in str(failure.value)


@pytest.mark.anyio
@pytest.mark.parametrize("nonsense", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200", b"\0" * 50])
async def test_a_server_that_speaks_otherwise_is_named(nonsense):
    assert (await failed(Reply(raw=nonsense))).code == "model.connection_lost"


# -- interrupts ----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_interrupt_between_chunks_keeps_the_text_and_runs_nothing():
    words = [chunk(content=f"{n} ") for n in range(50)]
    asked = chunk(tool_calls=[call(0, "A", "add", "{}")])
    async with served(sse(asked, *words, chunk("tool_calls"))) as (provider, _):
        sink = Sink(interrupt_after=4)
        response = await provider.respond(ASK, sink.sink)
    assert response == ModelResponse(Text("0 1 2 "), stop="interrupted")


@pytest.mark.anyio
async def test_an_interrupt_in_the_middle_of_silence_is_seen():
    body = sse(chunk(content="0 "), done=False)
    async with served(Reply(body, stall_at=len(body))) as (provider, server):
        sink, started = Sink(interrupt_after=1), time.monotonic()
        response = await provider.respond(ASK, sink.sink)
        assert response == ModelResponse(Text("0 "), stop="interrupted")
        assert time.monotonic() - started < 5
        await hung_up(server)


@pytest.mark.anyio
async def test_an_interrupt_before_the_head_is_seen():
    """OL3: a model that is being loaded says nothing, not even its head."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        provider = OpenAIChatProvider("m1", base_url=base)
        response = await provider.respond(ASK, Sink(interrupt_after=0).sink)
        await provider.aclose()
    assert response == ModelResponse(stop="interrupted")


@pytest.mark.anyio
async def test_an_interrupt_after_the_end_changes_nothing():
    body = sse(chunk("stop", content="hi"), done=False)
    async with served(Reply(body, stall_at=len(body))) as (provider, _):
        assert await provider.respond(ASK, Sink(interrupt_after=1).sink) == HI


@pytest.mark.anyio
async def test_a_cancelled_request_closes_its_connection():
    body = sse(chunk(content="0 "), done=False)
    async with served(Reply(body, stall_at=len(body))) as (provider, server):
        with anyio.move_on_after(0.2) as scope:
            await provider.respond(ASK, DeltaSink.disconnected())
        assert scope.cancelled_caught
        await hung_up(server)


# -- what is sent --------------------------------------------------------------------------


@pytest.mark.anyio
async def test_what_is_sent_is_what_is_rendered():
    async with served(TEXT_STREAM, api_key="k-12345678") as (provider, server):
        await provider.respond(ASK, DeltaSink.disconnected())
        (request,) = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.body.decode() == provider.render(ASK)
        assert request.headers["authorization"] == "Bearer k-12345678"
        assert request.headers["accept-encoding"] == "identity"
        assert "k-12345678" not in provider.render(ASK) + repr(provider) + repr(provider.info())


@pytest.mark.anyio
@pytest.mark.parametrize("key", [None, "", "  "])
async def test_no_key_is_no_header(key, monkeypatch):
    """OL4, and another server never gets the key of the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "k-12345678")
    async with served(TEXT_STREAM, api_key=key) as (provider, server):
        await provider.respond(ASK, DeltaSink.disconnected())
        assert "authorization" not in server.requests[0].headers


@pytest.mark.anyio
async def test_the_environment_key_is_for_the_default_address_alone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", " k-12345678\n")
    seen = []

    def answer(request):
        seen.append(request)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"},
                               content=TEXT_STREAM)  # fmt: skip

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        provider = OpenAIChatProvider("m1", http=http)
        assert await provider.respond(ASK, DeltaSink.disconnected()) == HI
        await provider.aclose()
        assert not http.is_closed
    assert seen[0].headers["authorization"] == "Bearer k-12345678"
    assert str(seen[0].url) == f"{module.DEFAULT_BASE_URL}/chat/completions"


@pytest.mark.anyio
async def test_a_secret_that_a_server_repeats_is_taken_out():
    key, other = "k-12345678", "azure-key-1"
    body = as_json({"error": {"message": f"bad key {key} or {other}"}}, 401)
    failure = await failed(body, api_key=key, headers={"api-key": other})
    assert key not in str(failure)
    assert other not in str(failure)
    assert "[secret]" in str(failure)


@pytest.mark.parametrize("key", ["k\nx", "ключ", "a\0b"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key):
    with pytest.raises(InvalidInput) as refused:
        OpenAIChatProvider("m1", api_key=key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    "base", ["", "api.openai.com/v1", "ftp://x/v1", "http://", "http://x:y/v1"]
)
def test_an_address_that_is_none_is_refused(base):
    with pytest.raises(InvalidInput):
        OpenAIChatProvider("m1", base_url=base)


@pytest.mark.anyio
async def test_a_query_in_the_address_stays_behind_the_path():
    with WireServer([TEXT_STREAM]) as server:
        base = f"{server.base_url}/?api-version=1"
        provider = OpenAIChatProvider("m1", base_url=base)
        await provider.respond(ASK, DeltaSink.disconnected())
        await provider.aclose()
        assert server.requests[0].path == "/v1/chat/completions?api-version=1"
        assert provider.info().endpoint == server.base_url


def test_what_is_known_of_the_model():
    provider = OpenAIChatProvider(
        "m1", base_url="http://[::1]:80/v1/", context_limit=8000, max_output_tokens=100, name="x"
    )
    info = provider.info()
    assert (info.provider, info.model, info.endpoint) == ("x", "m1", "http://[::1]:80/v1")
    assert (info.context_limit, info.max_output_tokens, info.tool_calling) == (8000, 100, True)


# -- loops ---------------------------------------------------------------------------------


@pytest.mark.parametrize("backends", [("asyncio", "trio"), ("trio", "asyncio"), ("asyncio",) * 2])
def test_one_provider_works_in_one_event_loop_after_another(backends):
    with WireServer([TEXT_STREAM] * 4) as server:
        provider = OpenAIChatProvider("m1", base_url=server.base_url)

        async def twice():
            for _ in range(2):
                assert await provider.respond(ASK, DeltaSink.disconnected()) == HI

        for backend in backends:
            anyio.run(twice, backend=backend)


@pytest.mark.anyio
async def test_a_closed_provider_can_be_used_again():
    async with served(TEXT_STREAM, TEXT_STREAM) as (provider, _):
        for _ in range(2):
            assert await provider.respond(ASK, DeltaSink.disconnected()) == HI
            await provider.aclose()


@pytest.mark.anyio
async def test_a_whole_answer_is_no_hang_up():
    async with served(TEXT_STREAM, Reply(TEXT_STREAM, drip=1)) as (provider, server):
        for _ in range(2):
            await provider.respond(ASK, DeltaSink.disconnected())
    assert server.hangups == 0


@pytest.mark.anyio
async def test_several_requests_at_once_do_not_meet():
    texts = [f"{n} and more of {n}" for n in range(20)]
    replies = [Reply(chat_stream(text), drip=7, pause_s=0.0005) for text in texts]
    found = []
    async with served(*replies) as (provider, _):

        async def one():
            sink = Sink()
            response = await provider.respond(ASK, sink.sink)
            assert streamed(sink.deltas, "text") == response.content.text
            found.append(response.content.text)

        async with anyio.create_task_group() as tasks:
            for _ in texts:
                tasks.start_soon(one)
    assert sorted(found) == sorted(texts)


# -- anything at all -----------------------------------------------------------------------


@st.composite
def damaged_bodies(draw):
    """A stream with stretches of bytes taken out, put in or said twice; sometimes only noise."""
    body = draw(st.sampled_from([*map(raw, [*WHOLE, *BROKEN]), json.dumps(WHOLE_BODY).encode()]))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(body)))
        stop = min(len(body), start + draw(st.integers(0, 40)))
        noise = st.sampled_from(
            [b"", b"\n", b"\r", b"\n\n", b"data: ", b"\xff", b'"', b"{}", b"null"]
        )
        body = body[:start] + draw(noise | st.binary(max_size=4)) + body[stop:]
    return draw(st.sampled_from([body]) | st.binary(max_size=60))


@given(
    damaged_bodies(),
    st.sampled_from([200, 200, 200, 400, 500, 301]),
    st.sampled_from(["text/event-stream", "application/json", "text/html", ""]),
)
def test_any_body_is_an_answer_or_a_failure(body, status, kind):
    def answer(request):
        return httpx2.Response(status, headers={"content-type": kind}, content=body)

    async def main():
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            provider = OpenAIChatProvider("m1", base_url="http://x/v1", http=http)
            return await provider.respond(ASK, DeltaSink.disconnected())

    try:
        assert isinstance(anyio.run(main), ModelResponse)
    except (ProviderFailure, TooLong) as failure:
        str(failure).encode()


def test_importing_loads_no_client():
    import subprocess
    import sys

    code = "import sys, effects.providers.openai_chat, effects.providers.scripted; "
    code += "print('httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert openai_chat.__all__
