"""Connections that never come to a question: no key is needed for them, so they must cost next to nothing."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.fuzzing import resident_bytes
from tests.processes import PATIENCE, Api, Service, wait_until

pytestmark = pytest.mark.slow

SECONDS, MOST = 2.0, 20
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    home: Path = tmp_path_factory.mktemp("headers") / "home"
    service = Service(home, f"sqlite:///{home.parent / 'zstci.db'}")
    yield service.serve("api", ZSTCI_HEADER_SECONDS=str(SECONDS), ZSTCI_MAX_CONNECTIONS=str(MOST))
    service.end()


def connect(api: Api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE)


def sent_for_ever(connection: socket.socket, piece: bytes, pause: float) -> tuple[bytes, int]:
    """What came back until the connection was closed, and how many bytes had been sent by then."""
    connection.settimeout(pause or 0.001)
    answer, count, deadline = b"", 0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            more = connection.recv(65536)
            answer += more
            if not more:
                return answer, count
        except TimeoutError:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(piece)
                count += len(piece)
        except ConnectionResetError:
            return answer, count
    pytest.fail("it is never given up")


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"", b""),
        (ASK, b"x"),
        (ASK + b"X-Long: ", b"x"),
        (b"", b"\r\n"),
    ],
    ids=["nothing", "a name that drips", "a value that drips", "empty lines"],
)
def test_headers_that_drip_are_given_up(api: Api, begin: bytes, piece: bytes) -> None:
    with connect(api) as connection:
        connection.sendall(begin)
        answer, _ = sent_for_ever(connection, piece, 0.05)

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_headers_that_drip_after_an_answer_are_given_up(api: Api) -> None:
    with connect(api) as connection:
        connection.sendall(ASK + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        answer, _ = sent_for_ever(connection, b"\r\n", 0.05)

    assert b"HTTP/1.1 408 " in answer


@pytest.mark.parametrize(
    "begin",
    [
        ASK + b"X-Long: ",
        b"GET /healthz?",
        ASK + b"X-Many: 1\r\n",
        b"POST /v1/classify HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Trailer: ",
    ],
    ids=["a value", "an address", "many", "a trailer"],
)
def test_headers_without_end_are_refused_before_they_fill_the_memory(api: Api, begin: bytes) -> None:
    before = resident_bytes(api.process.pid)
    piece = b"X-Many: 1\r\n" * 1000 if b"Many" in begin else b"x" * 10_000
    with connect(api) as connection:
        connection.sendall(begin)
        answer, count = sent_for_ever(connection, piece, 0.0)

    if b"Trailer" not in begin:  # that one is answered already
        assert answer.startswith(b"HTTP/1.1 431 ") or not answer
    assert count < 16 * 2**20, "what fits into the buffers of the sockets"
    assert resident_bytes(api.process.pid) - before < 16 * 2**20


def test_more_connections_than_the_limit_are_told_to_come_back_and_then_all_is_as_before(api: Api) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(api)) for _ in range(MOST + 10)]
        answers = [connection.recv(65536) for connection in idle]  # at the latest when they have waited too long
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
    assert 10 <= len(refused) <= 11, "the test's own client may be connected"
    assert all(b"\r\nRetry-After: 1\r\n" in answer for answer in refused)
    assert all(answer.startswith((b"HTTP/1.1 503 ", b"HTTP/1.1 408 ")) for answer in answers)

    wait_until(api.answers)


def test_a_request_in_time_is_answered_however_its_headers_are_cut(api: Api) -> None:
    with connect(api) as connection:
        for letter in ASK + b"\r\n":
            connection.sendall(bytes([letter]))
        assert answered(connection).startswith(b"HTTP/1.1 200 ")
        time.sleep(SECONDS + 0.5)  # not counted while nothing comes: how long that may last is another limit
        connection.sendall(ASK + b"X-Long: " + b"x" * 50_000 + b"\r\n\r\n")
        assert answered(connection).startswith(b"HTTP/1.1 200 ")


def answered(connection: socket.socket) -> bytes:
    """Head and body, which may come one by one."""
    answer = b""
    while not answer.endswith(b"}"):
        more = connection.recv(65536)
        assert more, answer
        answer += more
    return answer


def asked(api: Api, body: bytes, headers: bytes) -> bytes:
    head = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
    return head + b"Content-Length: %d\r\n" % len(body) + headers + b"\r\n" + body


@pytest.mark.parametrize("cut", [0, 1], ids=["whole", "cut within its name"])
def test_another_protocol_is_not_spoken_and_no_body_is_a_request(api: Api, cut: int) -> None:
    """As `curl --http2` and Java's client ask."""
    body = ASK.replace(b"/healthz", b"/v1/versions") + b"\r\n"
    whole = asked(api, body, b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n")
    cut = whole.index(b"Upgrade: h2c") + 3 if cut else 0
    with connect(api) as connection:
        connection.sendall(whole[:cut])
        time.sleep(0.3 if cut else 0)
        connection.sendall(whole[cut:])
        time.sleep(0.3)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"it is none of" in answer or b"no classes yet" in answer or b"0 bytes" in answer, answer
    if not cut:
        assert b"0 bytes" not in answer


def test_a_body_that_was_refused_and_goes_on_is_not_answered_twice(api: Api) -> None:
    with connect(api) as connection:
        connection.sendall(asked(api, b"", b"").replace(b"Content-Length: 0", b"Content-Length: 300000000"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        answer, _ = sent_for_ever(connection, b"x", 0.05)

    assert b"HTTP/1.1" not in answer
