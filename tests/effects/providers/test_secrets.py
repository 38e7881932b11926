"""What was sent to a server does not come back through its words, wherever those are cut."""

import base64
import json
from urllib.parse import quote, quote_plus

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effects.ports import DeltaSink, ProviderFailure
from effects.providers.openai_chat import OpenAIChatProvider
from effects.providers.openai_chat.failures import SENTENCE_MAX
from effects.providers.secrets import QUOTE_MAX, SECRET_MIN, Secrets, secrets_in
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.messages import Message, ModelRequest

ASK = ModelRequest((Message("user", "go"),))
KEY = "sk-0123456789ABCDEF"
EVENTS = "text/event-stream"
JSON = "application/json"


def failure_on(status, kind, body, head=(), **options):
    """The text of the failure that a server's answer comes to."""
    head = {"content-type": kind, **dict(head)}
    options = {"base_url": "http://x/v1", **options}

    def answer(request):
        return httpx2.Response(status, headers=head, content=body)

    async def main():
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            provider = OpenAIChatProvider("m1", http=http, **options)
            return await provider.respond(ASK, DeltaSink.disconnected())

    with pytest.raises((ProviderFailure, TooLong)) as failure:
        anyio.run(main)
    return str(failure.value)


def as_json(value):
    return json.dumps(value).encode()


def upstream(text):
    """An aggregator's error, which has its upstream's body as text, slashes escaped."""
    raw = json.dumps({"error": {"message": text}}).replace("/", "\\/")
    return {"error": {"message": "Provider returned error", "metadata": {"raw": raw}}}


def event(data, name="message"):
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


ECHOES = {
    "message": lambda said: (401, JSON, as_json({"error": {"message": said}})),
    "code": lambda said: (401, JSON, as_json({"error": {"code": said}})),
    "detail": lambda said: (422, JSON, as_json({"detail": [{"msg": said}, {"msg": said}]})),
    "upstream": lambda said: (400, JSON, as_json(upstream(said))),
    "upstream's text": lambda said: (400, JSON, as_json({"error": {"metadata": {"raw": said}}})),
    "too long": lambda said: (
        (400, JSON, as_json({"error": {"message": said, "n_prompt_tokens": 9, "n_ctx": 5,
                                       "type": "exceed_context_size_error"}}))
    ),
    "text": lambda said: (500, "text/plain", said.encode()),
    "page": lambda said: (404, "text/html", f"<html><h1>{said[-150:]}</h1>".encode()),
    "no completion": lambda said: (200, JSON, as_json({"x": said})),
    "no json": lambda said: (200, JSON, said.encode()),
    "line": lambda said: (200, EVENTS, event(b"{" + said.encode())),
    "chunk": lambda said: (200, EVENTS, event(as_json([said]))),
    "error event": lambda said: (200, EVENTS, event(as_json({"message": said}), "error")),
    "error line": lambda said: (200, EVENTS, event(b"{" + said.encode(), "error")),
    "error chunk": lambda said: (200, EVENTS, event(as_json({"error": {"message": said}}))),
    "place": lambda said: (301, "", b"", {"location": "http://x/" + said}),
    "encoding": lambda said: (200, "", b"", {"content-encoding": said}),
}  # fmt: skip


def secret(symbols=""):
    """No eight of its characters in a row are in any sentence of ours."""
    return st.text("ABCDEF0123456789-_/+" + symbols, min_size=12, max_size=80)


@st.composite
def senders(draw):
    """A provider's options, and the secrets among them."""
    way = draw(st.sampled_from(["key", "bearer", "header", "query", "password"]))
    value = draw(secret("" if way == "password" else "&=%\\\"'"))
    if way == "key":
        return {"api_key": value}, value
    if way == "bearer":
        return {"headers": {"Authorization": f"Bearer {value}"}}, value
    if way == "header":
        return {"headers": {"api-key": value}}, value
    if way == "query":
        return {"base_url": f"http://x/v1?v=1&key={quote(value)}"}, value
    return {"base_url": f"http://me:{quote(value, safe='')}@x/v1"}, value


WRITTEN = {
    "as sent": str,
    "quoted": lambda value: quote(value, safe=""),
    "quoted as in a form": quote_plus,
    "in json": lambda value: json.dumps(value)[1:-1],
    "in lower case": str.lower,
}


@given(
    senders(),
    st.sampled_from(sorted(ECHOES)),
    st.sampled_from(sorted(WRITTEN)),
    st.integers(0, 640) | st.integers(100, 210) | st.integers(520, 610),
)
def test_no_part_of_a_secret_is_in_a_failure(sender, echo, form, before):
    options, value = sender
    said = "x" * before + " " + WRITTEN[form](value) + " is bad"
    text = failure_on(*ECHOES[echo](said), **options).lower()
    shown = [WRITTEN[form](value).lower(), value.lower()]
    for one in shown:
        for start in range(len(one) - SECRET_MIN + 1):
            assert one[start : start + SECRET_MIN] not in text


@pytest.mark.parametrize("echo", sorted(ECHOES))
def test_a_secret_is_taken_out_and_the_rest_stays(echo):
    text = failure_on(*ECHOES[echo](f"the key {KEY} is bad"), api_key=KEY)
    assert "the key [secret] is bad" in text


@pytest.mark.parametrize("echo", sorted(ECHOES))
def test_a_secret_across_the_cut_goes_whole(echo):
    for before in (
        *range(QUOTE_MAX - 40, QUOTE_MAX, 6),
        *range(SENTENCE_MAX - 40, SENTENCE_MAX, 6),
    ):
        text = failure_on(*ECHOES[echo]("x" * before + KEY), api_key=KEY)
        assert "sk-" not in text


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (["Bearer " + KEY], KEY),
        (["theme=dark; session=" + KEY + "; x=y"], KEY),
        (['Token token="' + KEY + '"'], KEY),
        (["a word with blanks"], "a word with blanks"),
        (["http://u:pass-word@x/"], "http://u:pass-word@x/"),
    ],
)
def test_what_a_header_holds_is_known(values, known):
    assert secrets_in("http://x/v1", values).hide(f"<{known}>") == "<[secret]>"


@pytest.mark.parametrize(
    ("base", "known"),
    [
        (f"http://x/v1?v=1&key={KEY}", KEY),
        (f"http://x/v1?{KEY}", KEY),
        ("http://x/v1?key=a%2Fb+cdefgh", "a/b cdefgh"),
        ("http://x/v1?key=a%2Fb+cdefgh", "a%2Fb+cdefgh"),
        ("http://some-user:pass%20word@x/v1", "pass word"),
        ("http://some-user:pass%20word@x/v1", "some-user"),
        ("http://me:pw@x/v1", base64.b64encode(b"me:pw").decode()),
    ],
)
def test_what_an_address_holds_is_known(base, known):
    assert secrets_in(base, []).hide(f"<{known}>") == "<[secret]>"


def test_short_values_are_words():
    secrets = secrets_in("http://u:pw@x/v1?v=2024", ["Bearer x", "no"])
    assert secrets.hide("Bearer no 2024 u pw") == "Bearer no 2024 u pw"
    assert Secrets(["x" * (SECRET_MIN - 1)]).hide("x" * 9) == "x" * 9


def test_a_text_is_quoted_up_to_the_limit():
    for secrets in (Secrets(), Secrets([KEY])):
        for size in (QUOTE_MAX - 1, QUOTE_MAX):
            assert secrets.quote("x" * size) == "x" * size
        assert secrets.quote("x" * (QUOTE_MAX + 1)) == "x" * QUOTE_MAX + "..."
        assert secrets.quote("x" * 10**6, 5) == "xxxxx..."
    assert Secrets([KEY]).quote(KEY * 1000, 10) == "[secret][s..."
    assert KEY not in repr(Secrets([KEY]))


def test_backslashes_without_end_are_read_quickly():
    """Each of them has several forms, and a pattern might try all ways."""
    value = "\\" * 40 + "abcdefgh"
    secrets = Secrets([value])
    assert secrets.hide("\\" * 2000) == "\\" * 2000
    assert secrets.hide(json.dumps(value)) == '"[secret]"'
