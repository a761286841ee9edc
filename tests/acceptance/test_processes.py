"""Processes that die, start late or must not start at all."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.pictures import archive, picture
from tests.processes import LONG, NET, Service, children, wait_until

pytestmark = pytest.mark.slow


def test_a_worker_that_is_killed_at_work_is_started_again_and_ends_the_update(service: Service) -> None:
    api = service.serve()
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    os.kill(children(api.process.pid)["worker"], signal.SIGKILL)

    answer = api.post("/v1/classify", 200, content=picture(1, 50))
    assert answer["data"][0]["version"] == 1
    entry = api.ended(update)

    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", 2, 2)
    assert service.images_left() == []
    assert len(api.get("/v1/versions")["data"]) == 2


def test_a_worker_steps_back_behind_queries(sqlite_service: Service) -> None:
    api = sqlite_service.serve()
    below = children(api.process.pid)

    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, below["worker"]) == os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert os.getpriority(os.PRIO_PROCESS, below["api"]) == os.getpriority(os.PRIO_PROCESS, 0)


def test_updates_wait_for_a_worker_and_survive_the_api(service: Service) -> None:
    api = service.serve("api")
    first, second = (
        api.add(archive([0, 1], count=4), **NET),
        api.add(archive([2], count=4), **NET),
    )
    api.process.kill()
    api.process.wait()

    again = service.serve("api")
    service.worker()
    for update in (first, second):
        assert again.ended(update)["state"] == "succeeded"
    wait_until(lambda: again.version() == 2)
    assert len(again.get("/v1/classes")["data"]) == 3


def test_a_worker_that_is_asked_to_stop_leaves_its_update_for_the_next_one(service: Service) -> None:
    api, worker = service.serve("api"), service.worker()
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert api.get(f"/v1/updates/{update}")["state"] == "running"

    service.worker()
    assert api.ended(update)["state"] == "succeeded"


def test_an_upload_that_is_cut_off_leaves_nothing_behind(sqlite_service: Service) -> None:
    api = sqlite_service.serve("api")
    whole = httpx.Request("POST", api.http.base_url, files={"archive": ("a.tar", archive([0, 1]))})
    body = whole.read()

    def half():
        yield body[: len(body) // 2]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        api.http.post("/v1/updates", content=half(), headers={"Content-Type": whole.headers["Content-Type"]})

    wait_until(lambda: sqlite_service.images_left() == [])
    assert api.get("/v1/updates")["data"] == []


def test_what_a_killed_api_process_was_receiving_is_cleared_by_the_next(sqlite_service: Service) -> None:
    api = sqlite_service.serve("api")
    begun = subprocess.Popen(
        ["curl", "-s", "--limit-rate", "20k", "-F", "archive=@-", f"{api.http.base_url}/v1/updates"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert begun.stdin is not None
    begun.stdin.write(archive([0, 1], count=100, size=64))
    begun.stdin.close()
    wait_until(sqlite_service.images_left)
    api.process.kill()
    api.process.wait()
    begun.wait()
    assert sqlite_service.images_left()

    sqlite_service.serve("api")
    assert sqlite_service.images_left() == []


def test_a_taken_port_ends_the_service_with_a_reason(sqlite_service: Service) -> None:
    api = sqlite_service.serve("api")
    _, complaint = sqlite_service.run("serve", "--port", api.port, code=3)

    assert "address already in use" in complaint


def test_a_postgres_without_our_tables_is_refused_with_the_command(tmp_path: Path, postgres_url: str) -> None:
    service = Service(tmp_path / "home", postgres_url)
    for command in ("serve", "api", "worker"):
        _, complaint = service.run(command, code=3)
        assert "zstci migrate" in complaint
    out, _ = service.run("migrate")
    assert "postgresql" in out
    service.run("migrate")  # again is nothing
    assert service.serve("api").get("/readyz", 503)["checks"]["database"]["ok"]
    service.end()


def test_the_children_of_a_killed_supervisor_end_and_its_successor_takes_over(sqlite_service: Service) -> None:
    api = sqlite_service.serve()
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    orphans = children(api.process.pid)
    api.process.kill()
    api.process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans.values()))

    again = sqlite_service.serve()
    assert again.version() == 1
    assert again.ended(update)["state"] == "succeeded"


def test_a_second_worker_of_the_same_name_is_refused_and_one_of_another_name_is_not(service: Service) -> None:
    api, _ = service.serve("api"), service.worker()
    api.learn(archive([0, 1], count=4), **NET)

    _, complaint = service.run("worker", code=3)
    assert "ZSTCI_WORKER_ID" in complaint
    service.worker(ZSTCI_WORKER_ID="worker-2")
    for digit in (2, 3):
        api.learn(archive([digit], count=4))
    assert len(api.get("/v1/versions")["data"]) == 3
