"""What a stretch of items becomes as messages: pairs one for one, results behind their calls.

`LinearProjector` is the default of the projector seam (kernel.md 4.8). It works on any stretch;
`reducers.projection` cuts the context into stretches and keeps those that did not change.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import attrs

from reducers.vocabulary.content import (
    EMPTY,
    AnyContent,
    Block,
    Blocks,
    CallBlock,
    Content,
    ReasoningBlock,
    Text,
    TextBlock,
    ToolCall,
    as_text,
)
from reducers.vocabulary.events import Skipped
from reducers.vocabulary.items import (
    AssistantMessage,
    ContextItem,
    Reference,
    System,
    ToolResult,
    sends_content,
)
from reducers.vocabulary.json import NULL, quoted
from reducers.vocabulary.messages import Message

Verdict = tuple[bool, ...] | str
"""For a turn: which of its calls are kept. For a result: empty, or why it is dropped."""

SECOND = "second"
ORPHAN = "orphan"


class Piece(NamedTuple):
    """What one item becomes. A function of the item, its verdict and the options alone."""

    item: ContextItem
    verdict: Verdict
    message: Message | None
    skipped: str = ""
    repairs: tuple[str, ...] = ()


@attrs.frozen
class Projection:
    """The context as messages. `included` is in wire order; `repairs` tells what was taken out or
    lost to keep the request valid, `reordered` what was moved and not lost."""

    messages: Sequence[Message]
    included: Sequence[int]
    skipped: Sequence[Skipped]
    repairs: Sequence[str] = ()
    reordered: Sequence[str] = ()


@attrs.frozen
class LinearProjector:
    label_references: bool = True
    repair_orphans: bool = True
    send_reasoning: bool = True
    send_blocks: bool = False
    elision: str = "elided by nachalnik"

    def project(self, items: Iterable[ContextItem]) -> Projection:
        """All items, in insertion order and in any state, as one stretch."""
        stretch = tuple(items)
        verdicts = self.verdicts(stretch)
        pieces = [
            self.piece(item, verdict) for item, verdict in zip(stretch, verdicts, strict=True)
        ]
        return self.join(pieces)

    # -- pairs -------------------------------------------------------------------------------

    def verdicts(self, items: Sequence[ContextItem]) -> list[Verdict]:
        """Which calls and results stay: one for one, in order, over projected items (4.8.1)."""
        calls_left: dict[str, int] = {}
        results_left: dict[str, int] = {}
        for item in items:
            if item.is_projected():
                kind = item.kind
                if type(kind) is ToolResult:
                    results_left[kind.call] = results_left.get(kind.call, 0) + 1
                else:
                    for call in item.calls():
                        calls_left[call.id] = calls_left.get(call.id, 0) + 1
        called = set(calls_left)
        return [self._verdict(item, calls_left, results_left, called) for item in items]

    def _verdict(
        self,
        item: ContextItem,
        calls_left: dict[str, int],
        results_left: dict[str, int],
        called: set[str],
    ) -> Verdict:
        if not item.is_projected():
            return ""
        kind = item.kind
        if type(kind) is ToolResult:
            if calls_left.get(kind.call, 0) > 0:
                calls_left[kind.call] -= 1
                return ""
            if not self.repair_orphans:
                return ""
            return SECOND if kind.call in called else ORPHAN
        kept = []
        for call in item.calls():
            left = results_left.get(call.id, 0)
            kept.append(left > 0 or not self.repair_orphans)
            results_left[call.id] = left - 1
        return tuple(kept)

    # -- one item ----------------------------------------------------------------------------

    def piece(self, item: ContextItem, verdict: Verdict) -> Piece:
        if not item.is_projected():
            note = f": {item.note}" if item.note else ""
            return Piece(item, verdict, None, f"{item.state}{note}")
        kind = item.kind
        if isinstance(kind, AssistantMessage):
            return self._turn(item, verdict)
        if isinstance(kind, ToolResult):
            return self._result(item, kind, verdict)
        role: str = "system" if isinstance(kind, System) else "user"
        content = self._content(item)
        if isinstance(kind, Reference) and self.label_references and isinstance(content, Text):
            content = Text(f"{item.label}:\n{content.text}")
        return Piece(item, verdict, Message(role, content))  # type: ignore[arg-type]

    def _content(self, item: ContextItem) -> Content:
        return item.content if sends_content(item.state) else self._marker(item)  # type: ignore[return-value]

    def _marker(self, item: ContextItem) -> Text:
        return Text(f"[... {item.note or self.elision} ...]")

    def _result(self, item: ContextItem, kind: ToolResult, verdict: Verdict) -> Piece:
        if verdict == SECOND:
            repair = f"{_named(item, kind)} was left out: the call already has a result"
            return Piece(item, verdict, None, "a second result for one call", (repair,))
        if verdict == ORPHAN:
            repair = f"{_named(item, kind)} was left out: its call is not in the projection"
            return Piece(item, verdict, None, "an orphaned tool result", (repair,))
        message = Message(
            "tool",
            self._content(item),
            tool_call_id=kind.call,
            name=kind.tool,
            is_error=kind.is_error,
        )
        return Piece(item, verdict, message)

    def _turn(self, item: ContextItem, verdict: Verdict) -> Piece:
        kind = item.kind
        assert isinstance(kind, AssistantMessage)
        said = sends_content(item.state)
        if said and all(verdict) and not self.send_blocks and _is_plain(item, kind):
            text = item.content if item.content != EMPTY else None
            return Piece(
                item,
                verdict,
                Message("assistant", text, None, kind.tool_calls, extra=kind.extra),  # type: ignore[arg-type]
            )
        kept: list[Block] = []
        repairs: list[str] = []
        flags = iter(verdict)
        has_marker, had_thoughts = False, False
        for block in _as_blocks(item, kind, said):
            if isinstance(block, CallBlock):
                if next(flags):
                    kept.append(block)
                else:
                    repairs.append(_dropped(block.call, item))
            elif isinstance(block, ReasoningBlock):
                had_thoughts = True
                if said and self.send_reasoning:
                    kept.append(block)
            elif said:
                kept.append(block)
            elif not has_marker:
                has_marker = True
                kept.append(TextBlock(self._marker(item)))
        if not said and not has_marker:
            kept.insert(0, TextBlock(self._marker(item)))
        if all(isinstance(block, ReasoningBlock) for block in kept):
            with_it = "; its reasoning goes with it" if had_thoughts else ""
            reason = f"it has no content and no answered calls{with_it}"
            return Piece(item, verdict, None, reason, tuple(repairs))
        if self.send_blocks:
            message = Message("assistant", Blocks(tuple(kept)), extra=kind.extra)
            return Piece(item, verdict, message, "", tuple(repairs))
        if isinstance(item.content, Blocks) and (lost := _lost_by_flattening(kept)):
            repairs.append(f"the ordered blocks of item {item.id} were flattened: {lost}")
        return Piece(item, verdict, _flat(kept, kind), "", tuple(repairs))

    # -- many items --------------------------------------------------------------------------

    def join(self, pieces: Sequence[Piece]) -> Projection:
        """Put the messages in wire order and collect what was left out (4.8.3)."""
        built = [piece for piece in pieces if piece.message is not None]
        reordered: list[str] = []
        sent = built if _is_in_order(built) else [built[n] for n in _wire_order(built, reordered)]
        return Projection(
            messages=tuple([piece.message for piece in sent]),  # type: ignore[misc]
            included=tuple([piece.item.id for piece in sent]),
            skipped=tuple([Skipped(p.item.id, p.skipped) for p in pieces if p.message is None]),
            repairs=tuple([repair for piece in pieces for repair in piece.repairs]),
            reordered=tuple(reordered),
        )


def exchanged(items: Sequence[ContextItem]) -> tuple[list[Verdict], list[str]] | None:
    """The verdicts on items that are whole exchanges, and the ids of their calls: all of them send
    their content, each call has its result directly behind its turn, in order, and no id stands
    twice. None for any other."""
    verdicts: list[Verdict] = []
    asked: list[str] = []
    due: list[str] = []
    for item in items:
        if not sends_content(item.state):
            return None
        kind = item.kind
        if type(kind) is ToolResult:
            if not due or due.pop() != kind.call:
                return None
            verdicts.append("")
            continue
        if due:
            return None
        due = [call.id for call in reversed(item.calls())]
        asked += due
        verdicts.append((True,) * len(due))
    return None if due or len(set(asked)) != len(asked) else (verdicts, asked)


def _is_plain(item: ContextItem, kind: AssistantMessage) -> bool:
    """A turn that is sent as it stands: it says something, and no order of blocks is to be kept."""
    if type(item.content) is Blocks or kind.reasoning is not None:
        return False
    return bool(kind.tool_calls) or item.content != EMPTY


def _named(item: ContextItem, kind: ToolResult) -> str:
    return f"the result of call {quoted(kind.call)} ({kind.tool}, item {item.id})"


def _dropped(call: ToolCall, item: ContextItem) -> str:
    return f"call {quoted(call.id)} to {call.tool} was left out of item {item.id}: it has no result"


def _as_blocks(item: ContextItem, kind: AssistantMessage, said: bool) -> Iterable[Block]:
    content: AnyContent = item.content
    if isinstance(content, Blocks):
        yield from content.blocks
        return
    if kind.reasoning is not None:
        yield ReasoningBlock(kind.reasoning)  # type: ignore[arg-type]
    if content != Text() or not said:
        yield TextBlock(content)  # type: ignore[arg-type]
    for call in kind.tool_calls:
        yield CallBlock(call)


def _flat(blocks: Sequence[Block], kind: AssistantMessage) -> Message:
    return Message(
        "assistant",
        _joined([b.content for b in blocks if isinstance(b, TextBlock)]),
        reasoning=_joined([b.content for b in blocks if isinstance(b, ReasoningBlock)]),
        tool_calls=tuple([b.call for b in blocks if isinstance(b, CallBlock)]),
        extra=kind.extra,
    )


def _joined(contents: Sequence[Content]) -> Content | None:
    if not contents:
        return None
    if len(contents) == 1:
        return contents[0]
    return Text("\n".join(as_text(content) for content in contents))


def _lost_by_flattening(blocks: Sequence[Block]) -> str:
    """What three slots cannot say of these blocks, or nothing."""
    lost = []
    ranks = [(ReasoningBlock, TextBlock, CallBlock).index(type(block)) for block in blocks]
    if ranks != sorted(ranks):
        lost.append("their order is lost")
    if ranks.count(1) > 1 or ranks.count(0) > 1:
        lost.append("several of a kind became one")
    if any(not isinstance(block, CallBlock) and block.extra != NULL for block in blocks):
        lost.append("what the provider had attached is lost")
    return ", ".join(lost)


def _is_in_order(built: Sequence[Piece]) -> bool:
    """Whether each turn is followed by the results of its calls, and no result stands elsewhere."""
    due: list[str] = []
    for piece in built:
        message = piece.message
        assert message is not None
        if message.role != "tool":
            if due:
                return False
            due = [call.id for call in reversed(message.calls())]
        elif not due or due.pop() != message.tool_call_id:
            return False
    return not due


def _wire_order(built: Sequence[Piece], reordered: list[str]) -> list[int]:
    asked: set[str] = set()
    waiting: dict[str, list[int]] = {}
    for place, piece in enumerate(built):
        message = piece.message
        assert message is not None
        asked.update(call.id for call in message.calls())
        if message.role == "tool" and message.tool_call_id is not None:
            waiting.setdefault(message.tool_call_id, []).append(place)
    if not waiting:
        return list(range(len(built)))
    order: list[int] = []
    for place, piece in enumerate(built):
        message = piece.message
        assert message is not None
        if message.role == "tool" and message.tool_call_id in asked:
            continue
        order.append(place)
        for offset, call in enumerate(message.calls(), start=1):
            queue = waiting.get(call.id)
            if queue:
                answer = queue.pop(0)
                order.append(answer)
                if answer != place + offset:
                    moved = built[answer].item.id
                    reordered.append(
                        f"item {moved} was moved to stand behind its call {quoted(call.id)}"
                    )
    placed = set(order)
    return order + [place for place in range(len(built)) if place not in placed]


def pairing_problem(messages: Iterable[Message]) -> str | None:
    """What breaks the pairing law in a request, or None: each call is answered exactly once,
    behind its turn and before anything else."""
    due: list[str] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in due:
                name = quoted(str(message.tool_call_id))
                return f"message {place} answers {name}, which is not asked here"
            due.remove(message.tool_call_id)
            continue
        if due:
            return f"message {place} comes while {quoted(due[0])} has no answer"
        due += [call.id for call in message.calls()]
    return f"the request ends while {quoted(due[0])} has no answer" if due else None
