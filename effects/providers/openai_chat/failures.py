"""What a refusal means: its status and its body, sorted into our codes.

The server's own word for it decides first, then the status, then its sentence: gateways answer 200
or 400 for anything, and only the first two are meant for programs.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard

from effects.ports import ProviderFailure
from effects.providers.openai_chat.pieces import as_dict, as_str
from effects.providers.openai_chat.usage import TOKENS_MAX
from effects.providers.secrets import NO_SECRETS, Secrets
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.json import NotJson, parse
from reducers.vocabulary.models import Overrun
from reducers.vocabulary.text import mend

SENTENCE_MAX = 600
"""Characters of a server's own account that are repeated in a failure: it is the reason, and an
aggregator's has its upstream's inside."""
WAIT_MAX_S = 60.0
"""A server that asks for a longer wait is not busy: something is used up."""

WORDS = {
    "context_length_exceeded": "model.too_long",
    "exceed_context_size_error": "model.too_long",
    "model_context_window_exceeded": "model.too_long",
    "request_too_large": "model.too_long",
    "tokens_limit_reached": "model.too_long",
    "insufficient_quota": "model.quota",
    "billing_hard_limit_reached": "model.quota",
    "quota_exceeded": "model.quota",
    "rate_limit_exceeded": "model.rate_limited",
    "rate_limit_error": "model.rate_limited",
    "resource_exhausted": "model.rate_limited",
    "too_many_requests": "model.rate_limited",
    "overloaded_error": "model.overloaded",
    "overloaded": "model.overloaded",
    "server_overloaded": "model.overloaded",
    "service_unavailable": "model.overloaded",
    "unavailable": "model.overloaded",
    "invalid_api_key": "model.unauthorized",
    "authentication_error": "model.unauthorized",
    "permission_error": "model.unauthorized",
    "permission_denied": "model.unauthorized",
    "unauthenticated": "model.unauthorized",
    "model_not_found": "model.not_found",
    "not_found_error": "model.not_found",
    "content_filter": "model.refused_content",
    "content_policy_violation": "model.refused_content",
    "responsibleaipolicyviolation": "model.refused_content",
    "invalid_request_error": "model.refused_request",
    "bad_request": "model.refused_request",
    "invalid_argument": "model.refused_request",
    "timeout": "model.timeout",
    "deadline_exceeded": "model.timeout",
    "server_error": "model.server_error",
    "internal_server_error": "model.server_error",
}
"""By `code`, `type` or `status` of the error object, in lower case."""

STATUSES = {
    401: "model.unauthorized",
    402: "model.quota",
    403: "model.unauthorized",
    404: "model.not_found",
    408: "model.timeout",
    413: "model.too_long",
    429: "model.rate_limited",
    501: "model.refused_request",  # not busy: it never will
    503: "model.overloaded",
    504: "model.timeout",
    505: "model.refused_request",
    524: "model.timeout",
    529: "model.overloaded",
}

SENTENCES = (
    (r"rate.?limit|too many requests|slow down|throttl", "model.rate_limited"),
    (r"overload|at capacity|server is busy|try again later", "model.overloaded"),
    (r"(?:invalid|incorrect|no) api.?key|unauthorized|authentication", "model.unauthorized"),
    (r"model .*(?:not found|does not exist)|no such model|unknown model", "model.not_found"),
    (r"content (?:management )?policy|flagged|moderation", "model.refused_content"),
    (r"timed? ?out", "model.timeout"),
)

# A parameter that is too large for the model; a shorter conversation does not help.
_PARAMETER = re.compile(r"max(?:_completion)?_tokens\W.*too large|too large: \d+\. this model supp")
_TOO_LONG = re.compile(
    r"maximum (?:context|prompt|model) length|context (?:length|size|window)|too many tokens"
    r"|(?:prompt|input|request|conversation|message)s? (?:is|are|was|were) too (?:long|large)"
    r"|(?:input|prompt|context) tokens? (?:count )?.{0,20}exceed|exceeded model token limit"
    r"|request (?:body )?too large|prompt exceeds|reduce the length|reduce your message size"
    r"|range of input length should be"
)
_QUOTA = re.compile(
    r"insufficient (?:balance|credit|fund|quota)|credit balance|exceeded your current quota"
    r"|billing|payment required|daily (?:quota|limit)|per.day|out of credits|spending limit"
)
_WAIT = re.compile(r"(?:retry|try again) (?:in|after) ([\d.]{1,12}) ?(ms|s\b|sec|m\b|min)?")

ADVICE = {
    "model.unauthorized": "check the API key",
    "model.not_found": "check the address and the name of the model",
    "model.quota": "waiting does not help",
}

_NUMBER = r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})"
_LIMITS = [
    re.compile(pattern.replace("#", _NUMBER))
    for pattern in (
        r"maximum (?:context|prompt|model) length (?:is|of) #",
        r"> # maximum",
        r"(?:maximum number of tokens allowed|context size) \(#",
        r"# maximum context length",
        r"(?:context length of only|configured limit of|max(?:imum)? size:|must be <=) #",
        r"(?:token |while )?limit(?: is|:|) #",
    )
]
_TOKENS = [
    re.compile(pattern.replace("#", _NUMBER))
    for pattern in (
        r"requested:? (?:about )?#",
        r"(?:resulted in|current length is|given:) #",
        r"(?:has|contains|request \(|prompt is too long:|keep the first) ?# (?:input )?tokens",
        r"token count \(#",
    )
]


class Refused(ProviderFailure):
    """A failure in the server's own words. `status` is None inside a stream."""

    def __init__(
        self, text: str, code: str, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(text, code)
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the server asked to wait, where it did."""


class Said(NamedTuple):
    """What an error body says: its sentence, its words for programs, its status, its object."""

    sentence: str
    words: tuple[str, ...]
    status: int | None
    error: dict[str, Any]


def failure_of(
    status: int | None,
    body: object,
    retry_after_s: float | None = None,
    where: str = "",
    secrets: Secrets = NO_SECRETS,
) -> ProviderFailure | TooLong:
    """The failure to raise. `body` is a JSON value or text; `where` names the server for people."""
    said = read_error(body, secrets)
    if status is None or status < 400:
        status = said.status
    wait = retry_after_s if retry_after_s is not None else _wait_in(said.sentence)
    code = _code(status, said, wait)
    text = _text(status, said, where, ADVICE.get(code, ""))
    if code == "model.too_long":
        overrun = _overrun(said)
        if overrun is not None:
            return TooLong(overrun, text)
    return Refused(text, code, status, wait)


def read_error(body: object, secrets: Secrets = NO_SECRETS) -> Said:
    """Find the error in whatever shape it came: OpenAI's, Google's list, FastAPI's, a plain text.

    An aggregator's own sentence only says that somebody failed; the upstream's is in `metadata`.
    """
    if isinstance(body, list):
        body = body[0] if body else {}
    if not isinstance(body, dict):
        return Said(_short(as_str(body), secrets), (), None, {})
    outer = body.get("error") or body
    error = as_dict(outer)
    sentences = [as_str(outer), *_sentences(error)]
    raw = as_dict(error.get("metadata")).get("raw")
    inner = _inner(raw)
    sentences += _sentences(inner) if inner else [as_str(raw)]
    holders = (error, inner, body)
    words = [as_str(one.get(key)).lower() for one in holders for key in ("code", "type", "status")]
    codes = [one.get("code") for one in holders]
    numbers = [_as_number(code) for code in codes]
    status = next((n for n in numbers if type(n) is int and 400 <= n < 600), None)
    sentence = ": ".join(dict.fromkeys(_short(one, secrets) for one in sentences if one))
    words = [secrets.quote(mend(word)[0]) for word in words if word]
    return Said(_short(sentence, secrets), tuple(words), status, error)


def _as_number(code: object) -> object:
    return int(code) if isinstance(code, str) and re.fullmatch("[45][0-9]{2}", code) else code


def _sentences(error: dict[str, Any]) -> Iterator[str]:
    for key in ("message", "detail", "error_msg"):
        value = error.get(key)
        if isinstance(value, list):  # a list of field errors
            yield "; ".join(as_str(as_dict(one).get("msg")) for one in value)
        else:
            yield as_str(value)


def _inner(raw: object) -> dict[str, Any]:
    """The upstream's error, which aggregators carry as the text of its body."""
    try:
        value = as_dict(parse(as_str(raw)))
    except NotJson:
        return {}
    return as_dict(value.get("error")) or value


def _code(status: int | None, said: Said, wait: float | None) -> str:
    sentence = said.sentence.lower()
    words = [WORDS[word] for word in said.words if word in WORDS]
    if _PARAMETER.search(sentence):
        return "model.refused_request"
    if "model.too_long" in words or _TOO_LONG.search(sentence):
        return "model.too_long"
    sure = [word for word in words if word not in ("model.refused_request", "model.server_error")]
    code = sure[0] if sure else STATUSES.get(status or 0, "")
    if code in ("model.rate_limited", ""):
        is_spent = _QUOTA.search(sentence) and (wait is None or wait > WAIT_MAX_S)
        if is_spent or (code and wait is not None and wait > WAIT_MAX_S):
            return "model.quota"
    if code:
        return code
    for pattern, meant in SENTENCES:
        if re.search(pattern, sentence):
            return meant
    if status is not None:
        return "model.server_error" if status >= 500 else "model.refused_request"
    return words[0] if words else "model.failed"


def _text(status: int | None, said: Said, where: str, advice: str) -> str:
    source = where or "the server"
    verb = "failed" if status is None else f"answered {status}"
    sentence = said.sentence or " ".join(said.words) or "no reason was given"
    return f"{source} {verb}: {sentence}" + (f" ({advice})" if advice else "")


def _overrun(said: Said) -> Overrun | None:
    """The figures, from the fields (llama.cpp) or from the sentence; None where one is missing."""
    tokens, limit = said.error.get("n_prompt_tokens"), said.error.get("n_ctx")
    if _is_count(tokens):
        return Overrun(tokens, limit if _is_count(limit) else None)
    sentence = said.sentence.lower()
    found = _number(_TOKENS, sentence)
    if found is None and (both := re.search(rf"{_NUMBER} tokens >", sentence)):
        found = int(both[1].replace(",", ""))
    bound = _number(_LIMITS, sentence)
    if found is None or (bound is not None and found <= bound):
        return None
    return Overrun(found, bound)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value < TOKENS_MAX


def _number(patterns: list[re.Pattern[str]], sentence: str) -> int | None:
    for pattern in patterns:
        if match := pattern.search(sentence):
            return int(match[1].replace(",", "")) or None
    return None


def _wait_in(sentence: str) -> float | None:
    match = _WAIT.search(sentence.lower())
    if match is None or match[1].count(".") > 1 or match[1].strip(".") == "":
        return None
    unit = {"ms": 0.001, "m": 60.0, "min": 60.0}.get(match[2] or "s", 1.0)
    return float(match[1]) * unit


def _short(text: str, secrets: Secrets) -> str:
    return secrets.quote(" ".join(mend(text)[0].split()), SENTENCE_MAX)
