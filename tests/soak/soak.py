"""Many clients against a real `zstci serve`, for as long as one likes, and what was wrong."""

from __future__ import annotations

import gc
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.processes import NET, Api, Service, wait_until
from tests.soak.asking import Asker
from tests.soak.changing import Changer
from tests.soak.ledger import Ledger
from tests.soak.sampling import Sample, Sampler, Trend, growing, trends

__all__ = ["SETTINGS", "Outcome", "soak"]

SETTINGS = {"ZSTCI_MAX_IMAGE_BYTES": "200000", "ZSTCI_POLL_SECONDS": "0.5", "ZSTCI_TRAIN_THREADS": "1"}
# As bytes, base64 and hexadecimal digits, and as Python and C would print them.
IMAGE_MARKS = (b"\x89PNG", b"IHDR", b"iVBORw0K", b"89504e47", b"\\x89PNG", b"\\211PNG")


@dataclass(frozen=True)
class Outcome:
    seconds: float
    clients: int
    ledger: Ledger
    samples: list[Sample]
    trends: list[Trend]
    versions: int
    rounds: int
    swaps: int
    begun: float  # seconds since 1970

    @property
    def server_errors(self) -> int:
        return sum(count for status, count in self.ledger.statuses.items() if status >= 500 and status != 503)


def soak(service: Service, seconds: float, clients: int = 8, seed: int = 5) -> Outcome:
    api = service.serve(**SETTINGS)
    ledger, stop = Ledger(), threading.Event()
    changer = Changer(api.http, ledger, seed)
    changer.begin(NET)
    wait_until(lambda: api.version() == 1)
    sampler = Sampler(api.process.pid, stop)
    askers = [Asker(str(api.http.base_url), ledger, stop, seed + number) for number in range(clients)]
    begun, begun_at, rounds = time.monotonic(), time.time(), 0
    gc.disable()  # to go through all that the ledger remembers takes 200 ms in the end, which would count as latency
    for thread in (sampler, *askers):
        thread.start()
    while (rounds < 3 or time.monotonic() - begun < seconds) and len(ledger.faults) < 50:
        changer.round()
        rounds += 1
        _check_quiet(service, api, ledger)
    stop.set()
    for thread in (sampler, *askers):
        thread.join()
    gc.enable()
    lasted = time.monotonic() - begun
    versions = _versions(api)
    ledger.check_updates()
    ledger.check_answers(versions, {n: _seconds(entry["created_at"]) for n, entry in versions.items()})
    _check_processes(sampler, service, ledger)
    found = trends(sampler.samples)
    for fault in growing(found, lasted):
        ledger.fault(fault)
    answered = [answer.version for answer in sorted(ledger.answers, key=lambda answer: answer.at)]
    swaps = _swaps(api.log)
    if len(set(answered)) < 2:
        ledger.fault("all answers are of one version")
    return Outcome(lasted, clients, ledger, sampler.samples, found, len(versions), rounds, swaps, begun_at)


def _versions(api: Api) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    cursor = ""
    while True:
        page = api.get(f"/v1/versions?limit=1000{cursor}")
        found |= {entry["number"]: entry for entry in page["data"]}
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def _check_quiet(service: Service, api: Api, ledger: Ledger) -> None:
    """Nothing changes now: every update of this round has ended."""
    versions = _versions(api)
    active = next(number for number, entry in versions.items() if entry["active"])
    try:
        wait_until(lambda: api.version() == active)
    except AssertionError:
        ledger.fault(f"version {active} is active and {api.version()} answers")
    ledger.check_quiet(versions, active, api.get("/v1/classes?limit=1000")["data"])
    left = service.images_left()
    if left:
        ledger.fault(f"left behind: {left[:5]}")


def _check_processes(sampler: Sampler, service: Service, ledger: Ledger) -> None:
    for process, pids in sampler.pids().items():
        if len(pids) > 1:
            ledger.fault(f"{process} was started {len(pids)} times")
    for log in sorted(service.home.glob("log-*.txt")):
        content = log.read_bytes()
        if b"Traceback" in content:
            ledger.fault(f"{log.name}: {content[content.index(b'Traceback') :][:500]!r}")
        for mark in IMAGE_MARKS:
            if mark in content:
                ledger.fault(f"{log.name} holds an image ({mark!r})")


def _swaps(log: Path) -> int:
    """As the API process tells them."""
    return log.read_text().count("action=version_live")


def _seconds(created_at: str) -> float:
    return datetime.fromisoformat(created_at).timestamp()
