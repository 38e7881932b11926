"""A shell of one's own: a whole turn with `step`, `outstanding` and `work`, without `effects`.

The core is a function from a state and an input to the next state. Whoever drives it writes the
commit, carries out what is outstanding, and feeds the answer back in. Here the log is a list and
the model a function; a scheduler with a database and a queue does the same in its own way.
"""

import time

import msgspec

from reducers import Commit, Effect, Input, State, Work, fold, initial, outstanding, step, work
from reducers.announce import ModelWork, ToolWork
from reducers.codec import decode_commit, encode_commit
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.inputs import (
    ModelSettled,
    PartsDescribed,
    PushItems,
    RunTurn,
    SessionOpened,
    ToolSettled,
)
from reducers.vocabulary.items import ContextItem
from reducers.vocabulary.json import Json
from reducers.vocabulary.messages import ModelRequest
from reducers.vocabulary.models import ModelInfo, ModelResponse
from reducers.vocabulary.policies import PolicyInfo, Rule
from reducers.vocabulary.tools import ToolOutput, ToolSpec

log: list[bytes] = []
"""The commits as they would stand on disk, without the chain around them."""


def feed(state: State, input: Input) -> State:
    """One transition: judge, write, and only then move on."""
    made = step(state, input)
    if made.events:
        stamp = time.time_ns() // 1_000_000
        value, contents = encode_commit(Commit(stamp, made.state.position, input, made.events))
        assert not contents, "this list has no place for contents above 256 KiB"
        log.append(value)
    if made.raised is not None:
        raise made.raised
    return made.state


def settle(effect: Effect, needed: Work) -> Input:
    """Carry out one effect; what came of it is the next input."""
    match needed:
        case ModelWork():
            return ModelSettled(effect.id, ask_model(needed.request))
        case ToolWork():
            return ToolSettled(effect.id, run_tool(needed))
        case _:
            raise NotImplementedError(type(effect).__name__)


def ask_model(request: ModelRequest) -> ModelResponse:
    last = request.messages[-1]
    if last.role == "tool":
        return ModelResponse(content=last.content)
    call = ToolCall("c1", "add", Json('{"x":1,"y":2}'))
    return ModelResponse.of_calls(call)


def run_tool(needed: ToolWork) -> ToolOutput:
    """`needed.key` is the same however often this call is started, and belongs to no other."""
    args = msgspec.json.decode(needed.call.args)
    return ToolOutput(Text(str(args["x"] + args["y"])))


def main() -> None:
    start = state = initial(log="7c0e9d2b41f84a6f", session_name="embedded")
    for order in (
        SessionOpened(),
        PartsDescribed(
            model=ModelInfo("local", "adder"),
            tools=(ToolSpec("add", "Add two integers."),),
            policy=PolicyInfo("Rules", (Rule(allow="add"),)),
        ),
        PushItems((ContextItem.user("What is 1 and 2?"),)),
        RunTurn(),
    ):
        state = feed(state, order)
    while owed := outstanding(state):
        effect = owed[0]
        print(f"{effect.id:>5}  {type(effect).__name__}")
        state = feed(state, settle(effect, work(state, effect)))
    print(state.loop.phase)

    again = start
    for value in log:
        again = fold(again, decode_commit(value).events)
    print(again == state)


if __name__ == "__main__":
    main()
