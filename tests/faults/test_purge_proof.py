"""No image outlives its update: after each end every file, table and log is searched for it, and for any picture."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.faults.conftest import Tell
from tests.faults.evidence import noise, packed, traces
from tests.processes import NET, Service, wait_until

pytestmark = pytest.mark.slow

PORTABLE = ["sqlite", pytest.param("postgres", marks=pytest.mark.faults)]
TRAINED = {"regularizer": "finetune", "translator": "linear", "trainable": "all"}
ENDLESS = {**TRAINED, "epochs": "100000"}


def assert_receipt(entry: Any, images: list[bytes]) -> None:
    assert entry["purged_at"] is not None
    assert entry["purged_at"] <= entry["ended_at"] or entry["state"] == "cancelled"
    assert entry["receipt"] == {
        "images": len(images),
        "bytes": sum(map(len, images)),
        "sha256": sorted(hashlib.sha256(image).hexdigest() for image in images),
    }


@pytest.mark.parametrize("database_url", PORTABLE, indirect=True)
def test_nothing_of_an_image_is_left_after_any_end(service: Service, tell: Tell) -> None:
    api, _ = service.serve("api"), service.worker()
    first, failing, running, waiting, checked, bad, kept, left_out, more, instant = (noise(seed) for seed in range(10))

    entry = api.learn(packed("first", first), **NET)
    assert_receipt(entry, first)
    ends = {"succeeded": traces(service, first)}

    entry = api.ended(api.add(packed("failing", failing), **TRAINED, **{"train.lr": "1e30"}))
    assert entry["state"] == "failed"
    assert_receipt(entry, failing)
    ends["failed"] = traces(service, failing)

    at_work = api.add(packed("running", running), **ENDLESS)
    behind = api.add(packed("waiting", waiting))
    wait_until(lambda: api.get(f"/v1/updates/{at_work}")["stage"] == "fine_tuning")
    assert traces(service, running), "or the search would find nothing anywhere"
    assert traces(service, waiting)
    api.post(f"/v1/updates/{behind}/cancel", 202)
    assert_receipt(api.ended(behind), waiting)
    ends["cancelled while it waits"] = [found for found in traces(service, waiting) if at_work not in found]
    assert traces(service, running)
    api.post(f"/v1/updates/{at_work}/cancel", 202)
    entry = api.ended(at_work)
    assert entry["state"] == "cancelled"
    assert_receipt(entry, running)
    ends["cancelled at work"] = traces(service, running)

    half = [image[:-60] for image in left_out]  # no image any more, but every pixel of its upper part
    entry = api.learn(packed("kept", [*kept, *half]), on_bad_image="skip")
    assert len(entry["rejected"]) == len(half)
    assert_receipt(entry, [*kept, *half])
    ends["with images left out"] = traces(service, [*kept, *left_out])

    entry = api.learn(packed("first", more), on_existing_class="merge")
    assert_receipt(entry, more)
    ends["merged into a known class"] = traces(service, more)

    entry = api.learn(packed("instant", instant), **TRAINED, instant="true", epochs="2")
    assert entry["instant_version"] is not None
    assert_receipt(entry, instant)
    ends["instant"] = traces(service, instant)

    api.post("/v1/updates?dry_run=true", 200, files={"archive": ("a.tar", packed("checked", checked))})
    ends["dry run"] = traces(service, checked)
    api.post("/v1/updates", 422, files={"archive": ("a.tar", packed("bad", [*bad, b"no image at all"]))})
    ends["refused"] = traces(service, bad)

    for end, found in ends.items():
        assert found == [], end
        tell(f"purge proof: {end}", "no part of an image and no picture in any file, table or log, nor below TMPDIR")
