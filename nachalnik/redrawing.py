"""Requests drawn again: is what was sent what the items come to, and is each call answered once?"""

from collections.abc import Iterator, Sequence

from effects.parts import SEAM_EVENTS, SeamMissing, load_reducer
from reducers.linear import pairing_problem
from reducers.projection import Chained
from reducers.reducer import Reducer
from reducers.state import Commit, State
from reducers.vocabulary.errors import SeamFailed
from reducers.vocabulary.events import ModelRequested
from reducers.vocabulary.messages import Message


class RequestsAgain:
    """Every request is drawn again, and what was sent last time is not looked at again."""

    def __init__(self) -> None:
        self._reducer: Reducer | None = None
        self._note = ""
        self._pairs = PairsAgain()

    def problems(self, commit: Commit, after: State) -> Iterator[tuple[str, str]]:
        """Kind and text of what does not hold of the requests that this commit tells of."""
        if any(isinstance(event, SEAM_EVENTS) for event in commit.events):
            self._choose(after)
        if self._reducer is None:
            return
        for event in commit.events:
            if isinstance(event, ModelRequested):
                yield from self._again(event, after, self._reducer)

    def take_note(self) -> str:
        note, self._note = self._note, ""
        return note

    def _choose(self, state: State) -> None:
        try:
            self._reducer = load_reducer(state.session.seams)
        except SeamMissing as error:
            self._reducer = None
            self._note = f"requests from here on are not drawn again: {error}"

    def _again(
        self, event: ModelRequested, state: State, reducer: Reducer
    ) -> Iterator[tuple[str, str]]:
        try:
            draw = reducer.draw(state)
        except SeamFailed as error:
            yield "pairing", str(error)
            return
        except Exception as error:  # a seam of the user's
            yield "request", f"it cannot be drawn again: {type(error).__name__}: {error}"
            return
        messages = draw.request.messages
        recorded = (event.digest, event.messages, event.tools, event.tokens, event.uncounted)
        drawn = (
            draw.digest,
            len(messages),
            len(draw.request.tools),
            draw.tokens + draw.tool_tokens,
            draw.uncounted,
        )
        for name, was, now in zip(_FIGURES, recorded, drawn, strict=True):
            if was != now:
                yield "request", f"its {name} was {was}; drawn again it is {now}"
        problem = self._pairs.problem(messages)
        if problem:
            yield "pairing", problem


_FIGURES = ("digest", "number of messages", "number of tools", "token figure", "uncounted pieces")


class PairsAgain:
    """The pairing law over one request after another, each an edit of the one before.

    A stretch that two requests share was judged with the first, so a log of n requests is judged
    in time that grows with what changed.
    """

    def __init__(self) -> None:
        self._last: Sequence[Message] = ()
        """The request judged last, where it was well."""

    def problem(self, messages: Sequence[Message]) -> str | None:
        start = self._shared(messages)
        problem = pairing_problem(messages[start:])
        self._last = messages if problem is None else ()
        return f"behind message {start}: {problem}" if problem and start else problem

    def _shared(self, messages: Sequence[Message]) -> int:
        """How many leading messages need no second look: they end where no answer is due."""
        last = self._last
        if not (isinstance(messages, Chained) and isinstance(last, Chained)):
            return 0
        start = messages.shared(last)
        while start and (_is_answer(messages, start) or _is_answer(last, start)):
            start -= 1
        return start


def _is_answer(messages: Sequence[Message], place: int) -> bool:
    return place < len(messages) and messages[place].role == "tool"
