"""kill -9 at every point of an update: what comes of it is what would have come of it without."""

from __future__ import annotations

import hashlib
import signal
import tarfile
from io import BytesIO
from typing import Any

import pytest

from tests.faults.conftest import Tell
from tests.faults.evidence import assert_unconfused, named, traces
from tests.pictures import archive, picture
from tests.processes import NET, PATIENCE, Api, Program, Service, wait_until
from tests.unit.zstci.tiny import assert_same_snapshot
from zstci import Snapshot

pytestmark = pytest.mark.slow

NEW = archive([2, 3], count=6)
TRAINED = {
    "regularizer": "ewc",
    "translator": "zstci",
    "trainable": "all",
    "epochs": "6",
    "translation.epochs": "6",
    "translation.hidden": "16",
}
FIRST = ("fine_tuning:kill", "bundle_half_written:kill", "after_publish:kill", "purging:kill")
REST = (
    "validated:kill",
    "fine_tuning:term",
    "translating:kill",
    "reprojecting:kill",
    "evaluating:kill",
    "before_publish:kill",
    "purged:kill",
)


@pytest.mark.parametrize(
    ("database_url", "faults"),
    [
        ("sqlite", FIRST),
        pytest.param("sqlite", REST, marks=pytest.mark.faults),
        pytest.param("postgres", FIRST + REST, marks=pytest.mark.faults),
    ],
    ids=["sqlite-first", "sqlite-rest", "postgres-all"],
    indirect=["database_url"],
)
def test_an_update_whose_worker_dies_ends_as_if_it_had_not(
    service: Service, faults: tuple[str, ...], wrapped: Program, tell: Tell
) -> None:
    api, worker = service.serve("api"), service.worker()
    api.learn(archive([0, 1], count=6), **NET)
    reference = _snapshot(service, api, api.learn(NEW, **TRAINED))
    worker.terminate()
    worker.wait(PATIENCE)

    struck: tuple[str, str] | None = None
    for fault in (*faults, None):
        # Each worker ends what the one before it left, and is struck in its own update.
        worker = service.worker(wrapped, **({"FAULT": fault} if fault else {}))
        if struck is not None:
            _check(service, api, reference, *struck, tell)
        if fault is None:
            break
        api.post("/v1/versions/1/activate", 200)
        struck = api.add(NEW, **TRAINED), fault
        assert worker.wait(PATIENCE) == (0 if fault.endswith("term") else -signal.SIGKILL)
        answer = api.post("/v1/classify", 200, content=picture(1, 50))
        assert answer["data"][0]["version"] in (1, _newest(api))
        assert api.get(f"/v1/updates/{struck[0]}")["state"] == "running"


def _newest(api: Api) -> int:
    return int(api.get("/v1/versions")["data"][0]["number"])


def _check(service: Service, api: Api, reference: Snapshot, update: str, fault: str, tell: Tell) -> None:
    before = {version["number"]: version["update_id"] for version in api.get("/v1/versions")["data"]}
    entry = api.ended(update)
    assert (entry["state"], entry["attempt"]) == ("succeeded", 2), entry
    versions = {version["number"]: version["update_id"] for version in api.get("/v1/versions")["data"]}
    assert list(versions.values()).count(update) == 1
    assert set(versions) - set(before) <= {entry["version"]}

    wait_until(lambda: api.version() == entry["version"])
    assert_same_snapshot(_snapshot(service, api, entry), reference)
    events = api.events(update)
    assert_unconfused(events, attempts=2)
    if fault.startswith("fine_tuning"):
        assert 1 in _epochs(events, attempt=1)
        assert 1 not in _epochs(events, attempt=2), "it began anew, not from its last checkpoint"
    assert entry["receipt"]["sha256"] == _digests(NEW)
    assert service.images_left() == []
    assert traces(service, _images(NEW)) == []
    point, _, action = fault.partition(":")
    words = {"kill": "kill -9", "term": "SIGTERM"}[action]
    tell(
        f"worker: {words} at `{point}`",
        "attempt 2 ends it: one version, equal bit for bit to an undisturbed run; images gone, receipt whole",
    )


def _epochs(events: list[tuple[int, str, Any]], attempt: int) -> set[int]:
    """That an attempt told of its training: the first at once, of the others now and then one."""
    told = [data for _, kind, data in events if kind == "progress" and data["attempt"] == attempt]
    return {data["epoch"] for data in told if data["stage"] == "fine_tuning"}


def _snapshot(service: Service, api: Api, entry: Any) -> Snapshot:
    return named(service.snapshot(entry["version"]), api)


def _images(tar: bytes) -> list[bytes]:
    with tarfile.open(fileobj=BytesIO(tar)) as opened:
        files = [opened.extractfile(member) for member in opened.getmembers()]
        return [file.read() for file in files if file is not None]


def _digests(tar: bytes) -> list[str]:
    return sorted(hashlib.sha256(image).hexdigest() for image in _images(tar))
