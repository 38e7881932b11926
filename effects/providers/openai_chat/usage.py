"""What an answer cost, as this dialect and its imitations report it."""

from typing import Any

from effects.providers.openai_chat.pieces import as_dict
from reducers.vocabulary.models import Usage

TOKENS_MAX = 2**53
"""More is a mistake of the server's, and no number that every reader of a log can hold."""


def usage_in(chunk: dict[str, Any], choice: dict[str, Any]) -> Usage | None:
    """The report on a chunk: at its top, in its choice (Moonshot), or beside both (Groq)."""
    for holder in (chunk, choice, as_dict(chunk.get("x_groq"))):
        found = _usage_of(as_dict(holder.get("usage")))
        if found is not None:
            return found
    return None


def merged(old: Usage | None, new: Usage) -> Usage:
    """The later report wins, figure by figure: some servers count up with every chunk."""
    if old is None:
        return new
    pairs = [(getattr(new, name), getattr(old, name)) for name in Usage.__struct_fields__]
    return Usage(*[late if late is not None else early for late, early in pairs])


def _usage_of(report: dict[str, Any]) -> Usage | None:
    read = _count(report.get("prompt_tokens"))
    written = _count(report.get("completion_tokens"))
    cached = _count(as_dict(report.get("prompt_tokens_details")).get("cached_tokens"))
    if cached is None:
        cached = _count(report.get("prompt_cache_hit_tokens"))
    thought = _count(as_dict(report.get("completion_tokens_details")).get("reasoning_tokens"))
    total = _count(report.get("total_tokens"))
    if thought is None and None not in (read, written, total):
        # Google's imitation counts thinking in the total alone, beside what it calls completion.
        assert read is not None
        assert written is not None
        assert total is not None
        rest = total - read - written
        if rest > 0:
            thought, written = rest, written + rest
    usage = Usage(read, written, thought, cached)
    return None if usage == Usage() else usage


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value < TOKENS_MAX else None
