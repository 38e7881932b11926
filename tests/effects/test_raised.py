"""What is made of an exception."""

import asyncio

import anyio
import pytest

from effects.raised import leaf, said


class Mute(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no"), "no"),
        (ValueError(), "ValueError"),
        (Mute(), "Mute"),
        (SystemExit(3), "it tried to end the process, with status 3"),
    ],
)
def test_an_exception_has_words(error, words):
    assert said(error) == words


@pytest.mark.anyio
async def test_what_task_groups_wrapped_is_found():
    """A cancellation beside it only follows from it."""
    pressed = KeyboardInterrupt()
    assert leaf(pressed) is pressed
    assert leaf(BaseExceptionGroup("", [BaseExceptionGroup("", [pressed])])) is pressed
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:  # trio lets nobody make one
        cancelled = asyncio.CancelledError()
        group = BaseExceptionGroup("", [BaseExceptionGroup("", [cancelled]), pressed])
        assert leaf(group) is pressed
        assert leaf(BaseExceptionGroup("", [cancelled])) is cancelled
