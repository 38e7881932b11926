"""Events as people read them: kernel.md's names and shapes, with what the fold knows put back in.

A record is made at commit time, when what an event does not say (where a state came from, what a
content was before) is still at hand; its dictionary is only built when somebody looks.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from reducers.machines import calls as calls_machine
from reducers.machines import context as context_machine
from reducers.shapes import shape
from reducers.state import Commit, State, answer_held
from reducers.vocabulary.content import Held
from reducers.vocabulary.events import (
    ContextAdded,
    ContextAnnotated,
    ContextChanged,
    ContextReplaced,
    CounterChanged,
    Event,
    ModelChanged,
    ModelParams,
    ModelRequested,
    PermissionDecided,
    PermissionRequested,
    PolicyChanged,
    ProjectorChanged,
    Recorded,
    SessionStarted,
    StateChanged,
    ToolRequested,
)
from reducers.vocabulary.items import kind_name
from reducers.vocabulary.json import value_of
from reducers.vocabulary.messages import ModelRequest

ANNOUNCEMENTS = ("effect", "stop")
"""Fields that name an effect. An event that announces one need not repeat its own position."""


class Record:
    """One event of the log. `seq` is None for bookkeeping; `at` is milliseconds since the epoch."""

    __slots__ = ("_event", "_extra", "at", "position", "seq")

    def __init__(
        self, position: int, at: int, event: Event, extra: dict[str, Any] | None = None
    ) -> None:
        self.position = position
        self.at = at
        self._event = event
        self._extra = extra
        self.seq: int | None = event.seq if isinstance(event, Recorded) else None

    @property
    def name(self) -> str:
        return str(self._event.__struct_config__.tag)

    @property
    def raw(self) -> Event:
        """The event as the log holds it."""
        return self._event

    @property
    def content(self) -> Any:
        """The content of an added item, whole also where the log holds it by its call."""
        assert isinstance(self._event, ContextAdded)
        return (self._extra or {}).get("content", self._event.item.content)

    @property
    def event(self) -> dict[str, Any]:
        """The event as a plain object: `event` is its name, its fields beside it."""
        fields = _payload(self._event, self._extra or {})
        for name in ANNOUNCEMENTS:
            if type(fields.get(name)) is int:  # an ordinal within the commit
                fields[name] = f"{self.position}.{fields[name]}"
        return {"event": self.name, **fields}

    def __getitem__(self, field: str) -> Any:
        return self.event[field]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON lines show it."""
        head: dict[str, Any] = {"position": self.position}
        if isinstance(self._event, SessionStarted):
            head["format"] = self._event.format
        if self.seq is not None:
            head["seq"] = self.seq
        return {**head, "at": self.at, "event": self.event}

    def __repr__(self) -> str:
        number = "-" if self.seq is None else self.seq
        return f"Record({self.position}.{number} {self.name})"


def records(before: State, commit: Commit, after: State) -> tuple[Record, ...]:
    """The records of one commit, bookkeeping included, given the states around it."""
    phase = before.loop.phase
    made = []
    for event in commit.events:
        extra: dict[str, Any] | None = None
        if isinstance(event, StateChanged):
            extra = {"from": phase}
            phase = event.to
        else:
            find = _EXTRAS.get(type(event))
            if find is not None:
                extra = find(event, before, after)
        made.append(Record(commit.position, commit.at, event, extra))
    return tuple(made)


# -- what the fold knows -----------------------------------------------------------------------


def _item_before(event: Any, before: State, after: State) -> Any:
    """As it was before this commit; one that this commit added arrived active."""
    found = context_machine.item(before.context, event.id)
    return found if found is not None else context_machine.item(after.context, event.id)


def _added(event: ContextAdded, before: State, after: State) -> dict[str, Any] | None:
    if isinstance(event.item.content, Held):
        return {"content": answer_held(before, event)}
    return None


def _changed(event: ContextChanged, before: State, after: State) -> dict[str, Any]:
    found = context_machine.item(before.context, event.id)
    return {"from": "active" if found is None else found.state}


def _replaced(event: ContextReplaced, before: State, after: State) -> dict[str, Any]:
    found = _item_before(event, before, after)
    return {"tokens_before": found.tokens, "was": found.content}


def _annotated(event: ContextAnnotated, before: State, after: State) -> dict[str, Any]:
    return {"was": _item_before(event, before, after).meta}


def _model_changed(event: ModelChanged, before: State, after: State) -> dict[str, Any]:
    return {"from": before.parts.model}


def _policy_changed(event: PolicyChanged, before: State, after: State) -> dict[str, Any]:
    return {"from": before.parts.policy.name}


def _projector_changed(event: ProjectorChanged, before: State, after: State) -> dict[str, Any]:
    return {"from": before.session.seams.projector}


def _counter_changed(event: CounterChanged, before: State, after: State) -> dict[str, Any]:
    return {"from": before.session.seams.counter}


def _call(event: Any, before: State, after: State) -> dict[str, Any]:
    call = calls_machine.find(after.calls, event.call) or calls_machine.find(
        before.calls, event.call
    )
    return {} if call is None else {"tool": call.tool, "args": call.args}


def _requested(event: ModelRequested, before: State, after: State) -> dict[str, Any]:
    requests = after.requests
    return {
        "model": after.parts.model,
        "items": requests.included,
        "skipped": requests.skipped,
        "repairs": requests.repairs,
    }


_EXTRAS: dict[type, Any] = {
    ContextAdded: _added,
    ContextChanged: _changed,
    ContextReplaced: _replaced,
    ContextAnnotated: _annotated,
    ModelChanged: _model_changed,
    PolicyChanged: _policy_changed,
    ProjectorChanged: _projector_changed,
    CounterChanged: _counter_changed,
    ToolRequested: _call,
    PermissionRequested: _call,
    PermissionDecided: _call,
    ModelRequested: _requested,
}


# -- payloads ----------------------------------------------------------------------------------


def _payload(event: Event, extra: dict[str, Any]) -> dict[str, Any]:
    special = _PAYLOADS.get(type(event))
    if special is not None:
        return special(event, extra)  # type: ignore[no-any-return]
    fields = {name: shape(getattr(event, name)) for name in _shown(event)}
    fields.update({name: shape(value) for name, value in extra.items()})
    return fields


def _shown(event: Event) -> Iterator[str]:
    for name in event.__struct_fields__:
        if name in ("seq", "undo") or (name in ("turn", "step") and not getattr(event, name)):
            continue
        yield name


def _common(event: Recorded) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ("turn", "step") if getattr(event, name)}


def _added_payload(event: ContextAdded, extra: dict[str, Any]) -> dict[str, Any]:
    item = event.item
    content = extra.get("content", item.content)
    return {
        **_common(event),
        "id": item.id,
        "kind": kind_name(item.kind),
        "source": item.source,
        "label": item.label,
        "tokens": item.tokens,
        "because": item.included_because,
        "meta": value_of(item.meta),
        "content": shape(content),
    }


def _replaced_payload(event: ContextReplaced, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        **_common(event),
        "id": event.id,
        "tokens_before": extra["tokens_before"],
        "tokens_after": event.tokens,
        "was": shape(extra["was"]),
        "content": shape(event.content),
    }


def _annotated_payload(event: ContextAnnotated, extra: dict[str, Any]) -> dict[str, Any]:
    meta, was = value_of(event.meta), value_of(extra["was"])
    return {**_common(event), "id": event.id, "meta": meta, "was": was}


def _permission_payload(event: PermissionRequested, extra: dict[str, Any]) -> dict[str, Any]:
    request = {
        "id": event.id,
        "call": event.call,
        "tool": extra.get("tool", ""),
        "capabilities": list(event.capabilities),
        "args": arguments(extra.get("args", "{}")),
        "args_digest": event.args,
    }
    return {**_common(event), "request": request}


def _requested_payload(event: ToolRequested, extra: dict[str, Any]) -> dict[str, Any]:
    args = arguments(extra.get("args", "{}"))
    return {**_common(event), "call": event.call, "tool": event.tool, "args": args}


def _decided_payload(event: PermissionDecided, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        **_common(event),
        "id": event.id,
        "call": event.call,
        "tool": extra.get("tool", ""),
        "grant": event.grant,
        "source": event.source,
        "reason": event.reason,
    }


def _params_payload(event: ModelParams, extra: dict[str, Any]) -> dict[str, Any]:
    return {**_common(event), "params": value_of(event.params)}


_PAYLOADS: dict[type, Any] = {
    ContextAdded: _added_payload,
    ContextReplaced: _replaced_payload,
    ContextAnnotated: _annotated_payload,
    PermissionRequested: _permission_payload,
    PermissionDecided: _decided_payload,
    ToolRequested: _requested_payload,
    ModelParams: _params_payload,
}


def arguments(args: str) -> Any:
    """A call's arguments as a value; as their text where they are not JSON."""
    try:
        return msgspec.json.decode(args)
    except (msgspec.MsgspecError, RecursionError):
        return args


def request_dict(request: ModelRequest) -> dict[str, Any]:
    """A request as a plain object, the same for every provider."""
    return {
        "messages": [shape(message) for message in request.messages],
        "tools": [shape(tool) for tool in request.tools],
        "params": msgspec.json.decode(request.params),
    }
