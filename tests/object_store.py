"""An S3 endpoint over real HTTP for tests: moto's server in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx

__all__ = ["BUCKET", "object_store"]

BUCKET = "zstci-test"
_PATIENCE = 60.0


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """What a process needs in its environment to reach it; the bucket is there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environment = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": url}
    environment["AWS_DEFAULT_REGION"] = "us-east-1"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        _wait_for(url, server)
        httpx.put(f"{url}/{BUCKET}").raise_for_status()
        yield environment
    finally:
        server.kill()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        assert server.poll() is None, "moto's server ended at once"
        with suppress(httpx.TransportError):
            httpx.get(url)
            return
        time.sleep(0.1)
    raise TimeoutError(f"no S3 endpoint at {url}")
