"""The oracles of every script, whatever its trace says.

W looks at each request as it goes out; the others look at the log that is left:

* W: each call has one result, right behind it; ids are used once; no blank text; strict JSON;
* L: whole records in sequence, the log gives the states that lived byte for byte, redrive too;
* O: a call is started once, unless a `tool.retried` stands between;
* T: no turn, call or question ends twice; at the end only what the script declares is open;
* G: no start without a grant for the same call and the same arguments before it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from effects.logs.contents import ContentFolder
from effects.logs.port import LogError
from effects.logs.scan import read_log
from effects.logs.syscalls import SYSCALLS
from effects.providers.openai_chat.encode import encode_request
from effects.replay import initial_of, redrive
from nachalnik.scenarios.folder import Folder
from reducers.codec import Header, decode_commit, decode_header, encode_commit
from reducers.state import Commit, State, fold
from reducers.statecodec import encode_state
from reducers.vocabulary.digests import digest_of, text_digest
from reducers.vocabulary.errors import KernelError
from reducers.vocabulary.events import (
    ContextAdded,
    PermissionDecided,
    PermissionRequested,
    QuestionAnswered,
    QuestionOpened,
    Recorded,
    ToolFinished,
    ToolRequested,
    ToolRetried,
    ToolStarted,
    TurnClosed,
    TurnOpened,
)
from reducers.vocabulary.json import NotJson, parse
from reducers.vocabulary.messages import ModelRequest

ID_MAX = 64
"""Characters of a call id that providers of the Chat dialect take."""


# -- W: requests -------------------------------------------------------------------------------


def wire_problems(request: ModelRequest) -> Iterator[str]:
    """What a strict provider would refuse of a request, as the Chat dialect sends it."""
    body = encode_request(request, "m1", stream=False)
    yield from _unpaired(body["messages"])
    yield from _blank(body["messages"])
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        parse(text)
    except (ValueError, NotJson) as error:
        yield f"W7: the body is not strict JSON: {error}"


def _unpaired(messages: list[dict[str, Any]]) -> Iterator[str]:
    """W1 to W4. Judged here anew: the projector's own check is among what is tested."""
    due: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            answered = message["tool_call_id"]
            if answered in due:
                due.remove(answered)
            else:
                yield f"W3: message {place} answers {answered!r}, which waits for nothing here"
            continue
        if due:
            yield f"W2: message {place} comes while {due[0]!r} has no result"
        for call in message.get("tool_calls", ()):
            id = call["id"]
            if not id or len(id) > ID_MAX:
                yield f"W4: message {place} has the call id {id!r}, which is empty or too long"
            if id in seen:
                yield f"W4: message {place} uses the call id {id!r} a second time"
            seen.add(id)
            due.append(id)
    for id in due:
        yield f"W1: the call {id!r} has no result"


def _blank(messages: list[dict[str, Any]]) -> Iterator[str]:
    for place, message in enumerate(messages):
        content = message.get("content")
        texts = [content] if isinstance(content, str) else []
        if isinstance(content, list):
            texts = [part["text"] for part in content if part.get("type") == "text"]
        if any(not text.strip() for text in texts):
            yield f"W5: message {place} has a blank text"
        if content is None and not message.get("tool_calls"):
            yield f"W5: message {place} has neither text nor calls"


# -- the log that is left ----------------------------------------------------------------------


@attrs.frozen
class Told:
    """The log of a script that ran: its commits, and the state after each."""

    header: Header
    values: tuple[bytes, ...]
    commits: tuple[Commit, ...]
    states: tuple[State, ...]
    """One more than commits: the first is the state before any."""
    problem: str = ""

    def events(self) -> Iterator[tuple[int, Any]]:
        for commit in self.commits:
            for event in commit.events:
                yield commit.position, event


def read_told(path: Path) -> Told:
    """Read a log as far as it can be read; `problem` says why not further."""
    values: list[bytes] = []
    commits: list[Commit] = []
    load = ContentFolder(SYSCALLS, str(path)).read
    problem = ""
    with read_log(path) as view:
        header = decode_header(view.header)
        states = [initial_of(header)]
        try:
            for line, value in view.commits:
                commit = decode_commit(value, load)
                states.append(fold(states[-1], commit.events))
                values.append(value)
                commits.append(commit)
                if encode_commit(commit)[0] != value:
                    problem = f"line {line}: it is not what its commit encodes to"
        except (LogError, KernelError) as error:
            problem = str(error)
    return Told(header, tuple(values), tuple(commits), tuple(states), problem)


def log_problems(told: Told, folder: Folder) -> Iterator[str]:
    """Oracle L."""
    if told.problem:
        yield f"oracle L: {told.problem}"
    seq = 0
    for position, event in told.events():
        if isinstance(event, Recorded):
            seq += 1
            if event.seq != seq:
                yield f"oracle L, position {position}: seq {event.seq} stands where {seq} is due"
    digests = {state.position: digest_of(encode_state(state)) for state in told.states}
    for position, digest in folder.lives():
        if digests.get(position) != digest:
            yield f"oracle L, position {position}: the fold of the log is not the state that lived"
    load = ContentFolder(SYSCALLS, str(folder.log)).read
    divergence = redrive(told.header, iter(told.values), load).divergence
    if divergence is not None:
        what = divergence.error or "today's rules judge otherwise"
        yield f"oracle L, position {divergence.position}: redrive of {divergence.input}: {what}"


def start_problems(told: Told, folder: Folder) -> Iterator[str]:
    """Oracles O and G."""
    running: set[str] = set()
    granted: dict[str, PermissionDecided] = {}
    args: dict[str, str] = {}
    started: Counter[str] = Counter()
    for position, event in told.events():
        match event:
            case ContextAdded():
                args.update((call.id, call.args) for call in event.item.calls() if event.turn)
            case PermissionDecided():
                granted[event.call] = event
            case ToolRetried():
                running.discard(event.call)
            case ToolStarted():
                name = event.call
                if name in running:
                    yield f"oracle O, position {position}: call {name} is started a second time"
                running.add(name)
                started[name] += 1
                grant = granted.get(name)
                if grant is None or grant.grant != "allow":
                    yield f"oracle G, position {position}: call {name} starts without a grant"
                elif grant.args != text_digest(args.get(name, "")):
                    yield f"oracle G, position {position}: call {name} has other arguments"
    for name, times in folder.starts().items():
        if times > started[name]:
            yield f"oracle O: call {name} was started {times} times outside, {started[name]} in log"


# -- T: ends -----------------------------------------------------------------------------------


def ends_problems(told: Told, declared: list[str]) -> Iterator[str]:
    """Oracle T. A cancellation that takes back a grant is no second answer (rulings.md, R18)."""
    open_things: dict[str, int] = {}
    ended: set[str] = set()
    for position, event in told.events():
        begun = _begins(event)
        if begun:
            if begun in open_things or begun in ended:
                yield f"oracle T, position {position}: {begun} begins a second time"
            open_things[begun] = position
        end = _ends(event)
        if end and open_things.pop(end, None) is None:
            is_withdrawn = isinstance(event, PermissionDecided) and event.source == "cancellation"
            if not (is_withdrawn or _is_silent(event, ended, end)):
                yield f"oracle T, position {position}: {end} ends without being open"
        if end:
            ended.add(end)
    left = _left(told, open_things)
    for name in left:
        if name not in declared:
            yield f"oracle T: {name} is open at the end; end it, or declare it: open: {name}"
    for name in declared:
        if name not in left:
            yield f"oracle T: the script declares {name} open at the end, and it is not"


def _is_silent(event: Any, ended: set[str], end: str) -> bool:
    """Calls that a rule settles are decided without ever having been asked about."""
    return isinstance(event, PermissionDecided) and end not in ended


def _begins(event: Any) -> str:
    match event:
        case TurnOpened():
            return f"turn {event.turn}"
        case ToolRequested():
            return f"call {event.call}"
        case PermissionRequested() | QuestionOpened():
            return f"question {event.id}"
        case _:  # of all other events, those to come too, none opens what has to end
            return ""


def _ends(event: Any) -> str:
    match event:
        case TurnClosed():
            return f"turn {event.turn}"
        case ToolFinished():
            return f"call {event.call}"
        case PermissionDecided() | QuestionAnswered():
            return f"question {event.id}"
        case _:  # of all other events, those to come too, none ends what was open
            return ""


def _left(told: Told, open_things: dict[str, int]) -> list[str]:
    """What is open, in the script's words: a call is left out where a question about it is open."""
    state = told.states[-1]
    asked = {question.call for question in state.questions.open}
    names = [name for name in open_things if not name.startswith("question ")]
    names = [name for name in names if name.removeprefix("call ") not in asked]
    names += [question_name(question) for question in state.questions.open]
    if state.requests.in_flight:
        names.append("request")
    return names


def question_name(question: Any) -> str:
    kind = "P" if question.kind == "permission" else "outcome"
    return f"{kind}({question.call})"
