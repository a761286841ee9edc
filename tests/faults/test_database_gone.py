"""The database goes away for a while and comes back: queries do not notice, /readyz does, updates go on afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.databases import postgres_server
from tests.faults.conftest import Tell
from tests.pictures import archive, picture
from tests.processes import LONG, NET, Api, Service, wait_until

pytestmark = pytest.mark.slow

SECONDS = [4.0, pytest.param(30.0, marks=pytest.mark.faults)]


def assert_survives(
    service: Service, leave: Callable[[], object], come_back: Callable[[], object], seconds: float
) -> int:
    """The number of queries that were answered meanwhile."""
    api, worker = service.serve("api"), service.worker()
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")

    leave()
    answered = _ask_without(api, seconds)
    refused = api.http.post("/v1/updates", files={"archive": ("a.tar", archive([4], count=4))})
    assert (refused.status_code, refused.json()["code"]) == (503, "database_unreachable"), refused.text
    assert "Retry-After" in refused.headers
    assert "zstci_database_up 0.0" in api.http.get("/metrics").text
    assert worker.poll() is None, "the worker waits for it"

    come_back()
    wait_until(lambda: api.http.get("/readyz").status_code == 200)
    entry = api.ended(update)
    assert (entry["state"], entry["version"]) == ("succeeded", 2), entry
    api.learn(archive([4], count=4))
    assert worker.poll() is None
    assert api.process.poll() is None
    assert service.images_left() == []
    return answered


def _ask_without(api: Api, seconds: float) -> int:
    wait_until(lambda: api.http.get("/readyz").status_code == 503)
    until, answered = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        [answer] = api.post("/v1/classify", 200, content=picture(1, 50))["data"]
        assert answer["version"] == 1
        answered += 1
        ready = api.get("/readyz", 503)
        assert not ready["checks"]["database"]["ok"]
        assert ready["checks"]["model"]["ok"]
        assert api.http.get("/healthz").status_code == 200
        time.sleep(0.1)
    return answered


@contextmanager
def service_on(home: Path, url: str) -> Iterator[Service]:
    service = Service(home, url)
    try:
        if url.startswith("postgresql"):
            service.run("migrate")
        yield service
    finally:
        service.end()


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_postgres_that_is_stopped_and_started(tmp_path: Path, seconds: float, tell: Tell) -> None:
    with (
        postgres_server() as server,  # its own: the others need theirs
        service_on(tmp_path / "home", server.get_uri()) as service,
    ):
        try:
            answered = assert_survives(service, server.stop, server.ensure_postgres_running, seconds)
        finally:
            server.ensure_postgres_running()
    tell(
        f"database: Postgres stopped for {seconds:.0f} s",
        f"{answered} queries answered, none failed; /readyz 503; the update at work and the next one succeed",
    )


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_sqlite_file_that_is_moved_away_and_back(tmp_path: Path, sqlite_url: str, seconds: float, tell: Tell) -> None:
    folder = Path(sqlite_url.removeprefix("sqlite:///")).parent
    away = folder.with_name("away")
    with service_on(tmp_path / "home", sqlite_url) as service:
        answered = assert_survives(service, lambda: folder.rename(away), lambda: away.rename(folder), seconds)
    tell(
        f"database: SQLite file gone for {seconds:.0f} s",
        f"{answered} queries answered, none failed; /readyz 503; the update at work and the next one succeed",
    )
