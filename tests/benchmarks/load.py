"""The client of the serving benchmark: keep-alive connections that ask without a pause, in a process of their own.

It needs nothing but the standard library, so it starts in no time and leaves the cores to the server. Every server gets
the same bytes by the same code. The CPU seconds of the server are read where the window begins and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles

__all__ = ["BOUNDARY", "Load", "Window", "cpu_seconds", "load", "loading", "percentile", "process_tree", "request"]

BOUNDARY = "zstci-benchmark"
_TIMEOUT = 60.0
_HOST = "127.0.0.1"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    port: int
    clients: int
    pid: int  # the server's, to charge it and its children
    seconds: float | None = None  # None: until told to stop


@dataclass
class Window:
    """One entry of each list is one request. Those on their way when the time is up are waited for: their CPU seconds
    are in `cpu`, so they are in the count that it is divided by, but not in the rate."""

    begun: float = 0.0  # on the clock that all processes of the machine share
    seconds: float = 0.0
    cpu: float = 0.0
    ended: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # 0: no answer at all
    versions: list[int] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(status != 200 for status in self.statuses)

    @property
    def rate(self) -> float:
        """Answers per second."""
        deadline = self.begun + self.seconds
        good = sum(s == 200 and at <= deadline for s, at in zip(self.statuses, self.ended, strict=True))
        return good / self.seconds

    @property
    def cpu_each(self) -> float:
        return self.cpu / max(1, len(self.statuses) - self.failed)

    def between(self, begin: float, end: float) -> Window:
        """The requests that ended then, as a window of their own, without CPU seconds."""
        chosen = [i for i, at in enumerate(self.ended) if begin <= at < end]
        picked = ([values[i] for i in chosen] for values in (self.ended, self.latencies))
        ended, latencies = picked
        statuses, versions = ([values[i] for i in chosen] for values in (self.statuses, self.versions))
        return Window(begin, end - begin, 0.0, ended, latencies, statuses, versions)


def percentile(values: list[float], share: float) -> float:
    if len(values) < 2:
        return values[0] if values else float("nan")
    return quantiles(values, n=1000, method="inclusive")[round(1000 * share) - 1]


def request(path: str, content: bytes, *, multipart: bool, kind: str = "image/jpeg", name: str = "files") -> bytes:
    """A whole HTTP/1.1 request; `kind` is the type of a raw body, `name` the field of a form."""
    if multipart:
        head = (
            f'Content-Disposition: form-data; name="{name}"; filename="photo.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
        )
        content = f"--{BOUNDARY}\r\n{head}".encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
        kind = f"multipart/form-data; boundary={BOUNDARY}"
    lines = f"POST {path} HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return lines.encode() + content


def load(what: Load, message: bytes) -> Window:
    with loading(what, message) as window:
        pass
    return window


@contextmanager
def loading(what: Load, message: bytes) -> Iterator[Window]:
    """Clients ask while the body runs, and until their seconds are over; the window is filled at the end."""
    window = Window()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(what) | {"bytes": len(message)}).encode() + b"\n" + message)
        process.stdin.flush()
        try:
            yield window
            output, _ = process.communicate()  # closes its standard input, which is the sign to stop
        except BaseException:
            process.kill()
            raise
    vars(window).update(json.loads(output))


def process_tree(pid: int) -> list[int]:
    """The process and all below it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(_stat(int(entry.name))[1])
        except OSError:
            continue  # it ended meanwhile
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the process, of all below it, and of children of theirs that have ended."""
    total = 0
    for one in process_tree(pid):
        try:
            total += sum(int(value) for value in _stat(one)[11:15])
        except OSError:
            continue
    return total / _TICKS


def _stat(pid: int) -> list[str]:
    """From the third field on: the second one, the name, may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


class _Client:
    """One connection, opened again whenever it breaks."""

    def __init__(self, port: int, message: bytes, window: Window) -> None:
        self._port, self._message, self._window = port, message, window
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> None:
        begun, status, version = time.monotonic(), 0, 0
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, version = await self._answer()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self._streams = None
        ended = time.monotonic()
        window = self._window
        window.ended.append(ended)
        window.latencies.append(ended - begun)
        window.statuses.append(status)
        window.versions.append(version)

    async def _answer(self) -> tuple[int, int]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(_HOST, self._port)
        reader, writer = self._streams
        writer.write(self._message)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"transfer-encoding: chunked" in head:
            await reader.readuntil(b"0\r\n\r\n")  # no answer here holds this within
        else:
            await reader.readexactly(_number(head, b"content-length: "))
        return int(head[9:12]), _number(head, b"x-model-version: ")


def _number(head: bytes, name: bytes) -> int:
    _, _, rest = head.partition(name)
    return int(rest.partition(b"\r")[0] or 0)


async def _run(what: Load, message: bytes) -> Window:
    window, stop = Window(), asyncio.Event()
    clients = [_Client(what.port, message, window) for _ in range(what.clients)]
    await asyncio.gather(*(client.ask() for client in clients))  # connected, and the server is warm
    for values in (window.ended, window.latencies, window.statuses, window.versions):
        values.clear()
    if what.seconds is None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    else:
        asyncio.get_running_loop().call_later(what.seconds, stop.set)

    async def keep_asking(client: _Client) -> None:
        while not stop.is_set():
            await client.ask()

    before, window.begun = cpu_seconds(what.pid), time.monotonic()
    asking = asyncio.gather(*(keep_asking(client) for client in clients))
    await stop.wait()
    window.seconds = time.monotonic() - window.begun
    await asking
    window.cpu = cpu_seconds(what.pid) - before
    return window


def main() -> None:
    about = json.loads(sys.stdin.buffer.readline())
    message = sys.stdin.buffer.read(about.pop("bytes"))
    json.dump(asdict(asyncio.run(_run(Load(**about), message))), sys.stdout)


if __name__ == "__main__":
    main()
