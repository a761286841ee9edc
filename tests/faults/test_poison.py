"""Updates that cannot go well: each fails with a reason or is handled, and the next one runs."""

from __future__ import annotations

import signal

import pytest

from tests.faults.conftest import Tell
from tests.faults.evidence import noise, packed, traces
from tests.packing import tarred
from tests.pictures import archive, picture
from tests.processes import NET, PATIENCE, Api, Program, Service

pytestmark = pytest.mark.slow

TRAINED = {"regularizer": "finetune", "translator": "linear", "trainable": "all", "epochs": "3"}


def assert_next_one_runs(api: Api, digit: int) -> None:
    before = api.version()
    api.learn(archive([digit], count=4))
    assert api.version() != before


def test_poisonous_updates_fail_with_a_reason_and_the_next_one_runs(sqlite_service: Service, tell: Tell) -> None:
    service = sqlite_service
    api, _ = service.serve("api"), service.worker()
    api.learn(archive([0, 1], count=6), **NET)

    images = noise(1)
    failed = api.ended(api.add(packed("nan", images), **TRAINED | {"train.lr": "1e30"}))
    assert (failed["state"], failed["version"]) == ("failed", None)
    assert failed["error"]["code"] in ("diverged", "not_finite")
    assert traces(service, images) == []
    assert api.version() == 1
    assert_next_one_runs(api, 2)
    tell(
        "update: a learning rate of 1e30",
        f"failed: `{failed['error']['code']}`, {failed['error']['detail']}; next runs",
    )

    for options in ({}, TRAINED):
        twins = tarred({f"same-{len(options)}/{number}.png": picture(3, 0) for number in range(8)})
        entry = api.ended(api.add(twins, **options))
        assert entry["state"] == "succeeded", entry
    [answer] = api.post("/v1/classify", 200, content=picture(3, 0))["data"]
    assert answer["predictions"][0]["name"].startswith("same-")
    assert_next_one_runs(api, 4)
    tell("update: all images identical", "handled, frozen and trained: a class like any other; next runs")

    single = api.post("/v1/updates", 422, files={"archive": ("a.tar", packed("alone", noise(2, count=1)))})
    assert single["code"] == "too_few_images"
    assert_next_one_runs(api, 5)
    tell("update: one class of one image", "refused at once: 422 `too_few_images`; next runs")


def test_an_update_that_needs_too_much_memory_fails_and_the_next_one_runs(
    sqlite_service: Service, wrapped: Program, tell: Tell
) -> None:
    service = sqlite_service
    api, _ = service.serve("api"), service.worker(wrapped, FAULT="validated:starve")
    first = api.ended(api.add(archive([0, 1], count=6), **NET, **TRAINED, **{"train.images_per_class": "6000"}))
    assert first["state"] == "failed", first
    assert first["error"]["code"] == "out_of_memory", first["error"]
    assert first["attempt"] == 1
    api.learn(archive([0, 1], count=6), **NET)
    tell(
        "update: more memory than there is (RLIMIT_AS)",
        f"failed: `out_of_memory`, {first['error']['detail']}; next runs",
    )


@pytest.mark.faults
def test_an_update_that_kills_every_worker_is_given_up(service: Service, wrapped: Program, tell: Tell) -> None:
    api = service.serve("api")
    images = noise(3)
    poison = api.add(packed("poison", images), **NET)
    following = api.add(archive([0, 1], count=4), **NET)
    for _ in range(3):
        worker = service.worker(wrapped, FAULT="validated:kill", FAULT_AGAIN="1")
        assert worker.wait(PATIENCE) == -signal.SIGKILL
    service.worker()
    entry = api.ended(poison)
    assert (entry["state"], entry["error"]["code"]) == ("failed", "gave_up")
    assert api.ended(following)["state"] == "succeeded"
    assert traces(service, images) == []
    tell("update: kills its worker every time", f"failed: `gave_up`, {entry['error']['detail']}; next runs")
