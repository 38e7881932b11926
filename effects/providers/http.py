"""One server over HTTP: the connection to it, and whatever goes wrong with it as a failure.

httpx2 is imported when the first request is sent: it costs 0.3 s, which a program that only reads
logs should not pay.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio.lowlevel import current_token

from effects.ports import ProviderFailure
from effects.raised import leaf, said
from reducers.vocabulary.errors import InvalidInput

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response, Timeout

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLL_S = 0.05
"""How soon an interrupt is seen while nothing arrives: at once for a person, cheap for a machine"""


class Server:
    """A base address and what is sent to it.

    Each request has a connection of its own, which is closed when its response is. One that is
    kept may be closed by the server in the moment when it is used again, and whether the request
    was read then is unknown: it could not be sent again without being billed twice. A handshake is
    little beside a model's answer.

    The client belongs to one event loop; in another loop a new one is made, and nothing of the
    first is open by then. A client that was handed in stays the caller's, with whatever connections
    it keeps.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        connect_timeout_s: float = 15.0,
        silence_timeout_s: float = 300.0,
        http: "AsyncClient | None" = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.shown = shown_address(self.base_url)
        """The address as it may be printed and recorded: no user, no password, no query."""
        self.headers = {"user-agent": "nachalnik", **headers}
        self.connect_timeout_s = connect_timeout_s
        self.silence_timeout_s = silence_timeout_s
        self._given = http
        self._own: tuple[object, AsyncClient] | None = None

    def __repr__(self) -> str:
        return f"Server({self.shown!r})"

    @asynccontextmanager
    async def post(self, path: str, body: bytes, accept: str) -> AsyncIterator["Response"]:
        """Send once and give the response as soon as its head is there. Never follows a redirect.

        Raises `ProviderFailure` where no response comes; reading it raises httpx2's errors.
        """
        headers = {
            **self.headers,
            "accept": accept,
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        client, url = self._client(), self._url(path)
        timeout = self._timeout()
        request = client.build_request("POST", url, headers=headers, content=body, timeout=timeout)
        with self.failures():
            response = await client.send(request, stream=True, follow_redirects=False)
        try:
            yield response
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turns httpx2's errors into `ProviderFailure`: what happened, where, what to do."""
        import httpx2

        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            text = f"no connection to {self.shown}: {said(error)}; is the server running there?"
            raise ProviderFailure(text, "model.unreachable") from error
        except httpx2.TimeoutException as error:
            text = f"{self.shown} was silent for {self.silence_timeout_s:g} s"
            raise ProviderFailure(text, "model.timeout") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            text = f"the connection to {self.shown} was lost: {said(error)}"
            raise ProviderFailure(text, "model.connection_lost") from error

    async def aclose(self) -> None:
        """Close what is open in this event loop. The server can be used again."""
        own, self._own = self._own, None
        if own is not None and own[0] == current_token():
            await own[1].aclose()

    def _client(self) -> "AsyncClient":
        if self._given is not None:
            return self._given
        token = current_token()
        if self._own is None or self._own[0] != token:
            from httpx2 import AsyncClient, Limits

            # The environment's proxy has a loopback of its own: this one is reached without it.
            is_here = urlsplit(self.base_url).hostname in LOOPBACK
            limits = Limits(max_connections=None, max_keepalive_connections=0)
            self._own = (token, AsyncClient(trust_env=not is_here, limits=limits))
        return self._own[1]

    def _timeout(self) -> "Timeout":
        from httpx2 import Timeout

        silence = None if math.isinf(self.silence_timeout_s) else self.silence_timeout_s
        return Timeout(silence, connect=self.connect_timeout_s, pool=None)

    def _url(self, path: str) -> str:
        """The path goes before the query of a base address that has one (Azure's version)."""
        base, mark, query = self.base_url.partition("?")
        return f"{base.rstrip('/')}{path}{mark}{query}"


def shown_address(url: str) -> str:
    """The address without user, password, query and fragment. Raises `InvalidInput`."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError as problem:
        raise InvalidInput(f"the base address cannot be read: {problem}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("a base address begins with http:// or https:// and names a host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


async def read_body(response: "Response", limit: int) -> bytes:
    """The whole body. Raises `ProviderFailure` over the limit, and httpx2's errors."""
    pieces, size = [], 0
    source = response.aiter_bytes()
    async for piece in source:
        size += len(piece)
        if size > limit:
            await let_go(response, source)
            text = f"the answer is larger than {limit} bytes: it was not read"
            raise ProviderFailure(text, "model.bad_answer")
        pieces.append(piece)
    return b"".join(pieces)


async def let_go(response: "Response", *readers: AsyncIterator[object]) -> None:
    """Close a response that was not read to its end, and end each generator that reads it.

    They stand one inside the other, and closing the outer one leaves the inner ones to the garbage
    collector, of which trio complains. Reading on from what is closed ends them all.
    """
    with anyio.CancelScope(shield=True):
        await response.aclose()
        for reader in readers:
            with suppress(Exception):
                async for _ in reader:
                    pass


async def unless_interrupted(
    is_interrupted: Callable[[], bool], work: Callable[[], Awaitable[None]]
) -> bool:
    """Do the work, and give it up when somebody asks to stop. Returns whether it was given up.

    Looks also while nothing arrives: a model that is being loaded may be silent for minutes.
    """
    failure: Exception | None = None
    is_finished = False

    async def watch() -> None:
        while not is_interrupted():  # noqa: ASYNC110 (it is a flag, and nobody sets an event)
            await anyio.sleep(POLL_S)
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                await work()
                is_finished = True
            except Exception as error:  # carried out of the group, which would wrap it
                failure = error
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as errors:  # of a Ctrl-C, which a caller expects bare
        raise leaf(errors) from None
    if failure is not None:
        raise failure
    return not is_finished
