"""Answers per second, latency and CPU seconds of ours, of the peers and of the bare engine, in turns."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from service.serving.pool import cores
from tests.benchmarks.load import Window, percentile
from tests.benchmarks.peers.servers import KINDS, RawEngine, Server, start_ours
from tests.benchmarks.peers.starting import best_of_peers, hand_over
from tests.processes import Service

__all__ = ["CLIENTS", "measure_throughput"]

CLIENTS = (1, 8, 32)
_ALONE_SECONDS = 2.0  # of a lap of one client, for which there is no target
_SAME = 1e-3  # distances of two programs that compute the same


def measure_throughput(
    service: Service, photo: Path, options: argparse.Namespace, on_lap: Callable[[], object]
) -> dict[str, Any]:
    [bundle] = [path.parent for path in (service.home / "files" / "versions").rglob("version.json")]
    handover = hand_over(bundle, photo, service.home.parent / "handover")
    servers, trials = [start_ours(service, handover)], {}
    engine = RawEngine(handover)
    try:
        servers[0].sleep()
        for server, tried in best_of_peers(handover):
            servers.append(server)
            trials[server.name] = tried
        _check_that_all_say_the_same(servers)
        rows = {
            kind: {clients: _race(servers, engine, kind, clients, options, on_lap) for clients in CLIENTS}
            for kind in KINDS
        }
    finally:
        engine.end()
        for server in servers:
            server.end()
    return {"rows": rows, "trials": trials, "configurations": {one.name: one.configuration for one in servers}}


def _check_that_all_say_the_same(servers: list[Server]) -> None:
    for kind in KINDS:
        [expected, *others] = [server.answer(kind)["data"][0]["predictions"] for server in servers]
        for server, found in zip(servers[1:], others, strict=True):
            assert [one["name"] for one in found] == [one["name"] for one in expected], server.name
            for one, other in zip(found, expected, strict=True):
                assert abs(one["distance"] - other["distance"]) < _SAME, server.name


def _race(
    servers: list[Server],
    engine: RawEngine,
    kind: str,
    clients: int,
    options: argparse.Namespace,
    on_lap: Callable[[], object],
) -> dict[str, dict[str, float]]:
    """One lap of each in every round, in an order that turns round each time; the first round is not counted."""
    laps: dict[str, list[dict[str, float]]] = {"raw engine": [], **{server.name: [] for server in servers}}
    order: list[Server | RawEngine] = [engine, *servers]
    for number in range(options.rounds + 1):
        seconds = (min(options.seconds, _ALONE_SECONDS) if clients == 1 else options.seconds) if number else 0.5
        for one in order:
            name, lap = _lap(one, kind, clients, seconds)
            if number:
                laps[name].append(lap)
            on_lap()
        order.reverse()
    limits = laps["raw engine"]
    return {name: _medians(found, limits) for name, found in laps.items()}


def _lap(one: Server | RawEngine, kind: str, clients: int, seconds: float) -> tuple[str, dict[str, float]]:
    if isinstance(one, RawEngine):
        rate, cpu = one.measure(min(clients, cores()), seconds)
        return "raw engine", {"rate": rate, "cpu": cpu, "failed": 0}
    return one.name, _figures(one.measure(kind, clients, seconds))


def _figures(window: Window) -> dict[str, float]:
    return {
        "rate": window.rate,
        "cpu": window.cpu_each,
        "failed": window.failed,
        "p50": percentile(window.latencies, 0.5),
        "p99": percentile(window.latencies, 0.99),
    }


def _medians(laps: list[dict[str, float]], limits: list[dict[str, float]]) -> dict[str, float]:
    """Ratios are taken within a round: what slows the machine then slows both."""
    found = {name: median(lap[name] for lap in laps) for name in laps[0] if name != "failed"}
    found["failed"] = sum(lap["failed"] for lap in laps)
    pairs = list(zip(laps, limits, strict=True))
    found["efficiency"] = median(limit["cpu"] / lap["cpu"] for lap, limit in pairs)
    found["of_limit"] = median(lap["rate"] / limit["rate"] for lap, limit in pairs)
    if "p99" in laps[0]:
        found["tail"] = median(lap["p99"] / lap["p50"] for lap in laps)
    return found
