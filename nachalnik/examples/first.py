"""A session in memory, with a model that answers with what it was told."""

import anyio

from nachalnik import ContextItem, DeltaSink, Kernel, ModelInfo, ModelRequest, ModelResponse


class Echo:
    def info(self) -> ModelInfo:
        return ModelInfo(provider="local", model="echo")

    async def respond(self, request: ModelRequest, deltas: DeltaSink) -> ModelResponse:
        return ModelResponse(content=request.messages[-1].content)


kernel = Kernel(provider=Echo())
file = kernel.push(ContextItem.file("todo.txt", "Water the plants.").pinned())
kernel.push(ContextItem.user("What is there to do?"))
print(kernel.state(), len(kernel.preview_request().messages))  # Idle() 2
print(anyio.run(kernel.turn))  # Finished(item=3, stop='end_turn')
print(kernel.items()[-1].content)  # Text(text='What is there to do?')
kernel.exclude(file)
print(len(kernel.preview_request().messages))  # 2
print(kernel.undo(), len(kernel.preview_request().messages))  # True 3
