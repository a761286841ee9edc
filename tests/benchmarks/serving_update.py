"""What clients feel of an update that trains, and of the swap at its end or by hand."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from service.client import Client
from tests.benchmarks.inputs import jpegs
from tests.benchmarks.load import Load, Window, loading, percentile
from tests.benchmarks.peers.servers import messages
from tests.processes import Api, Service, wait_until

__all__ = ["measure_update"]

_CLIENTS = 8
_CALM_SECONDS = 5.0
_AROUND = 2.0  # seconds before and after the first answer of a new version: its loading, and the end of the old one
_IMAGES = 24  # of each of four new classes


def measure_update(
    service: Service, photo: Path, options: argparse.Namespace, on_lap: Callable[[], object]
) -> dict[str, Any]:
    api = service.serve("serve", ZSTCI_SERVE_THREADS="0")  # as anybody starts it
    wait_until(api.version)
    message = messages("/v1/classify", photo)["raw"]
    laps = []
    for number in range(options.rounds):
        laps.append(_round(api, photo.parent / f"new-{number}", number, message))
        on_lap()
    swaps = [_swap_by_hand(api, message) for _ in range(options.rounds)]
    return {"laps": laps, "swaps": swaps, "medians": _medians(laps, swaps)}


def _round(api: Api, folder: Path, number: int, message: bytes) -> dict[str, Any]:
    """Calm, an update from its POST until it is live, and calm again, with the same clients throughout."""
    images = [Path(path) for path in jpegs(folder, 4 * _IMAGES).paths]
    classes = {f"new {number}-{c}": images[c * _IMAGES : (c + 1) * _IMAGES] for c in range(4)}
    with Client(f"http://127.0.0.1:{api.port}") as client, loading(_load(api), message) as window:
        time.sleep(_CALM_SECONDS)
        update = client.add(classes, regularizer="lwf", translator="zstci")
        posted = time.monotonic()
        entry = update.wait()
        wait_until(lambda: api.version() == entry.version)
        live = time.monotonic()
        time.sleep(_CALM_SECONDS / 2)
    swapped = _first_of(window, entry.version or 0)
    return {
        "calm": _figures(window.between(window.begun, window.begun + _CALM_SECONDS)),
        "update": _figures(window.between(posted, swapped - _AROUND)),
        "swap": _figures(window.between(swapped - _AROUND, swapped + _AROUND)),
        "update_seconds": live - posted,
        "failed": window.failed,
        "queries": len(window.statuses),
    }


def _swap_by_hand(api: Api, message: bytes) -> dict[str, Any]:
    """Back to a version that is not loaded any more, so that it is read, checked and warmed up; nothing else runs."""
    newest = api.version() or 0
    other = newest - 2 if newest > 3 else newest + 2
    with loading(_load(api), message) as window:
        time.sleep(_CALM_SECONDS)
        api.post(f"/v1/versions/{other}/activate", 200)
        wait_until(lambda: api.version() == other)
        time.sleep(_AROUND)
    swapped = _first_of(window, other)
    return {
        "calm": _figures(window.between(window.begun, window.begun + _CALM_SECONDS)),
        "swap": _figures(window.between(swapped - _AROUND, swapped + _AROUND)),
        "failed": window.failed,
        "queries": len(window.statuses),
    }


def _load(api: Api) -> Load:
    return Load(api.port, _CLIENTS, api.process.pid)


def _first_of(window: Window, version: int) -> float:
    return min(at for at, answered in zip(window.ended, window.versions, strict=True) if answered == version)


def _figures(window: Window) -> dict[str, float]:
    return {
        "rate": window.rate,
        "p50": percentile(window.latencies, 0.5),
        "p99": percentile(window.latencies, 0.99),
        "failed": window.failed,
        "queries": len(window.statuses),
    }


def _medians(laps: list[dict[str, Any]], swaps: list[dict[str, Any]]) -> dict[str, float]:
    return {
        "update_seconds": median(lap["update_seconds"] for lap in laps),
        "throughput_during_update": median(lap["update"]["rate"] / lap["calm"]["rate"] for lap in laps),
        "p99_during_update": median(lap["update"]["p99"] / lap["calm"]["p99"] for lap in laps),
        "p99_across_swap": median(lap["swap"]["p99"] / lap["calm"]["p99"] for lap in laps),
        "p99_across_swap_by_hand": median(swap["swap"]["p99"] / swap["calm"]["p99"] for swap in swaps),
        "failed": sum(one["failed"] for one in [*laps, *swaps]),
        "queries": sum(one["queries"] for one in [*laps, *swaps]),
    }
