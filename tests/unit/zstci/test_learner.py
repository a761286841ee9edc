from itertools import pairwise, product
from typing import Any

import pytest
import torch

from tests.unit.zstci import tiny
from zstci import Snapshot, learn
from zstci.choices import REGULARIZERS
from zstci.progress import Watch
from zstci.trainer import fine_tune
from zstci.translators import TRANSLATORS

FIRST, SECOND = tiny.vectors("01"), tiny.vectors("234")


def trunk(snapshot: Snapshot) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tiny.tensors_of(snapshot).items() if name.startswith("net.trunk")}


@pytest.fixture(scope="module")
def parent() -> Snapshot:
    return learn(None, FIRST, tiny.vector_config(regularizer="lwf"))


@pytest.fixture(scope="module")
def image_parent() -> Snapshot:
    return learn(None, tiny.images("01"), tiny.image_config(**{"regularizer": "lwf", "train.batchnorm": "train"}))


@pytest.mark.parametrize("translator", TRANSLATORS)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_every_pair_of_strategies_learns_on_and_never_touches_the_parent(regularizer, translator):
    config = tiny.vector_config(regularizer=regularizer, translator=translator)
    first = learn(None, FIRST, config)
    before = tiny.tensors_of(first)

    second = learn(first, SECOND, config)
    between = tiny.tensors_of(second)
    third = learn(second, tiny.vectors("50"), config)

    tiny.assert_same_tensors(tiny.tensors_of(first), before)
    tiny.assert_same_tensors(tiny.tensors_of(second), between)
    assert third.prototypes.ids == tuple("012345")
    assert (first.task, second.task, third.task) == (1, 2, 3)
    assert third.prototypes.counts.tolist() == [8, 4, 4, 4, 4, 4]
    assert torch.isfinite(third.prototypes.means).all()
    # `none`, given or chosen by auto, translates nothing; a frozen net needs no translator.
    names = [snapshot.memory.translation.get("name", "none") for snapshot in (second, third)]
    if translator != "auto":
        assert names == ["none" if regularizer == "frozen" else translator] * 2
    hops = [name != "none" for name in names]
    assert third.prototypes.hops.tolist() == [sum(hops)] * 2 + [hops[1]] * 3 + [0]


@pytest.mark.parametrize("batchnorm", ["train", "eval"])
@pytest.mark.parametrize("trainable", ["head", "last", "all"])
def test_a_convolutional_parent_is_never_touched(image_parent, trainable, batchnorm):
    before = tiny.tensors_of(image_parent)
    changes = {"train.trainable": trainable, "train.batchnorm": batchnorm, "regularizer": "ewc", "translator": "zstci"}

    child = learn(image_parent, tiny.images("23"), tiny.image_config(**changes))

    tiny.assert_same_tensors(tiny.tensors_of(image_parent), before)
    assert not torch.equal(tiny.head(child.net), tiny.head(image_parent.net))


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_one_class_at_a_time_is_enough_from_the_first_task_on(regularizer):
    snapshot = None
    for name in "0123":
        snapshot = learn(snapshot, tiny.vectors(name, 6), tiny.vector_config(regularizer=regularizer))

    assert snapshot is not None
    assert snapshot.prototypes.ids == tuple("0123")
    _, found = snapshot.classify(tiny.vectors("0123", 5, skip=6).inputs)
    truth = [name for name in "0123" for _ in range(5)]
    assert sum(row[0] == name for row, name in zip(found, truth, strict=True)) >= 12  # chance: 5


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_uneven_classes_down_to_two_images_are_learnt(regularizer):
    data = tiny.joined(tiny.vectors("0", 2), tiny.vectors("1", 17), tiny.vectors("2", 5))
    config = tiny.vector_config(regularizer=regularizer, translator="zstci")

    snapshot = learn(learn(None, data, config), tiny.joined(tiny.vectors("3", 2), tiny.vectors("4", 9)), config)

    assert snapshot.prototypes.counts.tolist() == [2, 17, 5, 2, 9]
    assert snapshot.memory.scatter.freedom == 35 - 5


def test_more_images_of_a_known_class_count_as_if_all_had_come_at_once():
    config = tiny.vector_config(regularizer="frozen")
    parts = [
        tiny.joined(tiny.vectors("0", 3), tiny.vectors("1", 9)),
        tiny.joined(tiny.vectors("1", 4, 9), tiny.vectors("2")),
    ]

    # One more image is enough for a class that is known.
    stepwise = learn(learn(learn(None, parts[0], config), parts[1], config), tiny.vectors("0", 1, 3), config)
    at_once = learn(None, tiny.joined(*parts, tiny.vectors("0", 1, 3)), config)

    assert stepwise.prototypes.ids == at_once.prototypes.ids == ("0", "1", "2")
    assert stepwise.prototypes.counts.tolist() == at_once.prototypes.counts.tolist() == [4, 13, 4]
    assert stepwise.memory.scatter.freedom == at_once.memory.scatter.freedom
    assert torch.allclose(stepwise.prototypes.means, at_once.prototypes.means, atol=1e-6)
    assert torch.allclose(stepwise.memory.scatter.matrix, at_once.memory.scatter.matrix, atol=1e-5)
    assert stepwise.memory.metric is not None
    assert at_once.memory.metric is not None
    assert torch.allclose(stepwise.memory.metric, at_once.memory.metric, atol=1e-4)


STEPS = [(r, t) for r in REGULARIZERS for t in ("head", "all")]


@pytest.mark.parametrize("second", STEPS, ids="-".join)
@pytest.mark.parametrize("first", STEPS, ids="-".join)
def test_every_switch_of_strategy_between_tasks_works(first, second):
    # The trunk of ready-made vectors has no weights, so `all` and `head` agree here; resnet32 has its own test below.
    configs = [
        tiny.vector_config(**{"regularizer": r, "train.trainable": t, "translator": "linear"})
        for r, t in (first, second)
    ]

    child = learn(learn(None, FIRST, configs[0]), SECOND, configs[1])

    assert child.prototypes.ids == tuple("01234")
    assert bool(child.importance) == (first[0] != "frozen" or second[0] != "frozen")


@pytest.mark.parametrize(("first", "second"), list(pairwise(["frozen", "head", "all", "last", "head", "frozen"])))
@pytest.mark.parametrize("kind", ["ewc", "mas"])
def test_importance_follows_what_learns_on_a_convolutional_net(first, second, kind):
    def config(trainable: str) -> Any:
        if trainable == "frozen":
            return tiny.image_config(**{"regularizer": "frozen", "train.epochs": 1})
        return tiny.image_config(**{"regularizer": kind, "train.trainable": trainable, "train.epochs": 1})

    parent = learn(None, tiny.images("01"), config(first))
    child = learn(parent, tiny.images("23"), config(second))

    every = {name for name, _ in child.net.named_parameters()}
    known, names = set(parent.importance.get(kind, {})), set(child.importance.get(kind, {}))
    learnt: dict[str, set[str]] = {"frozen": set(), "head": {"head.weight", "head.bias"}, "all": every}
    assert names >= known | {"head.weight", "head.bias"}
    if second in learnt:
        assert names == known | learnt[second]
    else:
        assert (names < every) == (first != "all")


def test_importance_of_a_task_replaces_the_last_or_adds_to_it(parent):
    fresh = learn(parent, SECOND, tiny.vector_config(regularizer="lwf"))
    summed = learn(parent, SECOND, tiny.vector_config(**{"regularizer": "lwf", "train.accumulate": True}))

    for kind, name in product(("ewc", "mas"), ("head.weight", "head.bias")):
        assert fresh.importance[kind][name].max() > 0
        assert torch.equal(summed.importance[kind][name], fresh.importance[kind][name] + parent.importance[kind][name])


@pytest.mark.parametrize("accumulate", [False, True])
def test_importance_of_the_trunk_survives_a_task_of_the_head(image_parent, accumulate):
    config = tiny.image_config(**{"regularizer": "ewc", "train.trainable": "head", "train.accumulate": accumulate})

    child = learn(image_parent, tiny.images("23"), config)

    kept, before = child.importance["ewc"], image_parent.importance["ewc"]
    assert set(kept) == set(before)
    assert all(torch.equal(kept[name], before[name]) for name in before if name.startswith("trunk"))
    assert not torch.equal(kept["head.weight"], before["head.weight"])


def test_importance_lasts_from_head_to_all_to_frozen_to_ewc():
    def config(**settings: Any) -> Any:
        return tiny.image_config(**{"train.epochs": 1, "train.batchnorm": "train"} | settings)

    head = learn(None, tiny.images("01"), config(**{"regularizer": "lwf", "train.trainable": "head"}))
    whole = learn(head, tiny.images("23"), config(**{"regularizer": "ewc", "train.trainable": "all"}))
    frozen = learn(whole, tiny.images("45"), config(regularizer="frozen"))
    last = learn(frozen, tiny.images("67"), config(**{"regularizer": "ewc", "train.trainable": "last"}))

    every = {name for name, _ in head.net.named_parameters()}
    assert set(head.importance["ewc"]) == {"head.weight", "head.bias"}
    assert set(whole.importance["ewc"]) == every
    tiny.assert_same_tensors(frozen.importance["ewc"], whole.importance["ewc"])
    # What the last task did not train is as it was two tasks before.
    before, after = whole.importance["ewc"], last.importance["ewc"]
    assert set(after) == every
    assert torch.equal(after["trunk.conv1.weight"], before["trunk.conv1.weight"])
    assert not torch.equal(after["head.weight"], before["head.weight"])


def test_a_frozen_task_keeps_the_importance_for_the_next_one(parent):
    child = learn(parent, SECOND, tiny.vector_config(regularizer="frozen"))

    assert child.importance == parent.importance
    assert torch.equal(tiny.head(child.net), tiny.head(parent.net))


def test_training_the_head_on_cached_features_is_training_it_on_pixels(image_parent):
    data = tiny.images("23")
    config = tiny.image_config(
        **{"train.trainable": "head", "net.input.augment": "none", "regularizer": "lwf", "train.epochs": 5}
    )
    start = learn(None, tiny.images("01"), config)

    child = learn(start, data, config)

    on_pixels = fine_tune(
        start.net, data.inputs, data.targets, config, task=2, importance={}, negatives=torch.zeros(0, 8), watch=Watch()
    )
    assert not torch.equal(tiny.head(child.net), tiny.head(start.net))
    assert torch.allclose(tiny.head(child.net), tiny.head(on_pixels), atol=1e-5)
    tiny.assert_same_tensors(trunk(child), trunk(start))


@pytest.mark.parametrize("translator", ["zstci", "auto"])
def test_the_same_seed_gives_the_same_snapshot_bit_for_bit(translator):
    def run(seed: int) -> Snapshot:
        config = tiny.image_config(
            **{"regularizer": "ewc", "translator": translator, "train.batchnorm": "train"}, seed=seed
        )
        return learn(learn(None, tiny.images("01"), config), tiny.images("234"), config)

    first = run(1)
    torch.rand(7)  # what else draws random numbers must not matter

    tiny.assert_same_snapshot(first, run(1))
    assert not torch.equal(first.prototypes.means, run(2).prototypes.means)
