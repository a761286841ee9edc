"""Updates for several processes, and for one to compare with. `torch.distributed.run` starts this file as a module:
`python -m torch.distributed.run ... -m tests.unit.zstci.together FOLDER part ...`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
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
PATIENCE = 600.0  # seconds, for a machine that has other things to do

# Three tasks each, of 2, 3 and 5 classes in batches of 2, with 3 images a class: nothing divides evenly.
#
# Where convolutions learn, in double precision: in single precision another order of a sum tips a ReLU here and there,
# or which image is the hardest, and Adam makes a whole step of it, so two right answers differ by parts in a thousand.
_DOUBLE = {"train.lr": 1e-3, "train.trainable": "all"}
DOUBLE: dict[str, dict[str, Any]] = {
    "finetune": {"regularizer": "finetune", "translator": "linear"},
    "lwf": {"regularizer": "lwf", "translator": "linear", "train.batchnorm": "train"},
    "ewc": {"regularizer": "ewc", "translator": "sdc", "train.batchnorm": "train", "train.accumulate": True},
    "mas": {"regularizer": "mas", "translator": "linear", "train.batchnorm": "train", "train.weight": 1.0},
    "last": {"regularizer": "ewc", "translator": "auto", "train.trainable": "last", "train.batchnorm": "train"},
    "one-class": {
        "regularizer": "lwf",
        "translator": "linear",
        "train.batchnorm": "train",
        "train.images_per_class": 2,
    },
    "two-images": {"regularizer": "ewc", "translator": "linear", "train.images_per_class": 2},
    "files": {"regularizer": "lwf", "translator": "linear", "net.input.augment": "resized_crop"},
}
SINGLE: dict[str, dict[str, Any]] = {
    "head-lwf-zstci": {"regularizer": "lwf", "translator": "zstci", "train.trainable": "head"},
    "head-mas-auto": {"regularizer": "mas", "translator": "auto", "train.trainable": "head", "classifier": "ncm"},
    "frozen": {"regularizer": "frozen"},
    "paper": {"regularizer": "lwf", "translator": "zstci", "train.batchnorm": "train_first", "train.lr": 1e-5},
}


def config_of(name: str) -> Config:
    changes = (_DOUBLE | DOUBLE[name]) if name in DOUBLE else SINGLE[name]
    return tiny.image_config(**{"train.classes_per_batch": 2, "classifier": "whitened", **changes})


def data_of(name: str, folder: Path) -> list[TaskData]:
    if name == "one-class":
        return [tiny.images("01", 3), tiny.images("7", 2)]
    if name == "two-images":
        return [tiny.images("0", 3), tiny.images("34", 2)]
    if name == "files":
        return [TaskData.from_folder(folder / part) for part in ("first", "second")]
    return [tiny.images("01", 3), tiny.images("234", 3), tiny.images("56789", 3)]


def make_files(folder: Path) -> None:
    save_digits(folder / "first", [0, 1], 3, size=12)
    save_digits(folder / "second", [2, 3, 4], 3, size=9)


def all_tasks(name: str, folder: Path) -> Snapshot:
    config, (first, *others) = config_of(name), data_of(name, folder)
    if name in DOUBLE:
        start = learn(None, first, config.override(regularizer="frozen"))
        snapshot = replace(start, net=start.net.double())
    else:
        snapshot = learn(None, first, config)
    for data in others:
        snapshot = learn(snapshot, data, config)
    return snapshot


def load(folder: Path, name: str) -> Snapshot:
    torch.set_default_dtype(torch.float64 if name in DOUBLE else torch.float32)  # of the net that is loaded into
    try:
        return Snapshot.load(folder / name)
    finally:
        torch.set_default_dtype(torch.float32)


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
    for name in (*DOUBLE, *SINGLE):
        snapshot = all_tasks(name, folder)
        (folder / f"{name}-{team.rank}.sha256").write_text(digest(snapshot.tensors()))
        if team.first:
            snapshot.save(folder / name)


def _small(folder: Path, team: Team) -> None:
    """Batches of two and four images, which leave the third process with none or one."""
    for name in ("one-class", "two-images"):
        snapshot = all_tasks(name, folder)
        if team.first:
            snapshot.save(folder / name)


def _stopped(folder: Path, team: Team) -> None:
    """Stop in the middle of both stages, and go on to the end; then stop once more and leave the rest to others."""
    name = "paper"
    config, (first, second, third) = config_of(name), data_of(name, folder)
    parent = learn(learn(None, first, config), second, config)
    reports: list[Progress] = []

    def stop_in(stage: str, checkpoints: str) -> None:
        def stop() -> bool:
            assert team.first, "only the first is asked"
            return any(report.stage == stage for report in reports)

        reports.clear()
        try:
            learn(parent, third, config, reports.append, stop, folder / checkpoints, checkpoint_seconds=0)
        except Stopped:
            (folder / f"{checkpoints}-{stage}-{team.rank}.stopped").touch()

    for stage in ("fine_tuning", "translating"):
        stop_in(stage, "checkpoints")
    snapshot = learn(parent, third, config, reports.append, None, folder / "checkpoints", checkpoint_seconds=0)
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
    names = [(thread / "comm").read_text().strip() for thread in Path("/proc/self/task").glob("*")]
    assert not any("gloo" in name for name in names), "threads of the team outlive it, and may abort the process"
