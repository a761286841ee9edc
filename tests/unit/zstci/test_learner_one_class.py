"""A task of a single class has no negatives of its own; the prototypes of *other* classes stand in."""

from typing import Any

import torch
from torch import Tensor

from zstci import Config, Snapshot, TaskData, Vectors, learn
from zstci.config import NetConfig, TrainConfig
from zstci.progress import Watch
from zstci.trainer import fine_tune, importance_of

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


def test_a_class_alone_meets_the_prototypes_in_the_common_space_that_they_live_in() -> None:
    # After a task of zstci the stored prototypes are no longer in the net's own space.
    translated = CONFIG.override(
        **{"translator": "zstci", "translation.hidden": 8, "translation.epochs": 20, "translation.lr": 0.02}
    )
    parent = learn(learn(None, images(0, "ab"), translated), images(2, "de"), translated)
    data, config = images(1, "c"), translated.override(regularizer="ewc")

    child = learn(parent, data, config)

    common: dict[str, Any] = {"task": 3, "negatives": parent.prototypes.means, "query": parent.memory.query}
    net = fine_tune(
        parent.net, data.inputs, data.targets, config, importance=parent.importance, watch=Watch(), **common
    )
    found = importance_of(net, data.inputs, data.targets, config, **common)
    blind = importance_of(net, data.inputs, data.targets, config, **common | {"query": None})
    assert torch.equal(child.net.head.weight, net.head.weight)
    assert torch.equal(child.importance["ewc"]["head.weight"], found["ewc"]["head.weight"])
    assert not torch.equal(found["ewc"]["head.weight"], blind["ewc"]["head.weight"])
