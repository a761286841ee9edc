"""The soak in short: everything but the trend of the memory, for which half a minute is too little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Service
from tests.soak.report import draw, table
from tests.soak.sampling import Sample, growing, trends
from tests.soak.soak import soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "home", f"sqlite:///{tmp_path / 'zstci.db'}")
    yield service
    service.end()


def test_half_a_minute_of_everything_at_once_loses_nothing_and_breaks_nothing(service: Service, tmp_path: Path) -> None:
    outcome = soak(service, seconds=30, clients=6)
    print(f"\n{table(outcome)}")

    assert outcome.ledger.faults == []
    assert outcome.server_errors == 0
    assert outcome.ledger.statuses[200] > 100
    assert outcome.ledger.statuses[422] > 0
    assert outcome.versions >= 3
    assert outcome.swaps >= 3
    assert outcome.rounds >= 3
    assert outcome.ledger.did["updates: merge"] > 0
    assert {trend.process for trend in outcome.trends} == {"api", "worker"}
    draw(outcome, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("leak", "step", "grows"),
    [(0.0, 0.0, False), (100.0, 0.0, False), (424.0, 0.0, True), (0.0, 150.0, False)],
    ids=["flat", "a little", "a leak", "a library loaded late"],
)
def test_memory_that_grows_is_a_fault_and_an_allocators_waves_are_none(leak: float, step: float, grows: bool) -> None:
    """Ten minutes of samples; `leak` in MiB an hour."""
    samples = [
        Sample(at, "api", 1, 400 + leak * at / 3600 + 10 * (at % 60) / 60 + (step if at > 200 else 0.0), 40)
        for at in range(600)
    ]
    found = growing(trends(samples), 600)

    assert bool(found) is grows, found
    assert growing(trends(samples), 30) == [], "too short to tell"
