"""A process with a kernel that does what it is told: one JSON object a line, one answer a line.

    {"do": "open", "path": ..., "replies": "model> ..."}   {"do": "turn", "text": ...}
    {"do": "close"}                                        {"do": "go"}: lets `slow` return

What its tools and its provider do is counted in the file `<path>.outside`.
"""

import json
import sys

import anyio

from effects.providers.scripted import ScriptedProvider
from nachalnik import ContextItem, Kernel, Rules, tool
from nachalnik.scenarios.notation import replies


def answer(**said):
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def outside(path, what):
    with open(f"{path}.outside", "a") as file:
        file.write(f"{what}\n")


def make_tool(path):
    @tool(thread=True)
    def slow(s: int) -> str:
        """Wait until told to go on."""
        outside(path, "slow")
        answer(running=True)
        sys.stdin.readline()
        return f"slept {s} s"

    return slow


class Counted(ScriptedProvider):
    path = ""

    async def respond(self, request, deltas):
        outside(self.path, "request")
        return await super().respond(request, deltas)


def do(kernel, told):
    match told["do"]:
        case "open":
            provider = Counted(replies(told["replies"]))
            provider.path = told["path"]
            kernel = Kernel.open(
                told["path"],
                provider=provider,
                tools=[make_tool(told["path"])],
                policy=Rules(allow=["*"]),
            )
            answer(opened=True)
        case "turn":
            kernel.push(ContextItem.user(told["text"]))
            phase = anyio.run(kernel.turn)
            answer(state=type(phase).__name__)
        case "close":
            if kernel is not None:
                kernel.close()
            kernel = None
            answer(closed=True)
    return kernel


def main():
    kernel = None
    answer(ready=True)
    for line in sys.stdin:
        try:
            kernel = do(kernel, json.loads(line))
        except Exception as error:
            answer(error=type(error).__name__, said=str(error))


if __name__ == "__main__":
    main()
