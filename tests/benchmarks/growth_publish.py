"""One version of many made-up classes, made and published by the worker's own code in a process of its own.

    python -m tests.benchmarks.growth_publish HOME CLASSES     # the first, or the next: every class re-projected

Prints one line of JSON: the seconds of every part, and the most memory that it had.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from service.config import Settings
from service.domain import Facts
from service.serving import bundle, export
from service.storage.artifacts import Artifacts, artifacts_url
from service.storage.database import Database, database_url
from service.storage.versions import NewVersion, VersionStore
from tests.benchmarks.growth_data import DIM, snapshot_of
from zstci import Snapshot

__all__ = ["publish"]

_NICENESS = 10  # the worker's


def publish(settings: Settings, classes: int) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    for part, name in ((bundle, "_write_index"), (export, "export"), (Snapshot, "save")):
        _time(part, name, seconds)
    database = Database(database_url(settings))
    try:
        versions = VersionStore(database)
        artifacts = Artifacts(artifacts_url(settings), settings.home / "cache")
        return _publish(settings, versions, artifacts, classes, seconds)
    finally:
        database.close()


def _publish(
    settings: Settings, versions: VersionStore, artifacts: Artifacts, classes: int, seconds: dict[str, float]
) -> dict[str, Any]:
    parent, clock = versions.active().version, _Clock(seconds)
    if parent is None:
        snapshot, names = snapshot_of(classes), {}
        names = {class_id: f"class {number}" for number, class_id in enumerate(snapshot.prototypes.ids)}
        clock.lap("make up")
    else:
        folder = artifacts.local(versions.get(parent).bundle)
        bundle.verify(folder)
        snapshot, names = Snapshot.load(folder), {}
        clock.lap("load parent")
        snapshot = _reprojected(snapshot)
        clock.lap("re-project")
    shown = versions.names() | names
    clock.lap("read names")
    staged, key = settings.home / "work" / "growth", f"versions/growth-{parent or 0}"
    written = bundle.write(snapshot, staged, shown)
    clock.lap("bundle.write")
    artifacts.put(staged, key)
    clock.lap("put")
    facts = Facts(0.0, 1, classes, (), 0, "resnet32", "frozen", "linear", "whitened", written.engine)
    new = NewVersion(parent, "update", key, written.sha256, written.bytes, facts)
    version = versions.publish(new, expected=parent, activate=True, names=names)
    published_at = time.time()
    clock.lap("publish")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "version": version.number,
        "published_at": published_at,
        "bytes": written.bytes,
        "index": asdict(written.index),
        "seconds": seconds,
        "peak_mib": most,
    }


@torch.no_grad()
def _reprojected(snapshot: Snapshot) -> Snapshot:
    """By a `linear` translator: nearly the identity."""
    drift = torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(snapshot.task)) / DIM**0.5
    matrix = torch.eye(DIM) + 0.05 * drift
    prototypes = snapshot.prototypes.mapped(lambda means: means @ matrix)
    return replace(snapshot, memory=replace(snapshot.memory, prototypes=prototypes))


class _Clock:
    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds, self._begun = seconds, time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._seconds[name], self._begun = round(now - self._begun, 3), now


def _time(part: Any, name: str, seconds: dict[str, float]) -> None:
    """Note how long a function takes, and call it."""
    real: Callable[..., Any] = getattr(part, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        begun = time.monotonic()
        result = real(*arguments, **options)
        seconds[f"of it {name.strip('_')}"] = round(time.monotonic() - begun, 3)
        return result

    setattr(part, name, timed)


if __name__ == "__main__":
    os.nice(_NICENESS)
    torch.set_num_threads(1)
    print(json.dumps(publish(Settings(home=Path(sys.argv[1])), int(sys.argv[2]))))
