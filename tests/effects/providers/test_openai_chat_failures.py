"""Refusals in the words of many servers, sorted."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effects.providers.openai_chat.bodies import retry_after_s
from effects.providers.openai_chat.failures import SENTENCE_MAX, failure_of, read_error
from reducers.vocabulary.errors import TooLong

OVERFLOWS = [
    (("This model's maximum context length is 4097 tokens. However, your messages resulted in 5032 "
     "tokens. Please reduce the length of the messages."), 5032, 4097),
    (("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens "
     "(69000 in the messages, 1000 in the completion)."), 70000, 65536),
    (("This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 "
     "tokens (39000 of text input, 1000 in the output)."), 40000, 32768),
    (("This model's maximum context length is 4096 tokens. However, your request has 5000 input "
     "tokens."), 5000, 4096),
    (("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 "
     "tokens."), 300000, 272000),
    ("prompt is too long: 210,000 tokens > 200,000 maximum", 210000, 200000),
    ("The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
     1048577, 1048576),
    ("This model's maximum prompt length is 131072 but the request contains 160000 tokens.",
     160000, 131072),
    (("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
     "context length"), 40000, 32768),
    (("Please reduce the length of the messages or completion. Current length is 9000 while limit "
     "is 8192"), 9000, 8192),
    (("Trying to keep the first 5000 tokens when context the overflows. However, the model is "
     "loaded with context length of only 4096 tokens"), 5000, 4096),
    ("request (5024 tokens) exceeds the available context size (4096 tokens), try increasing it",
     5024, 4096),
    (("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, "
     "please reduce your message size and try again."), 7000, 6000),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "tokens", "limit"), OVERFLOWS)
@pytest.mark.parametrize("status", [400, 413, 429, None])
def test_an_overflow_is_read_with_its_figures(sentence, tokens, limit, status):
    failure = failure_of(status, {"error": {"message": sentence}})
    assert isinstance(failure, TooLong)
    assert (failure.overrun.tokens, failure.overrun.limit) == (tokens, limit)
    assert sentence in failure.said


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Input is too long for requested model."},
        {"message": "Your request exceeded model token limit: 131072"},
        {"message": "Prompt exceeds max length"},
        {"message": "x", "code": "context_length_exceeded"},
        {"message": "Request body too large for gpt-4o model. Max size: 8000 tokens."},
        {"message": "Range of input length should be [1, 30720]"},
    ],
)
def test_an_overflow_without_figures_is_a_code(error):
    """A guessed figure would teach the token counter wrongly."""
    failure = failure_of(400, {"error": error})
    assert not isinstance(failure, TooLong)
    assert failure.code == "model.too_long"


@pytest.mark.parametrize(
    "sentence",
    [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum "
            "context length is 4096 tokens and your request has 3000 input tokens (5000 > "
            "4096 - 3000)."
        ),
    ],
)
def test_a_parameter_that_is_too_large_is_no_overflow(sentence):
    assert failure_of(400, {"error": {"message": sentence}}).code == "model.refused_request"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "check your plan"}},
         "model.quota"),
        (429, {"error": {"message": "You exceeded your current quota, check your billing."}},
         "model.quota"),
        (429, {"error": {"message": "You exceeded your current quota. Please retry in 20s."}},
         "model.rate_limited"),
        (429, {"error": {"message": "Rate limit reached, try again in 1.5m"}}, "model.quota"),
        (None, {"error": {"code": 429, "message": "x"}}, "model.rate_limited"),
        (None, {"error": {"code": "429", "message": "x"}}, "model.rate_limited"),
        (200, {"error": {"status": "RESOURCE_EXHAUSTED", "message": "x"}}, "model.rate_limited"),
        (None, {"error": {"type": "overloaded_error"}}, "model.overloaded"),
        (None, {"error": {"type": "server_error", "message": "x"}}, "model.server_error"),
        (None, {"error": {"type": "server_error", "message": "overloaded"}}, "model.overloaded"),
        (None, {"error": "slow down"}, "model.rate_limited"),
        (None, {"error": {"message": "hm"}}, "model.failed"),
        (None, {"error": {"code": "invalid_request_error"}}, "model.refused_request"),
        (400, {"error": {"code": "model_not_found", "message": "x"}}, "model.not_found"),
        (400, {"error": {"type": "invalid_request_error", "message": "no tool call found"}},
         "model.refused_request"),
        (401, {"error": {"type": "invalid_request_error", "code": "invalid_api_key"}},
         "model.unauthorized"),
        (400, {"error": {"code": "content_filter", "message": "x"}}, "model.refused_content"),
        (403, {"detail": "forbidden"}, "model.unauthorized"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "model.refused_request"),
        (502, "a web page", "model.server_error"),
        (500, "the upstream timed out", "model.timeout"),
        (504, "", "model.timeout"),
        (418, None, "model.refused_request"),
    ],
)  # fmt: skip
def test_a_refusal_is_sorted(status, body, code):
    assert failure_of(status, body).code == code


def test_the_reason_behind_an_aggregator_is_told():
    """OR3."""
    raw = '{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'
    body = {"error": {"message": "Provider returned error", "code": 400,
                      "metadata": {"raw": raw, "provider_name": "X"}}}  # fmt: skip
    failure = failure_of(None, body)
    assert isinstance(failure, TooLong)
    assert "Provider returned error: prompt is too long" in failure.said
    body["error"]["metadata"]["raw"] = "upstream is overloaded"
    assert failure_of(None, body).code == "model.overloaded"


def test_a_failure_says_where_what_and_what_to_do():
    failure = failure_of(401, {"error": {"message": "no key"}}, where="http://127.0.0.1:1/v1")
    assert str(failure) == "http://127.0.0.1:1/v1 answered 401: no key (check the API key)"
    assert str(failure_of(None, {"error": {}})) == "the server failed: no reason was given"


def test_a_long_sentence_is_shortened():
    failure = failure_of(500, {"error": {"message": "x" * 100_000}})
    assert len(str(failure)) < SENTENCE_MAX + 100


@pytest.mark.parametrize(
    ("sentence", "wait"),
    [("try again in 20s", 20), ("retry after 1.5 ms", 0.0015), ("try again in 2m", 120),
     ("try again in 1.2.3s", None), ("try again in .", None), ("try again", None)],
)  # fmt: skip
def test_a_wait_in_the_sentence_is_read(sentence, wait):
    assert failure_of(429, {"error": {"message": f"Please {sentence}."}}).retry_after_s == wait


@given(
    st.none() | st.integers(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from("error message code type status metadata raw detail msg".split()),
                inner,
            )
        ),
    ),
)
def test_any_body_is_some_failure(status, body):
    str(failure_of(status, body)).encode()
    assert read_error(body)


@st.composite
def dates(draw):
    """Dates as a head has them, some of them of no calendar."""
    day, year = draw(st.integers(0, 32)), draw(st.integers(0, 10**12) | st.integers(0, 3000))
    zone = draw(
        st.sampled_from(["GMT", "+0000", "-0000", "EST"]) | st.integers().map("{:+05}".format)
    )
    return f"Fri, {day:02} Jan {year:04} {draw(st.integers(0, 25)):02}:00:00 {zone}"


@given(
    st.sampled_from(["retry-after", "retry-after-ms"]),
    dates() | st.text() | st.from_regex(r"[0-9.,:+-]{1,20}"),
)
@example("retry-after", "Fri, 01 Jan 2010 00:00:00 +99999999999999999")
@example("retry-after", "01 Jan 99999999999 00:00:00 GMT")
def test_any_wait_in_a_head_is_a_number_or_none(name, value):
    wait = retry_after_s({name: value})
    assert wait is None or 0 <= wait < math.inf
