"""Updates for several processes, and for one to compare with. `torch.distributed.run` starts this file as a module:
`python -m torch.distributed.run ... -m tests.unit.zstci.together FOLDER part ...`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.pictures import save_digits
from tests.unit.zstci import tiny
from zstci import Config, Progress, Snapshot, TaskData, learn
from zstci.distributed import Team, joined
from zstci.errors import InvalidConfig, Stopped
from zstci.tensors import digest

ROOT = Path(__file__).parents[3]
PATIENCE = 120.0

# Two tasks each. Odd sizes: 3 and 5 classes in batches of 2 or 3, 3 images a class, 7 images for two processes.
CASES: dict[str, dict[str, Any]] = {
    "all-finetune-linear": {"regularizer": "finetune", "translator": "linear", "classifier": "whitened"},
    "all-lwf-zstci": {"regularizer": "lwf", "translator": "zstci", "train.batchnorm": "train"},
    "all-ewc-linear": {"regularizer": "ewc", "translator": "linear", "train.batchnorm": "train_first"},
    "all-mas-zstci": {"regularizer": "mas", "translator": "zstci", "train.batchnorm": "train", "train.weight": 1.0},
    "last-ewc-sdc": {"regularizer": "ewc", "translator": "sdc", "train.trainable": "last", "train.accumulate": True},
    "head-lwf-zstci": {"regularizer": "lwf", "translator": "zstci", "train.trainable": "head"},
    "head-mas-auto": {"regularizer": "mas", "translator": "auto", "train.trainable": "head"},
    "frozen": {"regularizer": "frozen", "classifier": "whitened"},
    "one-class": {"regularizer": "lwf", "translator": "linear", "train.batchnorm": "train"},
    "two-images": {"regularizer": "ewc", "translator": "linear", "train.images_per_class": 2},
    "files": {"regularizer": "lwf", "translator": "linear", "net.input.augment": "resized_crop"},
}


def config_of(name: str) -> Config:
    changes = {"train.classes_per_batch": 2, "train.lr": 1e-3, "classifier": "whitened", **CASES[name]}
    return tiny.image_config(**changes)


def data_of(name: str, folder: Path) -> tuple[TaskData, TaskData]:
    if name == "one-class":
        return tiny.images("01", 3), tiny.images("7", 2)
    if name == "two-images":
        return tiny.images("012", 2), tiny.images("34", 2)
    if name == "files":
        made = [folder / "first", folder / "second"]
        return TaskData.from_folder(made[0]), TaskData.from_folder(made[1])
    return tiny.images("012", 5), tiny.images("34567", 3)


def make_files(folder: Path) -> None:
    save_digits(folder / "first", [0, 1], 3, size=12)
    save_digits(folder / "second", [2, 3, 4], 3, size=9)


def two_tasks(name: str, folder: Path) -> Snapshot:
    config, (first, second) = config_of(name), data_of(name, folder)
    return learn(learn(None, first, config), second, config)


def run(processes: int, folder: Path, *parts: str, code: int = 0) -> str:
    """What the processes complained about."""
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, "-m", *launch, "-m", "tests.unit.zstci.together", str(folder), *parts]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode == 0) == (code == 0), done.stderr
    return done.stderr


def _equal(folder: Path, team: Team) -> None:
    for name in CASES:
        snapshot = two_tasks(name, folder)
        (folder / f"{name}-{team.rank}.sha256").write_text(digest(snapshot.tensors()))
        if team.first:
            snapshot.save(folder / name)


def _small(folder: Path, team: Team) -> None:
    """Batches of two images, so that the third process has none."""
    for name in ("one-class", "two-images"):
        config = config_of(name).override(**{"train.images_per_class": 2})
        first, second = data_of(name, folder)
        snapshot = learn(learn(None, first, config), second, config)
        if team.first:
            snapshot.save(folder / name)


def _stopped(folder: Path, team: Team) -> None:
    """Stop in the middle of both stages, and go on to the end; then stop once more and leave the rest to others."""
    name = "all-mas-zstci"
    config, (first, second) = config_of(name), data_of(name, folder)
    parent = learn(None, first, config)
    reports: list[Progress] = []

    def stop_in(stage: str, checkpoints: str) -> None:
        def stop() -> bool:
            assert team.first, "only the first is asked"
            return any(report.stage == stage for report in reports)

        reports.clear()
        try:
            learn(parent, second, config, reports.append, stop, folder / checkpoints, checkpoint_seconds=0)
        except Stopped:
            (folder / f"{checkpoints}-{stage}-{team.rank}.stopped").touch()

    for stage in ("fine_tuning", "translating"):
        stop_in(stage, "checkpoints")
    snapshot = learn(parent, second, config, reports.append, None, folder / "checkpoints", checkpoint_seconds=0)
    (folder / f"reports-{team.rank}").write_text(str(len(reports)))
    if team.first:
        parent.save(folder / "parent")
        snapshot.save(folder / "resumed")
    stop_in("fine_tuning", "left")


def _different(folder: Path, team: Team) -> None:
    name = "frozen"
    try:
        learn(None, data_of(name, folder)[team.rank], config_of(name))
    except InvalidConfig as error:
        (folder / f"refused-{team.rank}").write_text(str(error))


def _broken(folder: Path, team: Team) -> None:
    """The second process's half of the images holds a file that is none."""
    learn(None, TaskData.from_folder(folder / "damaged"), config_of("files").override(regularizer="finetune"))
    (folder / f"learnt-{team.rank}").touch()


PARTS: dict[str, Callable[[Path, Team], None]] = {
    "equal": _equal,
    "small": _small,
    "stopped": _stopped,
    "different": _different,
    "broken": _broken,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    with joined(timeout_seconds=PATIENCE) as team:
        for part in sys.argv[2:]:
            PARTS[part](Path(sys.argv[1]), team)
