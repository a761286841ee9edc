"""What must be true: kept by the clients alone, from what they sent and what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BASE", "Answered", "Ledger", "Sent"]

BASE = ("base-0", "base-1", "base-2")  # in version 1 and never renamed or deleted, so images can be merged into them


@dataclass
class Sent:
    """An acknowledged update."""

    names: tuple[str, ...]  # classes that it brings, which no other update has ever named
    cancelled: bool = False
    entry: dict[str, Any] = field(default_factory=dict)  # as it ended


@dataclass(frozen=True)
class Answered:
    version: int
    at: float  # seconds since 1970
    ids: frozenset[str] | None  # of all classes of the version, if all were asked for


class Ledger:
    """Classes are told apart by the name they were born with. A version is the one it was learnt on top of, and what
    its update or deletion changed; the service's own count of classes is compared with it, never believed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: dict[str, Sent] = {}
        self.deletions: dict[int, str] = {}  # version -> the class that it lacks
        self.renamed: dict[str, str] = {}  # born as -> called now
        self.born: dict[str, str] = {}  # id -> born as
        self.answers: list[Answered] = []
        self.latencies: list[tuple[float, float]] = []  # when, seconds
        self.statuses: Counter[int] = Counter()
        self.did: Counter[str] = Counter()
        self.faults: list[str] = []
        self._names = 0

    def fresh_name(self) -> str:
        with self.lock:
            self._names += 1
            return f"class-{self._names:05}"

    def fault(self, text: str) -> None:
        with self.lock:
            self.faults.append(text[:600])

    def asked(self, status: int, seconds: float) -> None:
        with self.lock:
            self.statuses[status] += 1
            self.latencies.append((time.time(), seconds))

    def note(self, what: str) -> None:
        with self.lock:
            self.did[what] += 1

    def current_name(self, born_as: str) -> str:
        return self.renamed.get(born_as, born_as)

    def classes(self, versions: dict[int, dict[str, Any]]) -> dict[int, frozenset[str]]:
        """Of every version, by lineage; a version always has a higher number than the one it was learnt on."""
        found: dict[int, frozenset[str]] = {}
        for number in sorted(versions):
            entry = versions[number]
            below = found[entry["parent"]] if entry["parent"] else frozenset()
            if entry["kind"] == "delete":
                found[number] = below - {self.deletions[number]}
            else:
                found[number] = below | set(self.sent[entry["update_id"]].names)
        return found

    def check_quiet(self, versions: dict[int, dict[str, Any]], active: int, listed: list[dict[str, Any]]) -> None:
        """While nothing changes: the active version has exactly the classes that it must have, by their names of now,
        and an id stays the class that it was."""
        expected = self.classes(versions)
        for number, births in expected.items():
            if len(births) != versions[number]["classes"]:
                self.fault(f"version {number} has {versions[number]['classes']} classes, not {len(births)}")
        called = {self.current_name(birth): birth for birth in expected[active]}
        if sorted(entry["name"] for entry in listed) != sorted(called):
            self.fault(f"version {active} lists {sorted(e['name'] for e in listed)}, not {sorted(called)}")
        for entry in listed:
            birth = called.get(entry["name"], "")
            if self.born.setdefault(entry["id"], birth) != birth:
                self.fault(f"{entry['id']} was {self.born[entry['id']]} and is {birth}")

    def check_updates(self) -> None:
        for update, sent in self.sent.items():
            state = sent.entry.get("state")
            allowed = ("succeeded", "cancelled") if sent.cancelled else ("succeeded",)
            if state not in allowed or not sent.entry.get("purged_at"):
                self.fault(f"update {update} ended as {state}: {sent.entry.get('error')}")
            if (state == "succeeded") != (sent.entry.get("version") is not None):
                self.fault(f"update {update} is {state} with version {sent.entry.get('version')}")

    def check_answers(self, versions: dict[int, dict[str, Any]], created: dict[int, float]) -> None:
        """Each was of one version, which existed, with the classes of just that version."""
        expected = self.classes(versions)
        for answer in self.answers:
            if created.get(answer.version, float("inf")) > answer.at:
                self.fault(f"an answer is of version {answer.version}, which did not exist at {answer.at}")
            elif answer.ids is not None:
                births = {self.born[i] for i in answer.ids if i in self.born}
                if len(answer.ids) != len(expected[answer.version]) or not births <= expected[answer.version]:
                    self.fault(f"an answer of version {answer.version} knows {sorted(births)}")
