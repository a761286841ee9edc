"""Runs the real `zstci` with one function wrapped, so that its process is struck at an exact point:

    FAULT=before_publish:kill python points.py worker

The product has no hook for this. A worker is struck in the first attempt of an update only, unless FAULT_AGAIN is set.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

_MEBIBYTE = 2**20
_CLAIM = ("workflow_status", "executor_id", "RETURNING")  # a job of the queue, by this worker
_attempt = 1  # of the update that this process works on
_struck = False


def strike(action: str) -> None:
    global _struck
    if _struck or (_attempt > 1 and "FAULT_AGAIN" not in os.environ):
        return
    _struck = True
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)  # goes on from here after SIGCONT
    if action == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    if action == "starve":
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + 512 * _MEBIBYTE, resource.RLIM_INFINITY))
    while action == "hang":
        time.sleep(60)


def before(owner: Any, name: str, act: Callable[[], None], when: Callable[..., bool] = lambda *_, **__: True) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def struck(*arguments: Any, **options: Any) -> Any:
        if when(*arguments, **options):
            act()
        return original(*arguments, **options)

    setattr(owner, name, struck)


def after(owner: Any, name: str, act: Callable[[], None], when: Callable[..., bool] = lambda *_, **__: True) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def struck(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if when(*arguments, **options):
            act()
        return result

    setattr(owner, name, struck)


def within(act: Callable[[], None], when: Callable[[str], bool]) -> None:
    """In a transaction that has changed something, anybody's: it holds a lock, and is not committed."""
    from sqlalchemy import Engine, event

    @event.listens_for(Engine, "after_cursor_execute")
    def struck(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("UPDATE") and when(statement):
            act()


def install(point: str, act: Callable[[], None]) -> None:
    from service.serving import bundle
    from service.serving.live import LiveModel
    from service.storage import folders, versions
    from service.storage.jobs import Jobs
    from service.storage.updates import UpdateStore
    from service.storage.versions import VersionStore
    from service.usecases.make_version import Maker
    from service.usecases.progress import Reporter

    def half_way(_: Any, stage: str, fraction: float, *__: Any) -> bool:
        return stage == point and fraction >= 0.5

    def delete_half(folder: Path) -> bool:
        if folder.parent.name == "uploads":
            for image in sorted((folder / "images").iterdir())[::2]:
                image.unlink()
            return True
        return False

    if point in ("fine_tuning", "translating", "reprojecting", "evaluating"):
        after(Reporter, "stage", act, half_way)
        return
    {
        "validated": lambda: before(Maker, "_learn", act),
        "bundle_half_written": lambda: before(bundle, "_write_index", act),
        "before_publish": lambda: before(VersionStore, "publish", act),
        "within_publish": lambda: after(versions, "_move", act),
        "within_heartbeat": lambda: within(act, lambda _: threading.current_thread().name == "heartbeat"),
        "within_job": lambda: within(act, lambda words: all(word in words for word in _CLAIM)),
        "job_taken": lambda: before(UpdateStore, "begin", act),
        "after_publish": lambda: after(VersionStore, "publish", act),
        "purging": lambda: before(folders, "clear", act, delete_half),
        "copied": lambda: before(folders, "_rename_over", act, lambda folder, _: folder.name.startswith(".")),
        "purged": lambda: before(UpdateStore, "finish", act),
        "upload_stored": lambda: before(UpdateStore, "add", act),
        "row_stored": lambda: before(Jobs, "enqueue", act),
        "swap": lambda: before(LiveModel, "warm_up", act, lambda live: live.version > 1),
    }[point]()


def hasten() -> None:
    """Only time is faked: checkpoints after every epoch, files without a row cleared after seconds."""
    from service.usecases import sweep
    from zstci.progress import Checkpoints

    def at_once(checkpoints: Checkpoints, *_: Any) -> bool:
        checkpoints._last = -1e9
        return False

    before(Checkpoints, "save", lambda: None, at_once)
    sweep._ORPHAN_SECONDS = sweep._FILES_SECONDS = 2.0


def count_attempts() -> None:
    from service.storage.updates import UpdateStore

    begin = UpdateStore.begin

    def counted(store: UpdateStore, update_id: str) -> Any:
        global _attempt
        update = begin(store, update_id)
        _attempt = update.attempt if update is not None else _attempt
        return update

    UpdateStore.begin = counted  # type: ignore[assignment, method-assign]


def main() -> None:
    hasten()
    count_attempts()
    if "FAULT" in os.environ:
        point, _, action = os.environ["FAULT"].partition(":")
        install(point, lambda: strike(action))
    from service.cli import main as zstci

    zstci()


if __name__ == "__main__":
    main()
