"""One of the processes that learn an update together. The worker starts them: `python -m service.learn_process JOB`."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from zstci import Config, ImageFiles, Progress, Snapshot, TaskData, learn
from zstci.distributed import joined
from zstci.errors import ZstciError

__all__ = ["main"]


def main(folder: Path) -> int:
    """0 when the snapshot is there; otherwise the reason is, as `error-<rank>.json`."""
    _end_with_the_worker()
    try:
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        torch.set_num_threads(job["threads"])
        with joined(folder / "meeting") as team:
            snapshot = _learn(job, lambda progress: _report(folder, progress))
            if team.first:
                snapshot.save(job["result"])
    except Exception as error:
        _tell(folder, error)
        raise
    return 0


def _learn(job: dict[str, Any], on_progress: Callable[[Progress], None]) -> Snapshot:
    parent = Snapshot.load(job["parent"]) if job["parent"] else None
    data = TaskData(ImageFiles(job["files"]), tuple(job["labels"]))
    # No `should_stop`: who wants us to stop ends us, and the last checkpoint stays.
    return learn(parent, data, Config.from_dict(job["config"]), on_progress, checkpoints=job["checkpoints"])


def _report(folder: Path, progress: Progress) -> None:
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as reports:
        reports.write(json.dumps(asdict(progress)) + "\n")


def _tell(folder: Path, error: Exception) -> None:
    facts = {
        "type": type(error).__name__,
        "code": error.code if isinstance(error, ZstciError) else None,
        "errno": error.errno if isinstance(error, OSError) else None,
        "detail": str(error),
    }
    path = folder / f"error-{os.environ['RANK']}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(facts), encoding="utf-8")
    partial.replace(path)


def _end_with_the_worker() -> None:
    """At once, even in the middle of a step, when the worker closes our standard input or is gone."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="worker").start()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
