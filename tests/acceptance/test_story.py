"""The whole story, with real processes, on SQLite and on a real Postgres."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.brute_force import distances_to
from tests.pictures import archive, picture
from tests.processes import NET, Api, Service, wait_until

pytestmark = pytest.mark.slow

TRAINED = {"regularizer": "finetune", "translator": "linear", "trainable": "all"}


def brute_force(service: Service, version: int, folder: Path, digits: list[int]) -> dict[int, dict[str, float]]:
    """Distances to every class, of one picture of each digit."""
    snapshot = service.snapshot(version)
    found = {}
    for digit in digits:
        image = folder / f"{digit}.png"
        image.write_bytes(picture(digit, 50))
        found[digit] = distances_to(snapshot, image)
    return found


def assert_equals(answer: Any, truth: dict[str, float], names: dict[str, str]) -> None:
    predictions = answer["predictions"]
    assert [p["name"] for p in predictions] == [names[class_id] for class_id in truth]
    assert [p["class_id"] for p in predictions] == list(truth)
    assert [p["distance"] for p in predictions] == pytest.approx(list(truth.values()), abs=1e-4, rel=0)


def names_of(api: Api) -> dict[str, str]:
    return {entry["id"]: entry["name"] for entry in api.get("/v1/classes")["data"]}


def events_of(
    api: Api, update: str, after: str | None = None, at_most: int | None = None
) -> list[tuple[int, str, Any]]:
    """(id, kind, data) until the stream ends, or until we hang up."""
    found: list[tuple[int, str, Any]] = []
    headers = {"Last-Event-ID": after} if after else {}
    with api.http.stream("GET", f"/v1/updates/{update}/events", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        event: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif event.get("data"):
                found.append((int(event["id"]), event["event"], json.loads(event["data"])))
                event = {}
                if at_most and len(found) == at_most:
                    break
    return found


class Clients:
    """Eight clients that ask without a pause, until the block ends."""

    def __init__(self, api: Api, digits: list[int]) -> None:
        self._api, self._digits = api, digits
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(8)
        self.answers: list[tuple[int, Any]] = []
        self.failures: list[str] = []

    def __enter__(self) -> Clients:
        self._running = [self._pool.submit(self._ask, number) for number in range(8)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for running in self._running:
            running.result()
        self._pool.shutdown()

    def _ask(self, number: int) -> None:
        with httpx.Client(base_url=self._api.http.base_url, timeout=60) as http:
            turn = number
            while not self._stop.is_set():
                turn += 1
                digit = self._digits[turn % len(self._digits)]
                response = http.post("/v1/classify?top_k=100", content=picture(digit, 50))
                if response.status_code != 200:
                    self.failures.append(response.text)
                    continue
                [answer] = response.json()["data"]
                if str(answer["version"]) != response.headers["X-Model-Version"]:
                    self.failures.append("header and body name two versions")
                self.answers.append((digit, answer))


def test_classes_are_added_while_eight_clients_ask_and_every_answer_is_of_one_version(
    service: Service, tmp_path: Path
) -> None:
    api = service.serve()
    refused = api.http.post("/v1/classify", content=picture(0, 50))
    assert refused.status_code == 503
    assert refused.json()["code"] == "no_classes_yet"

    first = api.learn(archive([0, 1, 2], count=10), **NET)
    assert first["version"] == 1
    assert first["parent"] is None
    assert first["metrics"]["held_out_images"] == 6
    assert first["receipt"]["images"] == 30

    with Clients(api, [0, 1, 2, 3, 4]) as clients:
        second = api.learn(archive([3, 4], count=10), epochs="4", **TRAINED)
        wait_until(lambda: any(answer["version"] == 2 for _, answer in list(clients.answers)))
        time.sleep(0.5)

    assert clients.failures == []
    assert second["parent"] == 1
    truths = {version: brute_force(service, version, tmp_path, [0, 1, 2, 3, 4]) for version in (1, 2)}
    versions = {answer["version"] for _, answer in clients.answers}
    assert versions == {1, 2}
    names = names_of(api)
    for digit, answer in clients.answers:
        assert_equals(answer, truths[answer["version"]][digit], names)
    assert service.images_left() == []

    older = api.post("/v1/classify?version=1&top_k=100", 200, content=picture(0, 50))
    assert_equals(older["data"][0], truths[1][0], names)


def test_the_default_net_answers_as_brute_force_does(sqlite_service: Service, tmp_path: Path) -> None:
    api = sqlite_service.serve()
    entry = api.learn(archive([0, 1, 2], count=3, size=64), holdout="0")
    assert entry["options"]["classifier"] is None
    version = api.get("/v1/versions/1")
    assert (version["backbone"], version["classifier"]) == ("efficientnet_lite0", "whitened")

    [answer] = api.post("/v1/classify?top_k=100", 200, content=picture(1, 50))["data"]
    assert_equals(answer, brute_force(sqlite_service, 1, tmp_path, [1])[1], names_of(api))


def test_an_update_is_watched_cut_off_and_watched_on(service: Service) -> None:
    api = service.serve()
    api.learn(archive([0, 1], count=4), **NET)
    with_epochs = {"translator": "zstci", "translation.epochs": "3"}  # linear takes no time, so it is no stage
    update = api.add(archive([2, 3], count=8), epochs="12", **TRAINED | with_epochs)

    begun = events_of(api, update, at_most=3)
    rest = events_of(api, update, after=str(begun[-1][0]))

    every = begun + rest
    ids = [number for number, _, _ in every]
    assert ids == sorted(set(ids))
    assert every == events_of(api, update), "resuming neither repeats nor loses an event"
    kinds = [kind for _, kind, _ in every]
    assert (kinds[0], kinds[-1]) == ("state", "done")
    assert kinds.count("done") == 1
    assert "metric" in kinds
    progress = [data["progress"] for _, kind, data in every if kind == "progress"]
    assert progress == sorted(progress)
    stages = [data["stage"] for _, kind, data in every if kind == "progress"]
    assert list(dict.fromkeys(stages)) == [
        "validating",
        "embedding",
        "fine_tuning",
        "translating",
        "reprojecting",
        "evaluating",
        "publishing",
    ], "each stage, in its order"
    assert every[-1][2]["state"] == "succeeded"
    assert events_of(api, update, after=str(ids[-1])) == [], "after the end there is nothing"


def test_roll_back_rename_delete_and_cancel(service: Service, tmp_path: Path) -> None:
    api = service.serve()
    api.learn(archive([0, 1, 2], count=6), **NET)
    api.learn(archive([3], count=6))

    assert api.post("/v1/versions/1/activate", 412, headers={"If-Match": "1"})["code"] == "version_changed"
    assert api.post("/v1/versions/1/activate", 200, headers={"If-Match": '"2"'})["active"] is True
    assert len(api.get("/v1/classes")["data"]) == 3
    api.post("/v1/versions/2/activate", 200)

    [zero, one, *_] = api.get("/v1/classes")["data"]
    renamed = api.http.patch(f"/v1/classes/{zero['id']}", json={"name": "nought"}).json()
    assert (renamed["id"], renamed["name"]) == (zero["id"], "nought")
    [answer] = api.post("/v1/classify", 200, content=picture(0, 50))["data"]
    assert "nought" in [p["name"] for p in answer["predictions"]]
    taken = api.http.patch(f"/v1/classes/{zero['id']}", json={"name": one["name"]})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")

    deleted = api.http.delete(f"/v1/classes/{one['id']}").json()
    assert (deleted["kind"], deleted["number"], deleted["classes"]) == ("delete", 3, 3)
    assert api.version() == 3
    [answer] = api.post("/v1/classify?top_k=10", 200, content=picture(1, 50))["data"]
    truth = brute_force(service, 3, tmp_path, [1])[1]
    assert one["id"] not in truth
    assert_equals(answer, truth, names_of(api))

    long = api.add(archive([5, 6], count=6), epochs="100000", **TRAINED)
    waiting = api.add(archive([7], count=6))
    wait_until(lambda: api.get(f"/v1/updates/{long}")["stage"] == "fine_tuning")
    assert api.post(f"/v1/updates/{waiting}/cancel", 202)["state"] == "cancelled"
    api.post(f"/v1/updates/{long}/cancel", 202)
    assert api.ended(long)["state"] == "cancelled"
    assert api.ended(waiting)["state"] == "cancelled"
    assert api.post(f"/v1/updates/{long}/cancel", 409)["code"] == "update_ended"
    assert api.version() == 3
    assert service.images_left() == []


def test_two_api_processes_answer_from_the_new_version_soon_after_it_is_published(service: Service) -> None:
    one, two = service.serve("api"), service.serve("api")
    service.worker()
    one.learn(archive([0, 1], count=4), **NET)
    wait_until(lambda: two.version() == 1)

    def live(api: Api) -> float:
        """When it answers from version 2. Only readiness is asked for, which makes no process look for anything."""
        wait_until(lambda: api.version() == 2)
        return datetime.now(UTC).timestamp()

    with ThreadPoolExecutor(2) as pool:
        followed = pool.map(live, (one, two))
        two.add(archive([2], count=4))
        slowest = max(followed)
    published = datetime.fromisoformat(two.get("/v1/versions/2")["created_at"]).timestamp()
    assert slowest - published < 3.0, "a promise of the API: every process follows within 3 s of publishing"
    for api in (one, two):
        [answer] = api.post("/v1/classify", 200, content=picture(2, 50))["data"]
        assert answer["version"] == 2


def test_instant_classes_answer_before_the_trained_version_replaces_them(service: Service) -> None:
    api = service.serve()
    api.learn(archive([0, 1], count=6), **NET)

    update = api.add(archive([2, 3], count=6), instant="true", epochs="60", **TRAINED)
    instant = wait_until(lambda: api.get(f"/v1/updates/{update}")["instant_version"])
    assert api.version() in (instant, instant + 1), "whoever is told of it gets its answers"
    assert len(api.get("/v1/classes")["data"]) == 4
    entry = api.ended(update)

    wait_until(lambda: api.version() == entry["version"])
    versions = {v["number"]: v for v in api.get("/v1/versions")["data"]}
    assert versions[instant]["kind"] == "instant"
    assert versions[instant]["regularizer"] == "frozen"
    assert versions[entry["version"]]["parent"] == 1
    assert {c["images"] for c in api.get("/v1/classes")["data"]} == {5}, "no image counts twice"
