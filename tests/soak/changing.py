"""Clients that change things: updates of all kinds, cancels, roll-backs, renames and deletions, at the same time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import httpx

from tests.packing import tarred, zipped
from tests.pictures import picture
from tests.processes import PATIENCE
from tests.soak.asking import is_deliberate
from tests.soak.ledger import BASE, Ledger, Sent

__all__ = ["Changer"]

_TRAINED = {"regularizer": "finetune", "translator": "linear", "trainable": "all"}
_WAYS: list[tuple[str, dict[str, str]]] = [
    *[("frozen", {})] * 6,
    ("manual", {"activate": "manual"}),
    ("merge", {"on_existing_class": "merge"}),
    ("finetune", {**_TRAINED, "epochs": "2"}),
    ("instant", {**_TRAINED, "epochs": "2", "instant": "true"}),
    *[("to cancel", {**_TRAINED, "epochs": "5000"})] * 2,
]
_EACH = _WAYS[5:-1]  # one of every kind, in turn: none is left to chance
_BAD: list[dict[str, bytes]] = [
    {"../evil/0.png": picture(1)},
    {"c/0.png": b"no image", "c/1.png": picture(1)},
    {"only-one/0.png": picture(1)},
    {"a\u202eb/0.png": picture(1), "a\u202eb/1.png": picture(2)},
]
_MANY = 24  # classes; with more the next change is a deletion


class Changer:
    """One round: some updates and some changes side by side, until all of them have ended."""

    def __init__(self, http: httpx.Client, ledger: Ledger, seed: int) -> None:
        self._http, self._ledger, self._random = http, ledger, Random(seed)
        self._rounds = 0

    def begin(self, options: dict[str, str]) -> None:
        """Version 1, of the classes that stay."""
        self._follow(self._send("first", BASE, options), to_cancel=False)

    def round(self) -> None:
        ways = [*self._random.choices(_WAYS, k=self._random.randint(0, 2)), _EACH[self._rounds % len(_EACH)]]
        self._rounds += 1
        changes = self._random.choices([self._rename, self._delete, self._roll, self._bad_upload], k=3)
        seeds = [self._random.random() for _ in changes]
        with ThreadPoolExecutor(len(ways) + 1) as pool:
            jobs = [pool.submit(self._update, name, options) for name, options in ways]
            jobs.append(pool.submit(self._change, changes, seeds))
            for job in jobs:
                self._guarded(job.result)

    def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as error:
            self._ledger.fault(f"changer: {type(error).__name__}: {error}")

    def _change(self, changes: Sequence[Callable[[Random], None]], seeds: Sequence[float]) -> None:
        for change, seed in zip(changes, seeds, strict=True):
            time.sleep(seed * 0.5)
            change(Random(seed))

    def _update(self, way: str, options: dict[str, str]) -> None:
        names = tuple(self._ledger.fresh_name() for _ in range(2)) if way != "merge" else ()
        update = self._send(way, names or BASE[:1], options, born=names)
        if update:
            self._follow(update, to_cancel=way == "to cancel")

    def _send(
        self, way: str, names: tuple[str, ...], options: dict[str, str], born: tuple[str, ...] | None = None
    ) -> str:
        digits = [hash_of(name) % 10 for name in names]
        images = {
            f"{name}/{i}.png": picture(digit, i + hash_of(name) % 40)
            for name, digit in zip(names, digits, strict=True)
            for i in range(4)
        }
        packed = zipped(images) if hash_of(way + names[0]) % 2 else tarred(images, "w:gz")
        for _ in range(200):
            response = self._http.post("/v1/updates", files={"archive": ("classes", packed)}, data=options)
            if not is_deliberate(response):
                break
            self._ledger.note("updates told to wait (503)")
            time.sleep(0.2)
        if response.status_code != 202:
            self._ledger.fault(f"an update ({way}) was answered {response.status_code}: {response.text}")
            return ""
        with self._ledger.lock:
            self._ledger.sent[response.json()["id"]] = Sent(names if born is None else born)
            self._ledger.did[f"updates: {way}"] += 1
        return str(response.json()["id"])

    def _follow(self, update: str, to_cancel: bool) -> None:
        sent = self._ledger.sent[update]
        if to_cancel:
            sent.cancelled = True
            time.sleep(hash_of(update) % 10 / 5)
            response = self._http.post(f"/v1/updates/{update}/cancel")
            if response.status_code not in (202, 409):
                self._ledger.fault(f"cancel answers {response.status_code}: {response.text}")
        elif hash_of(update) % 2:
            self._watch(update)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            sent.entry = self._http.get(f"/v1/updates/{update}").json()
            if sent.entry["state"] in ("succeeded", "failed", "cancelled") and sent.entry["purged_at"]:
                return
            time.sleep(0.1)
        self._ledger.fault(f"update {update} does not end: {sent.entry}")

    def _watch(self, update: str) -> None:
        """Ends with one `done`."""
        kinds: list[str] = []
        with self._http.stream("GET", f"/v1/updates/{update}/events") as response:
            kinds = [line.removeprefix("event: ") for line in response.iter_lines() if line.startswith("event: ")]
        if kinds.count("done") != 1 or kinds[-1] != "done":
            self._ledger.fault(f"the events of {update} are {kinds}")
        self._ledger.note("updates watched by events")

    def _classes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._http.get("/v1/classes?limit=1000").json()["data"]
        return [entry for entry in found if entry["name"] not in BASE and entry["id"] in self._ledger.born]

    def _rename(self, random: Random) -> None:
        classes = self._classes()
        if classes:
            chosen, name = random.choice(classes), f"renamed {self._ledger.fresh_name()} <b>[bold]"
            response = self._http.patch(f"/v1/classes/{chosen['id']}", json={"name": name})
            if self._judge("rename", response, (200,)):
                self._ledger.renamed[self._ledger.born[chosen["id"]]] = name

    def _delete(self, random: Random) -> None:
        for _ in range(1 if len(classes := self._classes()) <= _MANY else 4):
            if classes:
                chosen = classes.pop(random.randrange(len(classes)))
                response = self._http.delete(f"/v1/classes/{chosen['id']}")
                # Rolled back or renewed meanwhile: then it is not in the active version.
                if self._judge("delete", response, (200, 404, 412)):
                    self._ledger.deletions[response.json()["number"]] = self._ledger.born[chosen["id"]]

    def _roll(self, random: Random) -> None:
        versions = self._http.get("/v1/versions?limit=6").json()["data"]
        chosen, active = random.choice(versions), next((v["number"] for v in versions if v["active"]), 0)
        headers = {"If-Match": f'"{active}"'} if random.random() < 0.5 else {}
        response = self._http.post(f"/v1/versions/{chosen['number']}/activate", headers=headers)
        self._judge("activate", response, (200, 412))

    def _bad_upload(self, random: Random) -> None:
        packed = zipped(random.choice(_BAD))
        response = self._http.post("/v1/updates", files={"archive": ("bad.zip", packed)})
        self._judge("bad upload", response, (422,))

    def _judge(self, what: str, response: httpx.Response, expected: tuple[int, ...]) -> bool:
        self._ledger.note(f"{what}: {response.status_code}")
        if response.status_code not in expected and not is_deliberate(response):
            self._ledger.fault(f"{what} answers {response.status_code}: {json.dumps(response.text)}")
        return response.status_code == 200


def hash_of(text: str) -> int:
    """The same in every run, as `hash` is not."""
    return sum(text.encode())
