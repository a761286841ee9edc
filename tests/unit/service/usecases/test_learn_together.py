"""The worker's updates, learnt by processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from service.config import Settings
from service.domain import Update
from tests.unit.service.usecases.conftest import Bench
from tests.unit.zstci.tiny import tensors_of
from zstci import Snapshot

pytestmark = pytest.mark.slow

TRAINED: dict[str, Any] = {
    "regularizer": "lwf",
    "translator": "linear",
    "overrides": {"train.trainable": "all", "train.epochs": 2},
}


@pytest.fixture
def pair(settings: Settings, tmp_path: Path) -> Iterator[Bench]:
    """A worker whose updates are learnt by two processes."""
    folder = tmp_path / "sent"
    folder.mkdir()
    bench = Bench(settings.model_copy(update={"train_processes": 2}), folder)
    yield bench
    bench.close()


def snapshot_of(bench: Bench, update: Update) -> Snapshot:
    assert update.version is not None
    return Snapshot.load(bench.parts.artifacts.local(bench.parts.versions.get(update.version).bundle))


def test_two_processes_make_the_version_that_the_worker_alone_makes(pair: Bench) -> None:
    pair.parts.runner._maker._settings = pair.settings.model_copy(update={"train_processes": 0})
    pair.learn([0, 1])
    alone = pair.learn([2, 3], **TRAINED, activate="manual")
    pair.parts.runner._maker._settings = pair.settings

    together = pair.learn([2, 3], **TRAINED)

    found, expected = tensors_of(snapshot_of(pair, together)), tensors_of(snapshot_of(pair, alone))
    assert sorted(found) == sorted(expected)
    for name, value in found.items():
        # Loose, because single precision and Adam make much of little: the library's own tests are exact.
        scale = float(expected[name].double().abs().max())
        assert torch.allclose(value, expected[name], rtol=0, atol=1e-2 * scale), name
    assert together.metrics["held_out_images"] == alone.metrics["held_out_images"]
    stages = [event.data.get("stage") for event in pair.parts.updates.events(together.id)]
    assert {"embedding", "fine_tuning", "reprojecting", "publishing"} <= set(stages)
    assert pair.files("work") == pair.files("files/uploads") == []


def test_what_one_process_refuses_fails_the_update_with_its_reason(pair: Bench) -> None:
    overrides = {"train.trainable": "all", "train.epochs": 3, "train.lr": 1e30}
    ended = pair.run(pair.submit([0, 1], regularizer="finetune", overrides=overrides))

    assert ended.state == "failed"
    assert ended.error is not None
    assert ended.error.code == "diverged"
    assert "lower the learning rate" in ended.error.detail
    assert ended.attempt == 1
