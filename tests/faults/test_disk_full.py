"""A disk that is really full: uploads are refused and updates fail by name, and all goes on when there is room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.conftest import Tell
from tests.faults.evidence import noise, packed, traces
from tests.pictures import archive, picture
from tests.processes import NET, Api, Service

pytestmark = pytest.mark.slow

TRAINED = {"regularizer": "finetune", "translator": "linear", "trainable": "all", "epochs": "3"}
KIBIBYTE = 1024


def fill(disk: Path, leave: int) -> Path:
    """All of it but so many bytes."""
    filler = disk / "filler"
    room = os.statvfs(disk)
    with filler.open("wb") as file:
        left = room.f_bavail * room.f_frsize - leave
        os.posix_fallocate(file.fileno(), 0, left)
    return filler


def assert_answers(api: Api, version: int) -> None:
    [answer] = api.post("/v1/classify", 200, content=picture(1, 50))["data"]
    assert answer["version"] == version


def test_a_full_disk_refuses_uploads_and_fails_updates_until_there_is_room(small_disk: Path, tell: Tell) -> None:
    home = small_disk / "home"
    service = Service(home, f"sqlite:///{home / 'zstci.db'}")  # the default: all on one disk
    try:
        api, _ = service.serve("api"), service.worker()
        api.learn(archive([0, 1], count=6), **NET, **TRAINED)

        images = noise(1, count=40, size=128)  # 2 MB
        filler = fill(small_disk, leave=512 * KIBIBYTE)
        refused = api.http.post("/v1/updates", files={"archive": ("a.tar", packed("large", images))})
        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full"), refused.text
        assert service.images_left() == []
        assert traces(service, images) == []
        assert_answers(api, 1)
        filler.unlink()
        tell("disk full during upload (tmpfs)", "507 `storage_full`, nothing left of it, queries go on")

        few = noise(2)
        # Room for what was learnt, but not for the engine too. No training: no checkpoint meets the end of it first.
        filler = fill(small_disk, leave=6656 * KIBIBYTE)
        failed = api.ended(api.add(packed("few", few), regularizer="frozen"))
        assert (failed["state"], failed["error"]["code"]) == ("failed", "storage_full"), failed
        assert failed["stage"] == "publishing", "it is the version itself that found no room"
        assert traces(service, few) == []
        assert failed["attempt"] == 1
        assert_answers(api, 1)
        filler.unlink()
        entry = api.learn(packed("few", few), **TRAINED)
        assert_answers(api, entry["version"])
        tell(
            "disk full while a version is written (tmpfs)",
            "failed: `storage_full`, with the reason; version 1 answers; the next one succeeds",
        )
    finally:
        service.end()


def test_a_query_that_finds_no_room_for_its_form_is_told_so(small_disk: Path, tmp_path: Path, tell: Tell) -> None:
    service = Service(tmp_path / "home", f"sqlite:///{tmp_path / 'zstci.db'}")
    try:
        api = service.serve("api", TMPDIR=str(small_disk))
        filler = fill(small_disk, leave=100 * KIBIBYTE)
        images = noise(1, count=1, size=1024)  # 3 MB: a form keeps 1 MB in memory
        refused = api.http.post("/v1/classify", files={"files": images[0]})
        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full"), refused.text
        filler.unlink()
        assert api.http.post("/v1/classify", files={"files": images[0]}).json()["code"] == "no_classes_yet"
        assert "Traceback" not in api.log.read_text()
        tell("temporary folder full during a query's form (tmpfs)", "507 `storage_full`; answered when there is room")
    finally:
        service.end()


@pytest.mark.faults
def test_a_disk_without_a_single_byte_stops_no_query_and_loses_no_update(small_disk: Path, tell: Tell) -> None:
    home = small_disk / "home"
    service = Service(home, f"sqlite:///{home / 'zstci.db'}")
    try:
        api = service.serve("api")
        worker = service.worker()
        api.learn(archive([0, 1], count=6), **NET)
        worker.terminate()
        worker.wait()
        waiting = api.add(archive([2], count=6))
        filler = fill(small_disk, leave=0)
        worker = service.worker()
        refused = api.http.post("/v1/updates", files={"archive": ("a.tar", archive([3], count=6))})
        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full"), refused.text
        assert_answers(api, 1)
        filler.unlink()
        if worker.poll() is not None:  # it could not even write its lock: whoever started it starts it again
            worker = service.worker()
        entry = api.ended(waiting)
        assert entry["state"] in ("succeeded", "failed"), entry
        assert entry["error"] is None or entry["error"]["code"] == "storage_full"
        api.learn(archive([3], count=6))
        assert service.images_left() == []
        tell("disk full to the last byte (tmpfs)", f"507, queries go on; the update that waited: {entry['state']}")
    finally:
        service.end()
