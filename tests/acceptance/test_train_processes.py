"""Updates that several processes learn together: cancelled, killed and left alone, and always ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pictures import archive
from tests.processes import LONG, NET, Api, Service, children, wait_until

pytestmark = pytest.mark.slow

ENDLESS = {**LONG, "epochs": "100000"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One service for all tests here: each has classes of its own."""
    home = tmp_path_factory.mktemp("together")
    service = Service(home, f"sqlite:///{home / 'zstci.db'}")
    api = service.serve(ZSTCI_TRAIN_PROCESSES="2")
    api.learn(archive([0, 1], count=4), **NET)
    yield api
    service.end()


def learners(api: Api) -> list[int]:
    """The learning processes of the service's worker."""
    worker = children(api.process.pid).get("worker")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue  # it ended meanwhile
        if parent == worker and "service.learn_process" in words:
            found.append(int(entry.name))
    return sorted(found)


def at_work(api: Api, update: str) -> list[int]:
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning", str(api.log))
    found = learners(api)
    assert len(found) == 2
    return found


def gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in processes)


def test_an_update_is_cancelled_in_the_middle_of_training(api: Api) -> None:
    before = api.version()
    update = api.add(archive([2, 3], count=4), **ENDLESS)
    processes = at_work(api, update)

    api.post(f"/v1/updates/{update}/cancel", 202)

    assert api.ended(update)["state"] == "cancelled"
    assert gone(processes)
    assert api.version() == before


def test_an_update_survives_the_death_of_one_of_its_processes(api: Api) -> None:
    update = api.add(archive([4, 5], count=4), **LONG)
    processes = at_work(api, update)

    os.kill(processes[1], signal.SIGKILL)

    entry = api.ended(update)
    assert (entry["state"], entry["attempt"]) == ("succeeded", 2)
    assert gone(processes)
    assert {"digit-4", "digit-5"} <= {each["name"] for each in api.get("/v1/classes")["data"]}


def test_the_processes_of_a_killed_worker_end_with_it(api: Api) -> None:
    update = api.add(archive([6, 7], count=4), **ENDLESS)
    processes = at_work(api, update)

    os.kill(children(api.process.pid)["worker"], signal.SIGKILL)

    wait_until(lambda: gone(processes), f"for {processes}")
    api.post(f"/v1/updates/{update}/cancel", 202)
    assert api.ended(update)["state"] == "cancelled"
