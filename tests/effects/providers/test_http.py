"""The connection under a provider: one for each request, and what ends a wait."""

import signal

import anyio
import pytest

from effects.ports import DeltaSink, ProviderFailure
from effects.providers.http import Server, unless_interrupted
from effects.providers.openai_chat import OpenAIChatProvider
from nachalnik.testing.wire import Reply, WireServer, chat_stream
from reducers.vocabulary.messages import Message, ModelRequest

ASK = ModelRequest((Message("user", "go"),))
BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])
WHOLE = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'
KEPT = [
    Reply(chat_stream("hi"), keeps_open=True),
    Reply(WHOLE, content_type="application/json", framing="length", keeps_open=True),
    Reply(b'{"error":{"message":"no"}}', 400, "application/json", keeps_open=True),
]


async def all_closed(server):
    with anyio.fail_after(2):
        while server.open_connections:  # noqa: ASYNC110 (another thread counts them)
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_each_request_has_a_connection_of_its_own_which_is_closed_behind_it():
    """The server would keep it. One that is used again may be gone just then, and whether the
    request was read is unknown."""
    with WireServer(KEPT) as server:
        provider = OpenAIChatProvider("m1", base_url=server.base_url)
        for count in range(1, 4):
            if count == 3:
                with pytest.raises(ProviderFailure):
                    await provider.respond(ASK, DeltaSink.disconnected())
            else:
                await provider.respond(ASK, DeltaSink.disconnected())
            assert server.connections == count
            await all_closed(server)
        await provider.aclose()


@BOTH
def test_no_socket_outlives_its_event_loop(backend):
    """A provider that is never closed, and a loop for each turn."""
    with WireServer(KEPT[:1] * 3) as server:
        provider = OpenAIChatProvider("m1", base_url=server.base_url)
        for _ in range(3):
            anyio.run(provider.respond, ASK, DeltaSink.disconnected(), backend=backend)
        anyio.run(all_closed, server)
        assert server.connections == 3


@BOTH
@pytest.mark.parametrize("place", ["work", "watch"])
def test_ctrl_c_comes_out_bare(backend, place):
    """A task group wraps what is raised in it; who waits for a turn expects a KeyboardInterrupt."""
    asked = []

    def press():
        asked.append(place)
        if len(asked) == 1:
            signal.raise_signal(signal.SIGINT)
        return False

    async def work():
        if place == "work":
            press()
        await anyio.sleep(5)

    async def main():
        await unless_interrupted(press if place == "watch" else lambda: False, work)

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=backend)
    assert asked


@pytest.mark.anyio
async def test_an_error_without_words_is_told_by_its_type():
    import httpx2

    class Mute(httpx2.ReadError):
        def __str__(self):
            raise ValueError

    server = Server("http://x/v1", {})
    with pytest.raises(ProviderFailure, match="http://x/v1 was lost: Mute"), server.failures():
        raise Mute("")
