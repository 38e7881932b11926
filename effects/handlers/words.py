"""What an exception says, whatever it is."""


def said(error: BaseException) -> str:
    """Its words; the name of its type where it has none, or fails to say them."""
    if isinstance(error, SystemExit):
        return f"it tried to end the process, with status {error.code!r}"
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
