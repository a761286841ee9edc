"""Ten times more queries at once than the queue holds: the rest is told so, and afterwards all is as before."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.hostile.fuzzing import resident_bytes
from tests.pictures import archive, picture
from tests.processes import NET, Api, Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

QUEUE = 8
CLIENTS = 10 * QUEUE
EACH = 10  # queries of each client
SETTINGS = {"ZSTCI_MAX_QUEUE": str(QUEUE), "ZSTCI_SERVE_THREADS": "1"}


@dataclass
class Answers:
    statuses: list[int] = field(default_factory=list)
    refusals: list[httpx.Response] = field(default_factory=list)
    waits: dict[int, list[float]] = field(default_factory=dict)  # seconds by status
    highest_queue: int = 0


def overload(folder: Path) -> str:
    """The figures, as a sentence; `make soak` writes them down. Raises where something is not as it must be."""
    service = Service(folder / "home", f"sqlite:///{folder / 'zstci.db'}")
    try:
        api = service.serve("api", **SETTINGS)
        service.worker()
        api.learn(archive([0, 1], count=4), **NET)
        return _overloaded(api)
    finally:
        service.end()


def photo() -> bytes:
    """About 400 kB, and some milliseconds to decode: a place in the queue is worth something."""
    pixels = np.random.default_rng(5).integers(0, 256, (600, 800, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def test_ten_times_too_many_queries_are_refused_quickly_and_leave_no_mark(tmp_path: Path) -> None:
    print(f"\noverload: {overload(tmp_path)}")


def _overloaded(api: Api) -> str:
    content = photo()
    asyncio.run(_storm(api, content, 1))  # what is allocated once
    before = resident_bytes(api.process.pid)

    answers = asyncio.run(_storm(api, content, EACH))

    served, refused = answers.waits[200], answers.waits[503]
    growth = resident_bytes(api.process.pid) - before
    assert set(answers.statuses) == {200, 503}
    assert len(answers.statuses) == CLIENTS * EACH
    for refusal in answers.refusals:
        assert int(refusal.headers["Retry-After"]) >= 1
        assert refusal.json()["code"] == "busy"
    assert answers.highest_queue <= QUEUE
    assert np.median(refused) < np.percentile(served, 90), "who is refused must not have waited for it"
    # The bodies that wait, as bytes and as pixels, and the buffers of the sockets.
    assert growth < CLIENTS * 4 * len(content) + 64 * 2**20
    for _ in range(20):
        assert api.http.post("/v1/classify", content=picture(0)).status_code == 200
    assert _in_flight(api.http.get("/metrics").text) == 0
    assert "Traceback" not in api.log.read_text()
    return (
        f"{len(answers.statuses)} queries by {CLIENTS} clients, room for {QUEUE}: {len(served)} served, {len(refused)} "
        f"refused (503 + Retry-After); median seconds {np.median(served):.3f}, {np.median(refused):.3f}; queue up to "
        f"{answers.highest_queue}; memory {growth / 2**20:+.1f} MiB; afterwards all is answered."
    )


async def _storm(api: Api, content: bytes, each: int) -> Answers:
    answers, over = Answers(), asyncio.Event()
    limits = httpx.Limits(max_connections=CLIENTS + 1)
    async with httpx.AsyncClient(base_url=api.http.base_url, timeout=60, limits=limits) as http:
        watching = asyncio.create_task(_watch(http, answers, over))
        await asyncio.gather(*(_ask(http, content, each, answers) for _ in range(CLIENTS)))
        over.set()
        await watching
    return answers


async def _ask(http: httpx.AsyncClient, content: bytes, each: int, answers: Answers) -> None:
    clock = asyncio.get_running_loop().time
    for _ in range(each):
        begun = clock()
        response = await http.post("/v1/classify", content=content)
        answers.statuses.append(response.status_code)
        answers.waits.setdefault(response.status_code, []).append(clock() - begun)
        if response.status_code != 200:
            answers.refusals.append(response)


async def _watch(http: httpx.AsyncClient, answers: Answers, over: asyncio.Event) -> None:
    while not over.is_set():
        response = await http.get("/metrics")
        answers.highest_queue = max(answers.highest_queue, _in_flight(response.text))
        await asyncio.sleep(0.02)


def _in_flight(metrics: str) -> int:
    [line] = [line for line in metrics.splitlines() if line.startswith("zstci_queries_in_flight ")]
    return int(float(line.split()[1]))
