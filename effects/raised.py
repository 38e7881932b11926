"""What is made of an exception, whoever raised it."""

import anyio


def said(error: BaseException) -> str:
    """Its words; the name of its type where it has none, or fails to say them."""
    if isinstance(error, SystemExit):
        return f"it tried to end the process, with status {error.code!r}"
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def leaf(error: BaseException) -> BaseException:
    """The exception that task groups wrapped, for a caller who knows of none; of several the first
    that is no cancellation. Called in an event loop."""
    while isinstance(error, BaseExceptionGroup):
        rest = error.split(anyio.get_cancelled_exc_class())[1]
        error = (rest or error).exceptions[0]
    return error
