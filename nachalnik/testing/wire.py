"""A model server on loopback that answers from a script, byte for byte, well or badly.

    with WireServer([sse("hello")]) as server:
        provider = OpenAIChatProvider("m", base_url=server.base_url)

It needs the standard library only. A reply can be cut, dripped, stalled or broken off: what a real
network does rarely, it does always.
"""

import json
import select
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

import attrs

EVENT_STREAM = "text/event-stream"
LOOK_S = 0.02
"""How often a stalled reply looks whether its client is still there."""


@attrs.frozen
class Reply:
    """One response. By default the whole body in one piece."""

    body: bytes = b""
    status: int = 200
    content_type: str = EVENT_STREAM
    headers: Mapping[str, str] = attrs.field(factory=dict)
    cuts: tuple[int, ...] = ()
    """Places in the body where it is cut into HTTP chunks; a reader sees each by itself."""
    drip: int = 0
    """Bytes of each HTTP chunk; 1 is one byte a chunk, 0 all in one."""
    pause_s: float = 0.0
    """Between two pieces."""
    break_at: int | None = None
    """The connection is closed after so many bytes of the body, without a proper end."""
    stall_at: int | None = None
    """After so many bytes of the body nothing more is sent, until the client goes away."""
    framing: Literal["chunked", "length", "close"] = "chunked"
    """How the end of the body is told. With `close`, a broken body looks like a whole one."""
    raw: bytes | None = None
    """Sent instead of head and body."""
    keeps_open: bool = False
    """The connection stays open for a next request, after a body with a proper end."""

    def pieces(self) -> Iterator[bytes]:
        drips = range(self.drip, len(self.body), self.drip) if self.drip else ()
        places = {place for place in (*self.cuts, *drips) if 0 < place < len(self.body)}
        borders = [0, *sorted(places)]
        for start, stop in zip(borders, [*borders[1:], len(self.body)], strict=True):
            if start < stop:
                yield self.body[start:stop]


@attrs.frozen
class WireRequest:
    """One request as it was received. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def sse(*events: object, done: bool = True) -> bytes:
    """An event stream of JSON values; a str is taken as the data itself."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    lines += ["[DONE]"] if done else []
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def chat_stream(text: str, finish: str = "stop") -> bytes:
    """The event stream of a Chat Completions answer that says `text`, a word a chunk."""
    words = [word for word in text.replace(" ", "\0 ").split("\0") if word]
    chunks = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    return sse(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})


class WireServer:
    """Answers requests in the order in which they come; a context manager.

    `requests` holds what was received, `hangups` how many clients left before the end,
    `connections` how many came, `open_connections` how many are there now. When the script is empty
    it answers 500.
    """

    def __init__(self, replies: Iterable[Reply | bytes] = ()) -> None:
        self.requests: list[WireRequest] = []
        self.hangups = 0
        self.connections = 0
        self.open_connections = 0
        self.closing = threading.Event()
        self._replies: deque[Reply] = deque()
        self._lock = threading.Lock()
        self.add(*replies)
        self._http = _Listener(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(LOOK_S,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def add(self, *replies: Reply | bytes) -> None:
        """Put more at the end of the script; bytes are an event stream."""
        with self._lock:
            self._replies += [Reply(one) if isinstance(one, bytes) else one for one in replies]

    def __enter__(self) -> "WireServer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def take(self, request: WireRequest) -> Reply:
        with self._lock:
            self.requests.append(request)
            if self._replies:
                return self._replies.popleft()
        body = b'{"error":{"message":"the script of this server is empty"}}'
        return Reply(body, 500, "application/json")

    def hang_up(self) -> None:
        with self._lock:
            self.hangups += 1

    @contextmanager
    def connected(self) -> Iterator[None]:
        with self._lock:
            self.connections += 1
            self.open_connections += 1
        try:
            yield
        finally:
            with self._lock:
                self.open_connections -= 1


class _Listener(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, the sixth at once waits a second

    def __init__(self, script: WireServer) -> None:
        self.script = script
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        with self.server.script.connected(), suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = WireRequest(self.command, self.path, headers, self.rfile.read(size))
        script = self.server.script
        reply = script.take(request)
        if not reply.keeps_open:
            self.close_connection = True
        try:
            self._answer(reply)
        except OSError:
            script.hang_up()
            self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def _answer(self, reply: Reply) -> None:
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            return
        self.wfile.write(self._head(reply))
        sent = 0
        for piece in reply.pieces():
            for stop in (reply.break_at, reply.stall_at):
                if stop is not None and sent + len(piece) > stop:
                    self._write(reply, piece[: stop - sent])
                    self._stop(stalled=reply.break_at is None)
                    return
            self._write(reply, piece)
            sent += len(piece)
            if reply.pause_s and self.server.script.closing.wait(reply.pause_s):
                break
        if reply.stall_at is not None or reply.break_at is not None:
            self._stop(stalled=reply.break_at is None)
        elif reply.framing == "chunked":
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, reply: Reply) -> bytes:
        connection = "keep-alive" if reply.keeps_open else "close"
        lines = {"content-type": reply.content_type, "connection": connection, **reply.headers}
        if reply.framing == "chunked":
            lines["transfer-encoding"] = "chunked"
        elif reply.framing == "length":
            lines["content-length"] = str(len(reply.body))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        return f"HTTP/1.1 {reply.status} Scripted\r\n{head}\r\n".encode()

    def _write(self, reply: Reply, piece: bytes) -> None:
        if piece and reply.framing == "chunked":
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if piece:
            self.wfile.write(piece)

    def _stop(self, *, stalled: bool) -> None:
        """Send nothing more, and hold the connection until the client goes away."""
        while stalled and not self.server.script.closing.is_set():
            if select.select([self.connection], [], [], LOOK_S)[0]:
                raise ConnectionResetError

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name above)
        pass
