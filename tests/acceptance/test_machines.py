"""Beyond one machine: replicas and workers on one Postgres and one bucket, each of which goes away and returns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.machines import Asking, Machines, machines
from tests.object_store import object_store
from tests.pictures import archive, picture
from tests.processes import LONG, NET, Api, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with object_store() as environment:
        yield environment


@pytest.fixture
def several(tmp_path: Path, store: dict[str, str]) -> Iterator[Machines]:
    with machines(tmp_path, store) as these:
        yield these


def follow(version: int, *replicas: Api) -> None:
    wait_until(lambda: {api.version() for api in replicas} == {version})
    for api in replicas:
        [answer] = api.post("/v1/classify", 200, content=picture(1, 50))["data"]
        assert answer["version"] == version


def begin(api: Api, digits: list[int]) -> str:
    """An update that is at work for a while."""
    update = api.add(archive(digits, count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    return update


def kill(process: Any) -> None:
    process.kill()
    process.wait()


def test_two_replicas_and_a_worker_survive_the_restart_of_each(several: Machines) -> None:
    one, two, worker = several.api("one"), several.api("two"), several.worker("worker")
    one.learn(archive([0, 1], count=6), **NET)
    follow(1, one, two)
    assert several.images_left() == []
    assert {name.partition("/")[0] for name in several.bucket()} == {"versions"}

    with Asking(two) as asking:
        kill(one.process)
        one = several.api("one")
        follow(1, one)
    assert asking.failures == []
    with Asking(one) as asking:
        kill(two.process)
        shutil.rmtree(several.at("two").home)  # a new machine, which has nothing yet
        two = several.api("two")
        follow(1, two)
    assert asking.failures == []
    with Asking(one) as first, Asking(two) as second:
        update = begin(one, [2, 3])
        kill(worker)
        several.worker("worker")
        entry = two.ended(update)
        follow(2, one, two)
        wait_until(lambda: first.failures or set(first.versions) == {1, 2})  # it may be waiting for an answer still
    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", 2, 2)
    assert first.failures == second.failures == []
    assert several.images_left() == []


def test_another_machine_ends_what_one_began_and_no_image_stays_on_either(several: Machines) -> None:
    api, lost = several.api("one"), several.worker("lost")
    api.learn(archive([0, 1], count=6), **NET)
    update = begin(api, [2, 3])
    kill(lost)

    several.worker("found")
    entry = api.ended(update)
    assert (entry["state"], entry["attempt"]) == ("succeeded", 2)
    assert several.images_left(), "the lost machine has its copies still"
    several.worker("lost")
    wait_until(lambda: several.images_left() == [])


def test_a_bucket_that_is_away_delays_an_update_and_nothing_else(several: Machines) -> None:
    one, two = several.api("one"), several.api("two")
    several.worker("worker")
    one.learn(archive([0, 1], count=6), **NET)
    follow(1, two)
    update = begin(one, [2, 3])

    with Asking(two) as asking:
        several.line.cut()
        refused = one.http.post("/v1/updates", files={"archive": ("a.tar", archive([5, 6]))})
        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unreachable")
        assert "Retry-After" in refused.headers
        kill(one.process)
        one = several.api("one")
        follow(1, one)  # from its own copy
        wait_until(lambda: several.logged("worker", "storage_away"))
        several.line.mend()
        entry = one.ended(update)
        follow(2, one, two)

    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", 1, 2)
    assert asking.failures == []
    assert len(one.get("/v1/updates")["data"]) == 2, "what was refused is not kept"
    assert several.images_left() == []


def test_a_postgres_that_restarts_in_the_middle_is_waited_for(several: Machines) -> None:
    one, two = several.api("one"), several.api("two")
    several.worker("worker")
    one.learn(archive([0, 1], count=6), **NET)
    follow(1, two)
    update = begin(one, [2, 3])

    with Asking(one) as first, Asking(two) as second:
        several.postgres.stop()
        wait_until(lambda: one.http.get("/readyz").status_code == 503)
        assert one.http.get(f"/v1/updates/{update}").json()["code"] == "database_unreachable"
        wait_until(lambda: several.logged("worker", "progress_not_told") or several.logged("worker", "database_away"))
        several.postgres.ensure_postgres_running()
        wait_until(lambda: two.http.get("/readyz").status_code == 200)
        entry = two.ended(update)
        follow(2, one, two)

    assert (entry["state"], entry["attempt"], entry["version"]) == ("succeeded", 1, 2)
    assert first.failures == second.failures == []
    two.learn(archive([5], count=4))  # the queue works as before
    follow(3, one, two)
    wait_until(lambda: several.logged("worker", "name_held_again"))
    assert several.images_left() == []


def test_two_workers_take_turns(several: Machines) -> None:
    one, two = several.api("one"), several.api("two")
    for name in ("left", "right"):
        several.worker(name)
    wait_until(lambda: several.logged("left", "worker_ready") and several.logged("right", "worker_ready"))
    options = [NET, {}, {}, {}, {}, {}]
    updates = [(one, two)[digit % 2].add(archive([digit], count=4), **options[digit]) for digit in range(6)]
    entries = sorted((one.ended(update) for update in updates), key=lambda entry: entry["started_at"])

    assert [entry["state"] for entry in entries] == ["succeeded"] * 6
    for before, after in pairwise(entries):
        assert before["ended_at"] <= after["started_at"], "one at a time"
    assert [entry["parent"] for entry in entries] == [None, 1, 2, 3, 4, 5]
    follow(6, one, two)
    assert several.images_left() == []
