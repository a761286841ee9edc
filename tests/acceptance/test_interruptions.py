"""What is cut in the middle: an instant update, a worker that never returns, streams and bodies that do not end."""

from __future__ import annotations

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.pictures import archive, picture
from tests.processes import LONG, NET, PATIENCE, Service, children, wait_until

pytestmark = pytest.mark.slow


def test_an_instant_update_whose_worker_dies_publishes_nothing_twice(service: Service) -> None:
    api = service.serve()
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), instant="true", **LONG)
    wait_until(lambda: api.version() == 2)
    os.kill(children(api.process.pid)["worker"], signal.SIGKILL)
    known = api.post("/v1/classify", 200, content=picture(3, 50))["data"][0]
    assert known["version"] == 2

    entry = api.ended(update)
    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", 2, 3)
    wait_until(lambda: api.version() == 3)
    assert len(api.get("/v1/versions")["data"]) == 3
    names = [each["name"] for each in api.get("/v1/classes")["data"]]
    assert sorted(names) == ["digit-0", "digit-1", "digit-2", "digit-3"]
    assert service.images_left() == []


def test_another_worker_takes_over_from_one_that_never_returns(service: Service) -> None:
    short = {"ZSTCI_LEASE_SECONDS": "6"}
    api, lost = service.serve("api"), service.worker(ZSTCI_WORKER_ID="lost", **short)
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    lost.kill()
    lost.wait()

    service.worker(ZSTCI_WORKER_ID="found", **short)
    entry = api.ended(update)
    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", 2, 2)
    assert service.images_left() == []


def test_an_open_event_stream_does_not_hold_up_the_end(sqlite_service: Service) -> None:
    api = sqlite_service.serve("api")
    update = api.add(archive([0, 1], count=4), **NET)  # nobody works on it, so the stream stays open
    with api.http.stream("GET", f"/v1/updates/{update}/events") as events:
        lines = events.iter_lines()
        assert next(lines)
        api.process.send_signal(signal.SIGTERM)
        api.process.wait(PATIENCE)
        for _ in lines:  # to a proper end; a stream that was torn off raises
            pass


def test_a_body_that_stops_coming_is_given_up_with_a_reason(sqlite_service: Service) -> None:
    api = sqlite_service.serve("api", ZSTCI_BODY_SECONDS="1")
    head = "POST /v1/updates HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE) as connection:
        connection.sendall(f"{head}Content-Length: 100000\r\n\r\n--b\r\n".encode())
        answer = b""
        while not answer.endswith(b"}"):
            answer += connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer
    wait_until(lambda: sqlite_service.images_left() == [])
    assert api.get("/v1/updates")["data"] == []


def test_one_key_sent_many_times_at_once_is_one_update(service: Service) -> None:
    api = service.serve("api")
    other = service.serve("api")
    sent = archive([0, 1], count=4)

    def send(number: int) -> httpx.Response:
        return (api, other)[number % 2].http.post(
            "/v1/updates",
            files={"archive": ("classes.tar", sent)},
            data=NET,
            headers={"Idempotency-Key": "the same"},
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))

    assert {answer.status_code for answer in answers} <= {200, 202}, [answer.text for answer in answers]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(api.get("/v1/updates")["data"]) == 1
