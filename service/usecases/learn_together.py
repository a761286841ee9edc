"""One update learnt by several processes on this machine, each on a GPU of its own or on its share of the threads."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zstci import Config, ImageFiles, Progress, Snapshot, TaskData
from zstci.errors import Stopped, ZstciError

__all__ = ["Job", "learn_together"]

_LOOK_SECONDS = 0.1


class _Refused(ZstciError):
    """What the library said in one of the processes, under its own code."""


class _Died(RuntimeError):
    """A process ended without an answer; another attempt may do better."""


@dataclass(frozen=True)
class Job:
    """What `zstci.learn` is given, and where its snapshot goes."""

    parent: Snapshot | None
    data: TaskData
    config: Config
    checkpoints: Path
    result: Path


def learn_together(
    job: Job, processes: int, folder: Path, on_progress: Callable[[Progress], None], should_stop: Callable[[], bool]
) -> Snapshot:
    """As `zstci.learn`, through files in `folder`. The processes end with this call, however it ends."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _describe(job, folder, max(1, torch.get_num_threads() // processes))
    reports = _Reports(folder / "progress.jsonl", on_progress)
    team: list[subprocess.Popen[bytes]] = []
    try:
        team += [_start(folder, rank, processes) for rank in range(processes)]
        while team[0].poll() != 0:  # the first one writes
            if should_stop():
                raise Stopped("stopped on request; the next attempt goes on from the last checkpoint")
            reports.pass_on()
            codes = [process.poll() for process in team]
            if any(codes):
                raise _reason(folder, codes)
            time.sleep(_LOOK_SECONDS)
        reports.pass_on()
    finally:
        _end(team)
    return Snapshot.load(job.result)


def _describe(job: Job, folder: Path, threads: int) -> None:
    assert isinstance(job.data.inputs, ImageFiles)  # all that an upload is made of
    parent = folder / "parent"
    if job.parent is not None:
        job.parent.save(parent)
    facts = {
        "parent": str(parent) if job.parent is not None else None,
        "files": [str(path) for path in job.data.inputs.paths],
        "labels": job.data.labels,
        "config": job.config.to_dict(),
        "checkpoints": str(job.checkpoints),
        "result": str(job.result),
        "threads": threads,
    }
    (folder / "job.json").write_text(json.dumps(facts), encoding="utf-8")


def _start(folder: Path, rank: int, size: int) -> subprocess.Popen[bytes]:
    environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loopback:  # they meet in a file and talk within the machine: no port is open to others
        environment["GLOO_SOCKET_IFNAME"] = loopback[0]
    return subprocess.Popen(
        [sys.executable, "-m", "service.learn_process", str(folder)],
        env=os.environ | environment,
        stdin=subprocess.PIPE,  # never written to: it ends when we do
        start_new_session=True,  # Ctrl+C is for the worker, which then ends them
    )


class _Reports:
    """What the first process has written since the last look."""

    def __init__(self, path: Path, on_progress: Callable[[Progress], None]) -> None:
        self._path, self._on_progress, self._read = path, on_progress, 0

    def pass_on(self) -> None:
        if not self._path.is_file():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._read)
            new = stream.read()
        whole = new[: new.rfind(b"\n") + 1]  # the last line may be half written
        self._read += len(whole)
        for line in whole.splitlines():
            self._on_progress(Progress(**json.loads(line)))


def _reason(folder: Path, codes: list[int | None]) -> Exception:
    """Of the error that came first: those of the others are about the one that was missing."""
    told = sorted(folder.glob("error-*.json"), key=lambda path: path.stat().st_mtime_ns)
    killed = [code for code in codes if code is not None and code < 0]
    if killed or not told:
        ended = f"signal {-killed[0]}" if killed else f"exit codes {codes}"
        return _Died(f"a process that learnt the update ended with {ended}; see the worker's log")
    facts: dict[str, Any] = json.loads(told[0].read_text(encoding="utf-8"))
    if facts["code"]:
        refused = _Refused(facts["detail"])
        refused.code = facts["code"]
        return refused
    if facts["errno"]:
        return OSError(facts["errno"], facts["detail"])
    return _Died(f"{facts['type']}: {facts['detail']}")


def _end(team: list[subprocess.Popen[bytes]]) -> None:
    """Nothing is lost: checkpoints and snapshots are written whole or not at all."""
    for process in team:
        process.kill()
    for process in team:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
