"""How `learn` talks to its caller: what it reports, when it stops, and what it refuses before any work starts."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.unit.zstci import tiny
from zstci import Progress, Snapshot, TaskData, Vectors, learn
from zstci.errors import InvalidConfig, InvalidData, SnapshotError, Stopped, TooFewImages, UnknownStrategy

SECOND = tiny.vectors("234")


@pytest.fixture(scope="module")
def parent() -> Snapshot:
    return learn(None, tiny.vectors("01"), tiny.vector_config())


@pytest.fixture(scope="module")
def image_parent() -> Snapshot:
    return learn(None, tiny.images("01"), tiny.image_config())


@pytest.mark.parametrize(
    ("trainable", "stages"),
    [
        ("all", ["embedding", "fine_tuning", "embedding", "translating", "reprojecting"]),
        ("head", ["embedding", "fine_tuning", "translating", "reprojecting"]),
    ],
)
def test_progress_names_its_stages_and_never_goes_back_within_one(image_parent, trainable, stages):
    reports: list[Progress] = []
    config = tiny.image_config(**{"regularizer": "lwf", "translator": "zstci", "train.trainable": trainable})

    learn(image_parent, tiny.images("23456", 20), config, reports.append)  # 100 images: more than one batch

    assert [a.stage for a, b in pairwise([*reports, Progress("", 0)]) if a.stage != b.stage] == stages
    for before, after in pairwise(reports):
        assert after.stage != before.stage or after.fraction > before.fraction
        assert after.stage == before.stage or before.fraction == 1
    assert reports[-1].fraction == 1
    trained = [report for report in reports if report.stage in ("fine_tuning", "translating")]
    assert [(r.epoch, r.epochs) for r in trained] == [(1, 2), (2, 2)] * 2
    assert all(isinstance(report.loss, float) for report in trained)


@pytest.mark.parametrize("stage", ["start", "embedding", "fine_tuning", "translating"])
def test_a_stop_is_answered_at_the_next_batch(image_parent, stage):
    reports: list[Progress] = []
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        stop = stage == "start" or any(report.stage == stage for report in reports)
        asked += stop
        return stop

    config = tiny.image_config(regularizer="lwf", translator="zstci")
    with pytest.raises(Stopped, match="call learn again with the same checkpoint folder"):
        learn(image_parent, tiny.images("23456", 20), config, reports.append, should_stop)

    assert asked == 1
    assert stage == "start" or [report.stage for report in reports].count(stage) == 1


REFUSED: dict[str, tuple[Any, TaskData, type[Exception], str]] = {
    "regularizer": (
        {"regularizer": "lfw"},
        SECOND,
        UnknownStrategy,
        "regularizer 'lfw'; choose one of: ewc, finetune",
    ),
    "translator": ({"translator": "sdk"}, SECOND, UnknownStrategy, "translator 'sdk'; choose one of: auto, linear"),
    "classifier": ({"classifier": "knn"}, SECOND, UnknownStrategy, "classifier 'knn'; choose one of: ncm, whitened"),
    "candidate": ({"translation.candidates": ["sdk"]}, SECOND, UnknownStrategy, "candidate of auto 'sdk'; choose"),
    "device": ({"device": "gpu"}, SECOND, InvalidConfig, "unknown device 'gpu'; use auto, cpu, cuda"),
    "net": ({"net.dim": 9}, SECOND, InvalidConfig, "a snapshot keeps its net; use the parent's net settings"),
    "one image": ({}, tiny.vectors("2", 1), TooFewImages, "class '2' has 1 image; a new class needs at least 2"),
    "width": ({}, TaskData(Vectors(torch.zeros(2, 5)), ("2", "2")), InvalidData, "vectors of 5 .* reads 64"),
    "images": ({}, tiny.images("2"), InvalidData, "'vectors:64' reads ready-made vectors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_before_any_work_starts(parent, case):
    changes, data, error, advice = REFUSED[case]
    reports: list[Progress] = []

    with pytest.raises(error, match=advice):
        learn(parent, data, tiny.vector_config(**{"regularizer": "lwf", **changes}), reports.append)

    assert not reports


def test_vectors_are_refused_by_a_net_that_reads_images(image_parent):
    with pytest.raises(InvalidData, match="'resnet32' reads images"):
        learn(image_parent, SECOND, tiny.image_config())


def test_a_snapshot_without_its_training_state_is_not_saved_as_if_it_were_whole(parent, tmp_path):
    parent.save(tmp_path / "parent")
    served = Snapshot.load(tmp_path / "parent", training=False)

    with pytest.raises(SnapshotError, match="load it with training=True to save it"):
        served.save(tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


def test_a_parent_without_its_training_state_is_refused(parent, tmp_path):
    parent.save(tmp_path / "parent")
    served = Snapshot.load(tmp_path / "parent", training=False)

    with pytest.raises(SnapshotError, match="load it with training=True"):
        learn(served, SECOND, tiny.vector_config())
