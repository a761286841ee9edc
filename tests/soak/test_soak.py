"""The soak in short: everything but the trend of the memory, for which half a minute is too little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Service
from tests.soak.report import draw, table
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
    assert {trend.process for trend in outcome.trends} == {"api", "worker"}
    files = {trend.process: trend for trend in outcome.trends if trend.unit == "files"}
    assert files["api"].highest < 200
    assert files["worker"].highest < 200
    draw(outcome, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 10_000
