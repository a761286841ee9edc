"""Workers that stand still: all of one, or only the thread that computes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from service.usecases.pulse import HUNG
from tests.faults.conftest import Tell
from tests.faults.evidence import assert_unconfused
from tests.pictures import archive
from tests.processes import LONG, NET, PATIENCE, Program, Service, children, wait_until

pytestmark = pytest.mark.slow

SHORT = {"ZSTCI_LEASE_SECONDS": "4"}
# Within a transaction it holds a lock that all others wait for: its own work's, its heartbeat's, the job queue's.
HOLDING = ["within_publish", "within_heartbeat", "within_job"]
ANYWHERE = ["job_taken", "before_publish", "bundle_half_written"]
NOT_BEGUN = ["within_job", "job_taken"]
SHORTEST = ("sqlite", "within_publish")  # in `make test`
CASES = [
    pytest.param(kind, point, marks=[pytest.mark.faults] if (kind, point) != SHORTEST else [])
    for kind in ("sqlite", "postgres")
    for point in (*HOLDING, *ANYWHERE)
]


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize(("database_url", "point"), CASES, indirect=["database_url"])
def test_a_stopped_worker_is_replaced_and_does_no_harm_when_it_goes_on(
    service: Service, wrapped: Program, point: str, tell: Tell
) -> None:
    api = service.serve("api")
    stopped = service.worker(wrapped, FAULT=f"{point}:stop", ZSTCI_WORKER_ID="stopped", **SHORT)
    wait_until(lambda: "worker_ready" in (service.home / "log-2.txt").read_text())
    first = api.add(archive([0, 1], count=6), **NET)
    wait_until(lambda: is_stopped(stopped.pid))
    since = time.monotonic()
    other = service.worker(ZSTCI_WORKER_ID="other", **SHORT)
    entry = api.ended(first)
    seconds = time.monotonic() - since
    attempts = 1 if point in NOT_BEGUN else 2
    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", attempts, 1)

    became = after_its_end(service, stopped, other, point)
    assert api.get(f"/v1/updates/{first}") == entry
    assert len(api.get("/v1/versions")["data"]) == 1
    assert_unconfused(api.events(first), attempts)
    service.snapshot(1)  # whole, as it was published
    wait_until(lambda: service.images_left() == [], "for the sweep")
    api.learn(archive([2], count=6))
    tell(
        f"worker: SIGSTOP at `{point}`, SIGCONT later",
        f"another one ended the update {seconds:.0f} s later (lease 4 s, its start included); the stopped one "
        f"{became}, no second version",
    )


def after_its_end(service: Service, stopped: subprocess.Popen[str], other: subprocess.Popen[str], point: str) -> str:
    """What became of the stopped one. Who goes on is the only worker then."""
    lock_is_held_for_ever = service.database_url.startswith("sqlite")
    if lock_is_held_for_ever and (
        point in HOLDING or stopped.poll() is not None
    ):  # any of its threads may have held it
        assert stopped.wait(PATIENCE) == -signal.SIGKILL
        assert "stopped_worker_killed" in (service.home / "log-3.txt").read_text()
        return "was killed, for it held SQLite's lock"
    stopped.send_signal(signal.SIGCONT)
    if point not in NOT_BEGUN:
        wait_until(lambda: "update_taken_over" in (service.home / "log-2.txt").read_text())
    other.terminate()
    other.wait(PATIENCE)
    return "gave up"


def test_a_worker_whose_work_hangs_ends_itself(sqlite_service: Service, wrapped: Program, tell: Tell) -> None:
    service = sqlite_service
    api = service.serve("api")
    hung = service.worker(wrapped, FAULT="validated:hang", ZSTCI_STALL_SECONDS="3")
    update = api.add(archive([0, 1], count=6), **NET)
    assert hung.wait(PATIENCE) == HUNG
    assert "update_hangs" in (service.home / "log-2.txt").read_text()

    service.worker()
    entry = api.ended(update)
    assert (entry["state"], entry["attempt"]) == ("succeeded", 2)
    tell(
        "worker: its computing thread hangs", "no progress for ZSTCI_STALL_SECONDS: it ends itself, attempt 2 succeeds"
    )


@pytest.mark.faults
def test_a_worker_that_stands_still_below_serve_is_replaced(service: Service, tell: Tell) -> None:
    api = service.serve(**SHORT)
    api.learn(archive([0, 1], count=6), **NET)
    update = api.add(archive([2, 3], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    stopped = children(api.process.pid)["worker"]
    os.kill(stopped, signal.SIGSTOP)
    since = time.monotonic()
    wait_until(lambda: children(api.process.pid).get("worker", stopped) != stopped)
    seconds = time.monotonic() - since
    entry = api.ended(update)
    assert (entry["state"], entry["version"]) == ("succeeded", 2)
    tell("worker below `zstci serve`: SIGSTOP", f"killed and replaced after {seconds:.0f} s (lease 4 s)")
