"""The recorded sessions of `fixtures/`, as they are made.

    python -m tests.reducers.sessions

rewrites `fixtures/sessions`, which is redriven: what changes there is what a change of rules did,
and belongs into the commit that changes them. A log of `fixtures/logs` is written once, when it is
missing, and never again: it stands for what people have on their disks.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from reducers import chain as chains
from reducers.codec import Header, encode_commit, encode_header
from reducers.vocabulary import inputs as i
from reducers.vocabulary.content import Blob, Blocks, CallBlock, ReasoningBlock, Text, TextBlock
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.models import ModelResponse, Usage
from reducers.vocabulary.policies import PolicyInfo
from reducers.vocabulary.tools import ToolOutput
from tests.properties.player import ANYTHING, Player, moves_from
from tests.reducers.driving import ADD, ALLOW_ADD, CODE, LOG, NAME, NOTE, Core, call, started

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SESSIONS, LOGS = FIXTURES / "sessions", FIXTURES / "logs"
HEADER = Header(LOG, NAME, None, "nachalnik 0.1.0")
ASK = PolicyInfo("Rules", ())


def framed(core: Core) -> bytes:
    """The bytes of the log."""
    line, chain = chains.frame_header(encode_header(HEADER))
    lines = [line]
    for commit in core.commits:
        line, chain = chains.frame_commit(chain, encode_commit(commit)[0])
        lines.append(line)
    return b"".join(lines)


def _asked(core: Core, *calls: object, run: i.Input = i.RunTurn()) -> Core:  # noqa: B008
    core.push("go")
    core.feed(run)
    core.ask(*calls)
    return core


def serial_calls() -> Core:
    core = _asked(started(), "c1", "c2")
    core.result("c1", "3")
    core.result("c2", "4")
    core.say("3 and 4", Usage(700, 12))
    return core


def parallel_calls_of_which_one_is_refused() -> Core:
    core = _asked(started(ALLOW_ADD, parallel_tool_calls=True), "c1", call("c2", "note"), "c3")
    core.feed(i.DecidePermission(2, "deny", reason="not now"))
    core.feed(i.RunTurn())
    core.result("c3", "third")
    core.result("c1", "first")
    core.say("done")
    return core


def an_interrupt_and_a_cancellation() -> Core:
    core = _asked(started(), "c1", "c2", "c3")
    core.feed(i.InterruptTurn())
    core.result("c1")
    core.feed(i.RunTurn())
    core.ask("c4")
    core.feed(i.CancelTurn(reason="enough"))
    core.feed(i.ToolSettled("7.0", ToolOutput(Text("after all"))))
    return core


def code_judges_and_calls_are_malformed() -> Core:
    calls = ("c1", call("", "note"), call("c3", "frobnicate"), call("c1", "add", "[1,2]"))
    core = _asked(started(CODE), *calls)
    core.feed(i.CallJudged(core.effect("c1"), "deny", "it is Sunday"))
    core.feed(i.CallJudged(core.effect("call_1"), "ask", capabilities=("fs:write",), limit=40))
    core.feed(i.DecidePermission(2, "allow"))
    core.feed(i.RunTurn())
    core.result("call_1", "x" * 100)
    core.feed(i.ModelSettled(core.effect(), failure=i.Failure("gone", "model.unreachable")))
    return core


def a_crash_that_is_reconciled_and_one_that_is_not() -> Core:
    tools = (replace(ADD, reconciles=True), NOTE, replace(ADD, id="safe", idempotent=True))
    core = _asked(started(tools=tools), "c1", call("c2", "note"), call("c3", "safe"))
    core.reopen(tools)
    core.feed(i.OutcomeReconciled(core.reconciling("c1"), ToolOutput(Text("3"))))
    core.feed(i.RunTurn())
    core.reopen(tools)
    core.feed(i.SettleOutcome("c2", ToolOutput(Text("it did not"), is_error=True)))
    core.feed(i.RunTurn())
    core.reopen(tools)
    core.feed(i.RunTurn())
    core.result("c3")
    core.say("done")
    return core


def a_driver_that_leaves() -> Core:
    core = _asked(started(parallel_tool_calls=True), "c1", "c2", "c3")
    core.feed(i.DriverLeft())
    core.feed(i.RetryOutcome("c2"))
    core.feed(i.RunStep())
    core.result("c2", "again")
    core.feed(i.RunTurn())
    core.say("well")
    return core


def edits_of_the_context() -> Core:
    core = started(context_undo_depth=4)
    picture = Blob("image/png", "aGVsbG8=", Json('{"name":"plot.png"}'))
    core.feed(i.PushItems((ContextItem.system("be brief"), ContextItem.file("a.png", picture))))
    core.feed(i.PushItems((ContextItem.file("b.txt", "long").with_state("elided", "read"),)))
    core.feed(i.SetState((1, 2), "excluded", "too long"))
    core.feed(i.ReplaceContent(3, Text("shorter")))
    core.feed(i.SupersedeItem(3, ContextItem.file("b.txt", "shortest").pinned()))
    core.feed(i.AnnotateItem(4, Json('{"n":9007199254740993}')))
    for input in (i.Undo(), i.Undo(), i.Redo(), i.RecountItems(), i.ReserveCalls(("x", "y"))):
        core.feed(input)
    core.feed(i.SetParams(Json('{"temperature":0.5}')))
    core.push("go")
    core.feed(i.RunTurn())
    blocks = (
        ReasoningBlock(Text("hm"), Json('{"s":1}')),
        TextBlock(Text("well")),
        CallBlock(call("x")),
    )
    core.feed(i.ModelSettled(core.effect(), ModelResponse.of_blocks(Blocks(blocks))))
    core.result("call_0", "3")
    core.say("done")
    core.feed(i.Undo())
    core.feed(i.FinishSession())
    return core


def a_turn_that_spends_its_budget() -> Core:
    core = _asked(started(ASK, max_requests_per_turn=1), "c1", "c2")
    core.feed(i.DecidePermission(1, "allow"))
    core.feed(i.CancelCalls("changed my mind"))
    core.feed(i.RunTurn())
    core.ask("c3")
    core.feed(i.DecidePermission(3, "allow"))
    core.feed(i.RunTurn())
    core.result("c3")
    return core


SCRIPTS: dict[str, Callable[[], Core]] = {
    made.__name__: made
    for made in (
        serial_calls,
        parallel_calls_of_which_one_is_refused,
        an_interrupt_and_a_cancellation,
        code_judges_and_calls_are_malformed,
        a_crash_that_is_reconciled_and_one_that_is_not,
        a_driver_that_leaves,
        edits_of_the_context,
        a_turn_that_spends_its_budget,
    )
}


HISTORIES = (132, 574)
"""Seeds of long histories that between them say nearly everything."""


def history(seed: int) -> Core:
    return Player(seed % 5, seed // 5 % 4).play(moves_from(seed, 200, ANYTHING))


def rewrite() -> None:
    for name, script in SCRIPTS.items():
        (SESSIONS / f"{name}.jsonl").write_bytes(framed(script()))
    for seed in HISTORIES:
        path = LOGS / f"history_{seed}.jsonl"
        if not path.exists():
            path.write_bytes(framed(history(seed)))


if __name__ == "__main__":
    rewrite()
