"""One line a record, for the demo. `nachalnik show` prints a log in full."""

from collections.abc import Callable, Iterable
from typing import Any

from nachalnik.subscriptions import Live
from reducers.views import Record

Fields = dict[str, Any]

WORDS: dict[str, Callable[[Fields], str]] = {
    "context.added": lambda event: f"item {event['id']}: {event['kind']} ({event['label']})",
    "state.changed": lambda event: f"{event['from']['state']} -> {event['to']['state']}",
    "model.requested": lambda event: f"{event['messages']} messages, {event['tools']} tools",
    "model.finished": lambda event: f"stop: {event['stop']}",
    "tool.requested": lambda event: f"{event['tool']} {_named(event['args'])}",
    "permission.requested": lambda event: (
        f"question {event['request']['id']}: {', '.join(event['request']['capabilities'])}"
    ),
    "permission.decided": lambda event: f"{event['tool']}: {event['grant']}, by {event['source']}",
    "tool.started": lambda event: event["tool"],
    "tool.finished": lambda event: f"{event['tool']}, item {event['item']}",
    "question.opened": lambda event: f"question {event['id']}: {event['kind']} of {event['call']}",
    "question.answered": lambda event: f"question {event['id']}: {event['how']}",
    "turn.closed": lambda event: event["reason"],
}
"""The records the story needs, and what of each."""


def _named(args: Fields) -> str:
    return next(iter(args.values()), "")


def story(events: Iterable[Live]) -> list[str]:
    return [
        f"  {event.position:>3}  {event.name:<22} {WORDS[event.name](event.event)}"
        for event in events
        if isinstance(event, Record) and event.name in WORDS
    ]
