"""The scripted server, seen through a client that is not ours."""

import socket
import sys
import urllib.error
import urllib.request

import pytest

from nachalnik.testing.wire import Reply, WireServer, chat_stream, sse


def post(server, body=b"{}"):
    request = urllib.request.Request(f"{server.base_url}/x", body, {"X-Mark": "m"}, method="POST")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read()


def test_replies_come_in_order_and_requests_are_kept():
    with WireServer([b"one", Reply(b"two", framing="length")]) as server:
        server.add(Reply(b"three", framing="close"))
        assert [post(server, b'{"n":%d}' % n) for n in range(3)] == [b"one", b"two", b"three"]
        assert [request.json()["n"] for request in server.requests] == [0, 1, 2]
        assert server.requests[0].path == "/v1/x"
        assert server.requests[0].headers["x-mark"] == "m"
        server.add(b"four")
        with urllib.request.urlopen(f"{server.url}/models", timeout=5) as answer:
            assert answer.read() == b"four"


def test_an_empty_script_is_a_server_error():
    with WireServer() as server, pytest.raises(urllib.error.HTTPError) as failure:
        post(server)
    assert failure.value.code == 500
    failure.value.close()


@pytest.mark.parametrize(
    ("reply", "pieces"),
    [
        (Reply(b"abcdef"), [b"abcdef"]),
        (Reply(b"abcdef", cuts=(4, 2, 2, 0, 6, 9)), [b"ab", b"cd", b"ef"]),
        (Reply(b"abcdef", drip=4), [b"abcd", b"ef"]),
        (Reply(b"abc", drip=1), [b"a", b"b", b"c"]),
        (Reply(b""), []),
    ],
)
def test_a_body_is_cut_where_it_is_said(reply, pieces):
    assert list(reply.pieces()) == pieces
    with WireServer([reply]) as server:
        assert post(server) == reply.body


def raw_answer(reply):
    """All bytes that come until the server closes."""
    with WireServer([reply]) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            pieces = iter(lambda: client.recv(65536), b"")
            return b"".join(pieces)


def test_a_broken_reply_has_no_end():
    answer = raw_answer(Reply(b"abcdef", break_at=4, drip=3))
    assert answer.endswith(b"\r\n\r\n3\r\nabc\r\n1\r\nd\r\n")
    assert raw_answer(Reply(b"abcdef", break_at=4, framing="close")).endswith(b"\r\n\r\nabcd")


def test_a_raw_reply_is_sent_as_it_is():
    assert raw_answer(Reply(raw=b"HTTP/1.0 200 OK\r\n\r\nx")) == b"HTTP/1.0 200 OK\r\n\r\nx"


def test_a_stalled_reply_ends_with_its_server():
    with WireServer([Reply(b"abcdef", stall_at=2)]) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            received = b""
            while not received.endswith(b"ab\r\n"):
                received += client.recv(65536)


def test_streams_are_written_as_the_wire_has_them():
    assert sse({"a": "é"}, "text") == b'data: {"a": "\\u00e9"}\n\ndata: text\n\ndata: [DONE]\n\n'
    assert sse(done=False) == b""
    assert chat_stream("a b", "length").count(b"data: ") == 4


def test_the_kit_needs_no_test_library():
    import subprocess

    code = "import sys, nachalnik.testing.wire; "
    code += "print({'pytest', 'hypothesis', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
