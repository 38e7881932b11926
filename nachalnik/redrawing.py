"""Requests drawn again: is what was sent what the items come to, and is each call answered once?"""

from collections.abc import Iterator, Sequence

from effects.parts import SeamMissing, load_reducer
from reducers.linear import pairing_problem
from reducers.projection import Chained
from reducers.reducer import Reducer
from reducers.state import Commit, State
from reducers.vocabulary.errors import SeamFailed
from reducers.vocabulary.events import (
    CounterChanged,
    ModelRequested,
    ProjectorChanged,
    SessionStarted,
)
from reducers.vocabulary.messages import Message


class RequestsAgain:
    """Every request is drawn again, and what was sent last time is not looked at again."""

    def __init__(self) -> None:
        self._reducer: Reducer | None = None
        self._note = ""
        self._pairs = PairsAgain()

    def problems(self, commit: Commit, after: State) -> Iterator[tuple[str, str]]:
        """Kind and text of what does not hold of the requests that this commit tells of."""
        if any(isinstance(event, _SEAMS) for event in commit.events):
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


_SEAMS = (ProjectorChanged, CounterChanged, SessionStarted)
_FIGURES = ("digest", "number of messages", "number of tools", "token figure", "uncounted pieces")


class PairsAgain:
    """The pairing law over one request after another, each an edit of the one before.

    A stretch that two requests share was judged with the first, so a log of n requests is judged
    in time that grows with what changed.
    """

    def __init__(self) -> None:
        self._last: Sequence[Message] = ()
        self._ids: list[tuple[int, str]] = []
        """Place and id of every call of the request judged last."""

    def problem(self, messages: Sequence[Message]) -> str | None:
        start = self._shared(messages)
        self._last = ()  # what does not hold is no ground for the next
        while self._ids and self._ids[-1][0] >= start:
            self._ids.pop()
        rest = messages[start:]
        if problem := pairing_problem(rest):
            return f"behind message {start}: {problem}" if start else problem
        seen = {id for _, id in self._ids}
        for place, message in enumerate(rest, start=start):
            for call in message.calls():
                if call.id in seen:
                    self._ids = []
                    return f"message {place} uses the call id {call.id!r} again"
                self._ids.append((place, call.id))
        self._last = messages
        return None

    def _shared(self, messages: Sequence[Message]) -> int:
        """How many leading messages need no second look: they end where no answer is due."""
        if not (isinstance(messages, Chained) and isinstance(self._last, Chained)):
            return 0
        start = min(messages.shared(self._last), len(self._last))
        while start and (start >= len(messages) or messages[start].role == "tool"):
            start -= 1
        return start
