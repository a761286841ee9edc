"""SIGTERM: what is in flight is answered, and then the process is gone within its grace time."""

from __future__ import annotations

import json
import signal
import socket
import time

import httpx
import pytest

from tests.faults.conftest import Tell
from tests.pictures import archive, picture
from tests.processes import NET, PATIENCE, Api, Service, wait_until

pytestmark = pytest.mark.slow

GRACE = 20.0  # the service's own is 8 s; more for a machine that has other things to do


def begin(api: Api, length: int, path: str = "/v1/classify", kind: str = "image/png") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
    return connection


def whole_answer(connection: socket.socket, dripping: bool = False) -> bytes:
    """To the end of the connection; meanwhile a byte of the body now and then, or none."""
    answer = b""
    connection.settimeout(0.3 if dripping else PATIENCE)
    while True:
        try:
            more = connection.recv(65536)
        except TimeoutError:
            assert dripping
            connection.sendall(b"x")
            continue
        if not more:
            return answer
        answer += more


def assert_refused(answer: bytes, api: Api) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503"), answer
    assert b"application/problem+json" in head
    assert b"retry-after: 5" in head.lower()
    assert json.loads(body)["code"] == "shutting_down"
    assert api.process.returncode in (0, -signal.SIGTERM)  # uvicorn sends it on to itself when all is done
    log = api.log.read_text()
    assert "Traceback" not in log
    assert "Cancel" not in log, "uvicorn had to cut it off"


def test_a_slow_request_is_answered_before_the_process_ends(sqlite_service: Service, tell: Tell) -> None:
    api, worker = sqlite_service.serve("api"), sqlite_service.worker()
    api.learn(archive([0, 1], count=4), **NET)
    worker.terminate()
    body = picture(1, 50)
    with begin(api, len(body)) as slow:
        slow.sendall(body[:50])
        time.sleep(0.5)
        api.process.send_signal(signal.SIGTERM)
        time.sleep(1.5)
        slow.sendall(body[50:])
        answer = b"".join(iter(lambda: slow.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert b'"version":1' in answer
    api.process.wait(GRACE)
    assert api.process.returncode in (0, -signal.SIGTERM)
    tell("API: SIGTERM with a slow request in flight", "the request is answered 200, then the process ends")


@pytest.mark.parametrize("dripping", [False, True], ids=["stalled", "dripping"])
def test_a_request_that_never_ends_is_answered_and_does_not_hold_up_the_end(
    sqlite_service: Service, dripping: bool, tell: Tell
) -> None:
    api = sqlite_service.serve("api")
    with begin(api, 1000) as endless:
        endless.sendall(b"x")
        time.sleep(0.5)
        api.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        answer = whole_answer(endless, dripping)
        api.process.wait(GRACE)
    seconds = time.monotonic() - started
    assert_refused(answer, api)
    how = "a body that " + ("drips" if dripping else "never ends")
    tell(f"API: SIGTERM with {how}", f"503 `shutting_down`; the process ends after {seconds:.0f} s (grace time 8 s)")


def test_an_upload_that_was_coming_in_is_answered_and_gone_with_the_process(
    sqlite_service: Service, tell: Tell
) -> None:
    api = sqlite_service.serve("api")
    sent = httpx.Request("POST", api.http.base_url, files={"archive": ("a.tar", archive([0, 1], 200, size=32))})
    body = sent.read()
    with begin(api, len(body), "/v1/updates", sent.headers["Content-Type"]) as half:
        half.sendall(body[: len(body) // 2])
        wait_until(lambda: [path for path in sqlite_service.images_left() if path.suffix != ".lock"])
        api.process.send_signal(signal.SIGTERM)
        answer = whole_answer(half)
        api.process.wait(GRACE)
    assert_refused(answer, api)
    assert list((sqlite_service.home / "work").iterdir()) == []

    again = sqlite_service.serve("api")
    assert again.get("/v1/updates")["data"] == []
    tell(
        "API: SIGTERM during an upload", "503 `shutting_down` within the grace time, and nothing of the upload is left"
    )
