"""A `learn` that is stopped or killed goes on from its last epoch and ends as if nothing had happened, bit for bit."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.unit.zstci import tiny
from zstci import Config, Progress, Snapshot, TaskData, learn
from zstci.errors import Stopped

ROOT = Path(__file__).parents[3]
STAGES = ["fine_tuning", "translating"]
CHANGES = {
    "train.epochs": 4,
    "train.classes_per_batch": 2,
    "train.batchnorm": "train",
    "train.weight": 10.0,
    "translation.epochs": 4,
    "regularizer": "ewc",
    "translator": "zstci",
}
# Convolutions, BatchNorm that moves, springs on the weights and two translator nets: all that a checkpoint must hold.
CONFIG, DATA = tiny.image_config(**CHANGES), tiny.images("2345")
# The same without convolutions, where those do not matter.
QUICK, VECTORS = tiny.vector_config(**CHANGES), tiny.vectors("2345")


def after(epochs: int, stage: str, reports: list[Progress], act: Callable[[], bool]) -> Callable[[], bool]:
    """As `should_stop`: acts at the first batch of the epoch that follows, so in the middle of it."""
    return lambda: sum(report.stage == stage for report in reports) == epochs and act()


def stop(
    parent: Snapshot | None,
    stage: str,
    folder: Path,
    data: TaskData,
    config: Config,
    *,
    epochs: int = 2,
    seconds: float = 0,
) -> None:
    reports: list[Progress] = []
    should_stop = after(epochs, stage, reports, lambda: True)
    with pytest.raises(Stopped):
        learn(parent, data, config, reports.append, should_stop, folder, checkpoint_seconds=seconds)


def die(parent: str, stage: str, folder: str, threads: str) -> None:
    """Runs in a process of its own, and ends it the hard way."""
    torch.set_num_threads(int(threads))
    reports: list[Progress] = []

    def kill() -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    should_stop = after(2, stage, reports, kill)
    learn(Snapshot.load(parent), DATA, CONFIG, reports.append, should_stop, folder, checkpoint_seconds=0)


def finish(
    parent: Snapshot | None, folder: Path, data: TaskData, config: Config
) -> tuple[Snapshot, dict[str, list[int]]]:
    """The snapshot, and the epochs of each stage that were still trained."""
    reports: list[Progress] = []
    snapshot = learn(parent, data, config, reports.append, checkpoints=folder, checkpoint_seconds=0)
    return snapshot, {stage: [report.epoch for report in reports if report.stage == stage] for stage in STAGES}


@pytest.fixture(scope="module")
def parent() -> Snapshot:
    return learn(None, tiny.images("01"), CONFIG)


@pytest.fixture(scope="module")
def uninterrupted(parent) -> Snapshot:
    return learn(parent, DATA, CONFIG)


@pytest.fixture(scope="module")
def quick() -> Snapshot:
    return learn(None, tiny.vectors("01"), QUICK)


@pytest.fixture(scope="module")
def quick_uninterrupted(quick) -> Snapshot:
    return learn(quick, VECTORS, QUICK)


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        ("fine_tuning", {"fine_tuning": [3, 4], "translating": [1, 2, 3, 4]}),
        ("translating", {"fine_tuning": [], "translating": [3, 4]}),
    ],
)
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_an_interrupted_update_goes_on_and_ends_bit_identical(parent, uninterrupted, tmp_path, stage, left, end):
    folder = tmp_path / "checkpoints"
    if end == "stopped":
        stop(parent, stage, folder, DATA, CONFIG)
    else:
        parent.save(tmp_path / "parent")
        arguments = [str(tmp_path / "parent"), stage, str(folder), str(torch.get_num_threads())]
        code = f"from tests.unit.zstci.test_resume import die; die(*{arguments})"
        process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        assert process.returncode == -signal.SIGKILL, process.stderr
    assert (folder / f"{stage}.safetensors").is_file()

    resumed, trained = finish(parent, folder, DATA, CONFIG)

    tiny.assert_same_snapshot(resumed, uninterrupted)
    assert trained == left
    assert list(folder.iterdir()) == []


def test_a_first_task_goes_on_too(tmp_path):
    stop(None, "fine_tuning", tmp_path, VECTORS, QUICK)

    resumed, trained = finish(None, tmp_path, VECTORS, QUICK)

    tiny.assert_same_snapshot(resumed, learn(None, VECTORS, QUICK))
    assert trained["fine_tuning"] == [3, 4]


def test_an_update_of_the_head_goes_on_too(parent, tmp_path):
    config = CONFIG.override(**{"train.trainable": "head", "translation.unify": "unified"})
    for stage in STAGES:
        stop(parent, stage, tmp_path, DATA, config)

        resumed, trained = finish(parent, tmp_path, DATA, config)

        tiny.assert_same_snapshot(resumed, learn(parent, DATA, config))
        assert trained[stage] == [3, 4]


def test_an_update_can_be_stopped_again_and_again(quick, quick_uninterrupted, tmp_path):
    for stage in ("fine_tuning", "fine_tuning", "translating", "translating"):
        stop(quick, stage, tmp_path, VECTORS, QUICK, epochs=1)

    resumed, trained = finish(quick, tmp_path, VECTORS, QUICK)

    tiny.assert_same_snapshot(resumed, quick_uninterrupted)
    assert trained == {"fine_tuning": [], "translating": [3, 4]}


def test_an_update_stopped_before_its_first_checkpoint_starts_again(quick, quick_uninterrupted, tmp_path):
    stop(quick, "fine_tuning", tmp_path, VECTORS, QUICK, seconds=3600)

    resumed, trained = finish(quick, tmp_path, VECTORS, QUICK)

    tiny.assert_same_snapshot(resumed, quick_uninterrupted)
    assert trained["fine_tuning"] == [1, 2, 3, 4]


def stiffer(parent: Snapshot) -> Snapshot:
    """The same net and prototypes, but other importance: all that differs is the training state."""
    scaled = {kind: {name: 2 * v for name, v in values.items()} for kind, values in parent.importance.items()}
    return replace(parent, importance=scaled)


def swapped(parent: Snapshot) -> Snapshot:
    """Another order of the same numbers: every sum over them is the same."""
    prototypes = replace(parent.prototypes, means=parent.prototypes.means.flip(0))
    return replace(parent, memory=replace(parent.memory, prototypes=prototypes))


@pytest.mark.parametrize("other", ["data", "labels", "config", "importance", "prototypes"])
def test_a_checkpoint_of_something_else_is_not_continued(quick, tmp_path, other):
    stop(quick, "translating", tmp_path, VECTORS, QUICK)
    data, config, start = VECTORS, QUICK, quick
    if other == "data":
        data = tiny.vectors("2345", skip=1)
    elif other == "labels":
        data = TaskData(VECTORS.inputs, tuple({"2": "3", "3": "2"}.get(label, label) for label in VECTORS.labels))
    elif other == "config":
        config = QUICK.override(**{"train.lr": 1e-3})
    else:
        start = stiffer(quick) if other == "importance" else swapped(quick)

    snapshot, trained = finish(start, tmp_path, data, config)

    tiny.assert_same_snapshot(snapshot, learn(start, data, config))
    assert trained == {"fine_tuning": [1, 2, 3, 4], "translating": [1, 2, 3, 4]}


def test_a_damaged_checkpoint_costs_time_but_not_the_result(quick, quick_uninterrupted, tmp_path):
    stop(quick, "fine_tuning", tmp_path, VECTORS, QUICK)
    path = tmp_path / "fine_tuning.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    resumed, trained = finish(quick, tmp_path, VECTORS, QUICK)

    tiny.assert_same_snapshot(resumed, quick_uninterrupted)
    assert trained["fine_tuning"] == [1, 2, 3, 4]


def test_without_a_checkpoint_folder_nothing_is_written(quick, quick_uninterrupted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    tiny.assert_same_snapshot(learn(quick, VECTORS, QUICK, checkpoint_seconds=0), quick_uninterrupted)

    assert list(tmp_path.iterdir()) == []
