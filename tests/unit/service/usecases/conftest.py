"""A runner of updates on a real database and real files, without a job queue: `run` does what the worker does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.config import Settings
from service.domain import Update, UpdateOptions
from service.usecases.read_upload import ReceivedFile
from service.usecases.submit_update import Submitter
from service.worker_bootstrap import WorkerParts, assemble_worker
from tests.pictures import TINY, archive


class Bench:
    """Submit updates and run them, in this process."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self._folder = settings, folder
        self.shutting_down = threading.Event()
        self.parts: WorkerParts = assemble_worker(settings, self.shutting_down)
        self._submitter = Submitter(
            self.parts.updates, self.parts.versions, self.parts.artifacts, self.parts.jobs, settings
        )
        self._count = 0
        self.before: dict[str, Callable[[], None]] = {}  # what happens just before the version is made, or published
        self._interpose(self.parts.runner._maker, "make")
        self._interpose(self.parts.updates, "note_parent")
        self._interpose(self.parts.versions, "publish")

    def submit(self, digits: list[int], count: int = 6, **options: Any) -> Update:
        """With the tiny net as long as nothing is learnt."""
        self._count += 1
        path = self._folder / f"{self._count}.tar"
        path.write_bytes(archive(digits, count))
        if self.parts.versions.active().version is None:
            options["overrides"] = {**TINY, **options.get("overrides", {})}
        chosen = UpdateOptions(**options)
        target = self._folder / f"staged-{self._count}"
        received = ReceivedFile("archive", path.name, path, path.stat().st_size)
        preview = self._submitter.preview([received], [], [], chosen, target)
        return self._submitter.submit(preview, chosen, target, None).update

    def run(self, update: Update) -> Update:
        self.parts.runner.run(update.id)
        return self.parts.updates.get(update.id)

    def learn(self, digits: list[int], count: int = 6, **options: Any) -> Update:
        update = self.run(self.submit(digits, count, **options))
        assert update.state == "succeeded", update.error
        return update

    def _interpose(self, part: object, name: str) -> None:
        """Something happens in between, and then the real thing."""
        real = getattr(part, name)

        def interposed(*arguments: Any, **options: Any) -> Any:
            happens = self.before.pop(name, None)
            if happens is not None:
                happens()
            return real(*arguments, **options)

        setattr(part, name, interposed)

    def files(self, folder: str) -> list[Path]:
        return [path for path in (self.settings.home / folder).rglob("*") if path.is_file()]

    def close(self) -> None:
        self.parts.close()


@pytest.fixture
def bench(settings: Settings, tmp_path: Path) -> Iterator[Bench]:
    folder = tmp_path / "sent"
    folder.mkdir()
    bench = Bench(settings, folder)
    yield bench
    bench.close()
