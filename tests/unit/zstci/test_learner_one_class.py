"""A task of a single class has no negatives of its own; the prototypes of *other* classes stand in."""

import torch
from torch import Tensor

from zstci import Config, Snapshot, TaskData, Vectors, learn
from zstci.config import NetConfig, TrainConfig

CONFIG = Config(
    net=NetConfig("vectors:6", "none", dim=4),
    train=TrainConfig(epochs=3, lr=1e-2),
    regularizer="finetune",
    translator="linear",
    classifier="ncm",
    device="cpu",
)


def images(seed: int, names: str) -> TaskData:
    values = torch.randn(4 * len(names), 6, generator=torch.Generator().manual_seed(seed))
    return TaskData(Vectors(values), tuple(name for name in names for _ in range(4)))


def movement(before: Snapshot, after: Snapshot) -> Tensor:
    return sum(
        ((a - b).abs().sum() for a, b in zip(before.net.parameters(), after.net.parameters(), strict=True)),
        torch.zeros(()),
    )


def test_a_new_class_alone_is_kept_away_from_the_classes_of_the_past() -> None:
    parent = learn(None, images(0, "ab"), CONFIG)

    assert movement(parent, learn(parent, images(1, "c"), CONFIG)) > 0


def test_a_class_that_comes_back_alone_is_not_pushed_away_from_its_own_prototype() -> None:
    parent = learn(None, images(0, "a"), CONFIG)

    assert movement(parent, learn(parent, images(1, "a"), CONFIG)) == 0


def test_ewc_holds_the_net_when_the_parent_has_no_importance_and_the_task_one_class() -> None:
    parent = learn(None, images(0, "ab"), CONFIG.override(regularizer="frozen"))

    free = movement(parent, learn(parent, images(1, "c"), CONFIG))
    held = movement(parent, learn(parent, images(1, "c"), CONFIG.override(regularizer="ewc")))

    # Adam's step does not depend on the size of the gradient, so "held" is less far, not nowhere.
    assert held < free / 2
