"""A bare shell for the core: feeds inputs, keeps the log, tells what happened in one line a commit.

The line is the notation of the golden traces: the input, then its events in order, bookkeeping in
brackets, `o` and `j` behind a change that opens or joins an undo point.
"""

from collections.abc import Iterable

from reducers import Commit, Event, Input, Reducer, Step, fold, initial, outstanding, step
from reducers.codec import decode_commit, encode_commit
from reducers.state import UNNUMBERED
from reducers.vocabulary import events as e
from reducers.vocabulary import inputs as i
from reducers.vocabulary.config import Config
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.effects import CallModel, JudgeCall, ReconcileOutcome, RunTool
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.models import ModelInfo, ModelResponse, Usage
from reducers.vocabulary.phases import Deciding, Executing, Finished, Phase, Ready, name_of
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolOutput, ToolSpec
from tests.contracts.audit import purity_alarm

LOG, NAME = "7c0e9d2b41f84a6f", "demo"
MODEL = ModelInfo("scripted", "m1", 8000, tool_calling=True)
ADD = ToolSpec("add", "Add two integers.")
NOTE = ToolSpec("note", "Write a note.", capabilities=("fs:write",))
ALLOW_ALL = PolicyInfo("Rules", (Rule(allow="*"),))
ALLOW_ADD = PolicyInfo("Rules", (Rule(allow="add"),))
CODE = PolicyInfo("Code")


class Core:
    """`step` with a log. Checks law 1 on every step, under the purity alarm."""

    def __init__(self, reducer: Reducer | None = None) -> None:
        self.reducer = reducer or Reducer()
        self.state = initial(LOG, NAME)
        self.commits: list[Commit] = []

    def feed(self, input: Input) -> Step:
        before = self.state
        with purity_alarm():
            made = step(before, input, self.reducer)
        if made.events:
            assert fold(before, made.events) == made.state, "law 1"
            at = 1764540000000 + 7 * made.state.position
            self.commits.append(Commit(at, made.state.position, input, made.events))
        else:
            assert made.state is before
            assert made.effects == ()
        self.state = made.state
        return made

    # -- scripted moves --------------------------------------------------------------------------

    def effect(self, call: str = "") -> str:
        """Id of the outstanding effect of a call; without one, of the request to the model."""
        for owed in outstanding(self.state):
            if not call and isinstance(owed, CallModel):
                return owed.id
            if call and isinstance(owed, RunTool | JudgeCall) and owed.call == call:
                return owed.id
        raise AssertionError(f"nothing is outstanding for {call or 'the model'}")

    def reconciling(self, call: str) -> str:
        return next(
            owed.id
            for owed in outstanding(self.state)
            if isinstance(owed, ReconcileOutcome) and owed.call == call
        )

    def push(self, *texts: str) -> Step:
        return self.feed(i.PushItems(tuple(ContextItem.user(text) for text in texts)))

    def say(self, text: str, usage: Usage | None = None) -> Step:
        response = ModelResponse.of_text(text, usage)
        return self.feed(i.ModelSettled(self.effect(), response))

    def ask(self, *calls: str | ToolCall, usage: Usage | None = None) -> Step:
        """The model answers with calls; a word is a call of that id to `add`."""
        made = tuple(one if isinstance(one, ToolCall) else call(one) for one in calls)
        response = ModelResponse(calls=made, stop="tool_use", usage=usage)
        return self.feed(i.ModelSettled(self.effect(), response))

    def result(self, name: str, text: str = "ok", is_error: bool = False) -> Step:
        output = ToolOutput(Text(text), is_error)
        return self.feed(i.ToolSettled(self.effect(name), output))

    def reopen(self, tools: Iterable[ToolSpec] = (ADD, NOTE), **parts: object) -> Step:
        """Another process opens what the log holds; nothing of this one's memory is left."""
        state = initial(LOG, NAME)
        for commit in self.commits:
            read = decode_commit(encode_commit(commit)[0])
            state = fold(state, read.events)
        assert state == self.state
        self.state, self.reducer = state, Reducer()
        given = {"model": MODEL, "policy": ALLOW_ALL, **parts}
        return self.feed(i.SessionOpened(tools=tuple(tools), **given))  # type: ignore[arg-type]

    def told(self, since: int = 0) -> list[str]:
        return [line(commit) for commit in self.commits[since:]]


def call(id: str, tool: str = "add", args: str = '{"x":1,"y":2}') -> ToolCall:
    return ToolCall(id, tool, args)  # type: ignore[arg-type]


def started(
    policy: PolicyInfo = ALLOW_ALL,
    tools: Iterable[ToolSpec] = (ADD, NOTE),
    model: ModelInfo | None = MODEL,
    **config: object,
) -> Core:
    """A session in its first process, opened and ready to work."""
    core = Core()
    opened = i.SessionOpened(
        config=Config(**config),  # type: ignore[arg-type]
        model=model,
        tools=tuple(tools),
        policy=policy,
    )
    core.feed(opened)
    return core


# -- telling -----------------------------------------------------------------------------------


def line(commit: Commit) -> str:
    words = " · ".join(told(event) for event in commit.events)
    return f"{commit.input.__struct_config__.tag:15} {words}"


def told(event: Event) -> str:
    words = _words(event)
    return f"[{words}]" if isinstance(event, UNNUMBERED) else words


def recorded(commits: Iterable[Commit]) -> list[str]:
    """The recorded events alone, in order, whatever commits they stand in."""
    return [
        told(event)
        for commit in commits
        for event in commit.events
        if not isinstance(event, UNNUMBERED)
    ]


def phase(value: Phase) -> str:
    match value:
        case Deciding(calls=ids) | Ready(calls=ids) | Executing(calls=ids):
            return f">{name_of(value)}{{{','.join(map(str, ids))}}}"
        case Finished(item=item, stop=stop):
            return f">finished{{{item} {stop}}}"
        case _:
            return f">{name_of(value)}"


def _words(event: Event) -> str:
    tag = event.__struct_config__.tag
    mark = {"open": " o", "join": " j"}.get(getattr(event, "undo", ""), "")
    match event:
        case e.StateChanged(to=to):
            return phase(to)
        case e.ContextAdded(item=item):
            return f"{tag} {item.id}{mark}"
        case e.ContextChanged(id=id, to=to):
            return f"{tag} {id}>{to}{mark}"
        case e.ContextReplaced(id=id) | e.ContextAnnotated(id=id):
            return f"{tag} {id}{mark}"
        case (
            e.ContextUndone(removed=ids, changed=changed)
            | e.ContextRedone(restored=ids, changed=changed)
        ):
            return f"{tag} {list(ids)} {list(changed)}"
        case e.ContextRecounted(tokens_before=before, tokens_after=after):
            return f"{tag} {before}>{after}"
        case e.ModelFinished(item=item):
            return f"{tag} {item}"
        case e.ToolRequested(call=call, effect=effect):
            return f"{tag} {call}{'' if effect is None else ' ?'}"
        case e.ToolRepaired(call=call, was=was):
            return f"{tag} {was!r}>{call}"
        case e.ToolReserved(reserved=count):
            return f"{tag} {count}"
        case e.PermissionRequested(id=id, call=call):
            return f"{tag} {id} {call}"
        case e.PermissionDecided(id=id, call=call, grant=grant, source=source):
            return f"{tag} {id} {call} {grant}/{source}"
        case e.QuestionOpened(id=id, kind=kind, call=call, effect=effect):
            return f"{tag} {id} {kind} {call}{'' if effect is None else ' ?'}"
        case e.QuestionAnswered(id=id, how=how):
            return f"{tag} {id} {how}"
        case e.QuestionLeft(id=id):
            return f"{tag} {id}"
        case e.ToolStarted(call=call, attempt=attempt):
            return f"{tag} {call}{f' #{attempt}' if attempt > 1 else ''}"
        case e.ToolFinished(call=call, is_error=is_error, stop=stop):
            error = " error" if is_error else ""
            return f"{tag} {call}{error}{'' if stop is None else ' stop'}"
        case e.TurnOpened(turn=turn):
            return f"{tag} {turn}"
        case e.TurnClosed(turn=turn, reason=reason):
            return f"{tag} {turn} {reason}"
        case e.TurnPaused(requests=requests):
            return f"{tag} {requests}"
        case e.TurnUnfinished(calls=calls):
            return f"{tag} {','.join(calls)}"
        case e.RequestAbandoned(stop=stop):
            return f"{tag}{'' if stop is None else ' stop'}"
        case _:
            named = getattr(event, "call", "")
            return f"{tag} {named}" if named else str(tag)
