"""A service of the demo's own: `zstci serve` on a free port, on a home that nobody else has."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.cli.ports import free_port
from service.client import Client
from service.errors import ServiceUnreachable

__all__ = ["own_service"]

_START_SECONDS = 120.0
_END_SECONDS = 15.0
_LOG_LINES = 8


@contextmanager
def own_service(home: Path) -> Iterator[str]:
    """Its address, as soon as it answers. It ends with the block."""
    home.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), home / "log.txt"
    with log.open("w") as file:  # a file, because nobody reads a pipe that fills up
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--with-parent", "--host", "127.0.0.1", "--port", str(port)],
            env=_environment(home),
            stdin=subprocess.PIPE,  # never written to: it ends when we do, even if we are killed
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C is for the demo, which ends its service in an orderly way
        )
    try:
        _wait(process, url := f"http://127.0.0.1:{port}", log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # its children see that, and end too
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _environment(home: Path) -> dict[str, str]:
    """The user's settings are for the user's service."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("ZSTCI_")}
    return {**others, "ZSTCI_HOME": str(home), "ZSTCI_POLL_SECONDS": "0.2"}


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with Client(url, timeout=5, tries=1) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.ready()
            except ServiceUnreachable:
                time.sleep(0.1)
            else:
                return
    last = " | ".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]) or "nothing"
    raise ServiceUnreachable(
        f"the demo's own service did not start; zstci doctor may say why; its log ends with: {last}"
    )
