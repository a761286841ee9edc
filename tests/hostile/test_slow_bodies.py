"""A client that sends a byte now and then holds a place that others wait for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import PATIENCE, Api, Service, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home: Path = tmp_path_factory.mktemp("slow") / "home"
    service = Service(home, f"sqlite:///{home.parent / 'zstci.db'}")
    yield service
    service.end()


@pytest.fixture(scope="module")
def api(service: Service) -> Api:
    return service.serve("api", ZSTCI_QUERY_BODY_SECONDS="2", ZSTCI_UPLOAD_SECONDS="2")


def dripped(api: Api, path: str, kind: str, begin: bytes) -> bytes:
    """The answer to a body of which a byte comes every tenth of a second: no pause is ever long."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n"
    deadline = time.monotonic() + PATIENCE
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        connection.sendall(head.encode() + begin)
        connection.settimeout(0.1)
        answer = b""
        while not answer.endswith(b"}"):
            assert time.monotonic() < deadline, "it is never given up"
            try:
                answer += connection.recv(65536)
            except TimeoutError:
                connection.sendall(b"x")
    return answer


@pytest.mark.parametrize(
    ("path", "kind", "begin"),
    [
        ("/v1/classify", "image/png", b""),
        ("/v1/classify", "multipart/form-data; boundary=b", b"--b\r\n"),
        ("/v1/updates", "multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'),
    ],
)
def test_a_body_that_drips_is_given_up(service: Service, api: Api, path: str, kind: str, begin: bytes) -> None:
    answer = dripped(api, path, kind, begin)

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer
    wait_until(lambda: service.images_left() == [])
