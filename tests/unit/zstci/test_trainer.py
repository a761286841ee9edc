import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.unit.zstci import tiny
from zstci import Config, TaskData, Vectors
from zstci.errors import Diverged, NotFinite, Stopped
from zstci.losses import TaskTriplet
from zstci.nets import EmbeddingNet, build_net, choose_trainable
from zstci.progress import Progress, Watch
from zstci.regularizers import estimate_importance
from zstci.trainer import _Batches, embed_all, fine_tune, importance_of, set_mode

CPU = torch.device("cpu")
NOTHING = torch.zeros(0, 8)


def tuned(start: EmbeddingNet, data: TaskData, config: Config, task: int = 2, **given: Any) -> EmbeddingNet:
    everything: dict[str, Any] = {"importance": {}, "negatives": NOTHING, "watch": Watch()} | given
    return fine_tune(start, data.inputs, data.targets, config, task=task, **everything)


def state(net: EmbeddingNet) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def same(first: EmbeddingNet, second: EmbeddingNet) -> bool:
    return all(torch.equal(a, b) for a, b in zip(state(first).values(), state(second).values(), strict=True))


def distance(first: EmbeddingNet, second: EmbeddingNet) -> float:
    return float((tiny.head(first) - tiny.head(second)).norm())


@pytest.fixture
def linear() -> EmbeddingNet:
    return build_net(tiny.VECTOR_NET, seed=1)


@pytest.fixture
def convolutional() -> EmbeddingNet:
    return build_net(tiny.IMAGE_NET, seed=1)


def test_every_input_is_embedded_once_and_in_order(linear):
    values = torch.randn(150, 64, generator=torch.Generator().manual_seed(0))
    data = tiny.images("0123456789", 15)
    pixels = data.inputs.plain(torch.arange(150), tiny.IMAGE_NET.input)
    seen: list[int] = []

    def record(batch: Tensor) -> Tensor:
        seen.append(len(batch))
        return batch.flatten(1).float()

    assert torch.equal(embed_all(linear, Vectors(values), tiny.IMAGE_NET.input, CPU), linear(values))
    assert torch.equal(embed_all(record, data.inputs, tiny.IMAGE_NET.input, CPU), pixels.flatten(1).float())
    assert seen == [16] * 9 + [6]  # small enough that a stop is heard soon


def test_embedding_reports_its_progress_and_stops_when_asked(linear):
    reports: list[Progress] = []
    data = tiny.images("0123456789", 15)

    def flat(batch: Tensor) -> Tensor:
        return batch.flatten(1)

    embed_all(flat, data.inputs, tiny.IMAGE_NET.input, CPU, Watch(reports.append))

    assert [report.fraction for report in reports] == [batch / 10 for batch in range(1, 11)]
    with pytest.raises(Stopped):
        embed_all(flat, data.inputs, tiny.IMAGE_NET.input, CPU, Watch(should_stop=lambda: True))


def test_a_net_that_answers_nan_is_not_believed(linear):
    linear.head.weight.data[0, 0] = torch.nan
    with pytest.raises(NotFinite, match="its weights are damaged or it diverged"):
        embed_all(linear, Vectors(torch.ones(2, 64)), tiny.VECTOR_NET.input, CPU)


@pytest.mark.parametrize("regularizer", ["finetune", "lwf", "ewc", "mas"])
def test_fine_tuning_makes_a_new_net_and_leaves_the_old_one(convolutional, regularizer):
    before = state(convolutional)

    net = tuned(convolutional, tiny.images("01"), tiny.image_config(regularizer=regularizer))

    assert all(torch.equal(value, before[name]) for name, value in convolutional.state_dict().items())
    assert distance(net, convolutional) > 0
    assert not any(parameter.requires_grad for parameter in net.parameters())
    assert not any(module.training for module in net.modules())


def test_mixed_precision_learns_on_a_cpu_too_and_keeps_full_precision_weights(linear):
    config = tiny.vector_config(**{"regularizer": "finetune", "train.precision": "mixed"})

    mixed = tuned(linear, tiny.vectors("01"), config)
    full = tuned(linear, tiny.vectors("01"), config.override(**{"train.precision": "full"}))

    assert all(value.dtype == torch.float32 for value in mixed.parameters())
    assert not same(mixed, full)  # bfloat16 rounds
    assert torch.allclose(mixed.head.weight, full.head.weight, atol=0.05)
    assert distance(mixed, linear) > 0


def test_fine_tuning_pulls_classes_apart(linear):
    data = tiny.vectors("0123", 8)
    config = tiny.vector_config(**{"regularizer": "finetune", "train.epochs": 20})

    def spread(net: EmbeddingNet) -> float:
        """Mean distance within classes over that between them."""
        embeddings = net(data.inputs.plain(torch.arange(32), config.net.input))
        gaps, alike = torch.cdist(embeddings, embeddings), data.targets[:, None] == data.targets[None, :]
        return float(gaps[alike].mean() / gaps[~alike].mean())

    assert spread(tuned(linear, data, config)) < 0.7 * spread(linear)


def test_batches_depend_on_seed_task_and_epoch_alone():
    data, config = tiny.images("0123", 6), tiny.image_config()

    def epoch(number: int, seed: int = 1, task: int = 1) -> Tensor:
        draw = _Batches(data.inputs, data.targets, replace(config, seed=seed), task, CPU)
        return torch.cat([pixels for pixels, _ in draw.epoch(number)])

    draw = _Batches(data.inputs, data.targets, replace(config, seed=1), 1, CPU)
    for number in (0, 1):
        list(draw.epoch(number))
    late = torch.cat([pixels for pixels, _ in draw.epoch(2)])

    assert torch.equal(late, epoch(2))
    assert not any(torch.equal(late, other) for other in (epoch(1), epoch(2, seed=2), epoch(2, task=2)))


def test_batches_pair_every_image_with_its_label():
    data, config = tiny.images("0123", 6), tiny.image_config(**{"net.input.augment": "none"})
    pixels = data.inputs.plain(torch.arange(24), config.net.input)

    for images, labels in _Batches(data.inputs, data.targets, config, 1, CPU).epoch(0):
        assert len(labels.unique()) == 3
        for image, label in zip(images, labels, strict=True):
            places = [place for place in range(24) if torch.equal(pixels[place], image)]
            assert any(data.targets[place] == label for place in places)


@pytest.mark.parametrize(
    ("batchnorm", "task", "trainable", "moving"),
    [
        ("train", 2, "all", "all"),
        ("train_first", 1, "all", "all"),
        ("train_first", 2, "all", "none"),
        ("eval", 1, "all", "none"),
        ("train", 1, "last", "trunk.layer3.4"),
        ("train", 1, "head", "none"),
    ],
)
def test_batchnorm_moves_where_and_when_it_is_asked_to(convolutional, batchnorm, task, trainable, moving):
    config = tiny.image_config(
        **{"train.batchnorm": batchnorm, "train.trainable": trainable, "regularizer": "finetune"}
    )

    net = tuned(convolutional, tiny.images("01"), config, task)

    before, after = state(convolutional), state(net)
    statistics = [name for name in after if "running_" in name]
    moved = [name for name in statistics if not torch.equal(before[name], after[name])]
    assert moved == [name for name in statistics if moving == "all" or name.startswith(moving)]


def test_set_mode_leaves_everything_but_batchnorm_as_at_test_time(convolutional):
    choose_trainable(convolutional, "all")
    set_mode(convolutional, train=True)

    training = [module for module in convolutional.modules() if module.training]
    assert training
    assert all(isinstance(module, nn.BatchNorm2d) for module in training)


@pytest.mark.parametrize("regularizer", ["lwf", "ewc", "mas"])
def test_the_first_task_has_no_past_to_hold_it_back(linear, regularizer):
    config = tiny.vector_config(**{"regularizer": regularizer, "train.weight": 1e9})

    held, free = (tuned(linear, tiny.vectors("01"), c, 1) for c in (config, replace(config, regularizer="finetune")))

    assert same(held, free)


@pytest.mark.parametrize("kind", ["lwf", "ewc", "mas"])
def test_a_larger_weight_holds_the_net_nearer_to_its_past(linear, kind):
    def moved(weight: float) -> float:
        config = tiny.vector_config(**{"train.weight": weight, "train.epochs": 10, "train.lr": 1e-3}, regularizer=kind)
        return distance(tuned(linear, tiny.vectors("01"), config), linear)

    assert moved(1e4) < 0.7 * moved(0.0)


def test_one_class_alone_is_kept_away_from_old_prototypes(linear):
    # With no class beside it, its own images give no gradient at all; a near prototype of another class does.
    data = tiny.vectors("0")
    config = tiny.vector_config(regularizer="finetune")
    prototype = linear(data.inputs.plain(torch.arange(4), config.net.input)).mean(0, keepdim=True) + 0.1

    alone, beside = tuned(linear, data, config), tuned(linear, data, config, negatives=prototype)

    assert same(alone, linear)
    assert distance(beside, linear) > 0


def importance_from(net: EmbeddingNet, data: TaskData, config: Config, negatives: Tensor = NOTHING) -> Any:
    return importance_of(net, data.inputs, data.targets, config, task=1, negatives=negatives)


def test_importance_covers_exactly_what_learns_and_leaves_the_net_alone(convolutional):
    before = state(convolutional)
    for trainable in ("head", "last", "all"):
        config = tiny.image_config(**{"train.trainable": trainable, "train.batchnorm": "train"})

        found = importance_from(convolutional, tiny.images("01"), config)

        expected = choose_trainable(copy.deepcopy(convolutional), config.train.trainable)
        assert set(found) == {"ewc", "mas"}
        assert list(found["ewc"]) == list(found["mas"]) == expected
        assert all(torch.isfinite(value).all() and value.min() >= 0 for value in found["mas"].values())
    assert all(torch.equal(value, before[name]) for name, value in convolutional.state_dict().items())


def test_importance_of_one_class_alone_is_measured_against_old_prototypes(linear):
    data = tiny.vectors("0")
    prototype = linear(data.inputs.plain(torch.arange(4), tiny.VECTOR_NET.input)).mean(0, keepdim=True)

    assert importance_from(linear, data, tiny.vector_config())["ewc"]["head.weight"].max() == 0
    assert importance_from(linear, data, tiny.vector_config(), prototype)["ewc"]["head.weight"].max() > 0


@pytest.mark.parametrize("kind", ["ewc", "mas"])
def test_known_importance_is_used_also_where_less_learns_than_before(linear, kind):
    # all -> head: what the old images said of the head counts more than what the new ones would.
    config = tiny.vector_config(**{"regularizer": kind, "train.weight": 1e6})
    stiff = {name: torch.full_like(value, 1e6) for name, value in linear.named_parameters()}

    kept = tuned(linear, tiny.vectors("01"), config, importance={kind: stiff | {"trunk.conv1.weight": torch.ones(3)}})

    assert same(kept, tuned(linear, tiny.vectors("01"), config, importance={kind: stiff}))


@pytest.mark.parametrize("data", [tiny.vectors("01"), tiny.vectors("0")], ids=["two classes", "one class"])
def test_importance_that_the_parent_lacks_is_estimated_from_the_new_images(linear, data):
    config = tiny.vector_config(regularizer="ewc")
    negatives = linear(data.inputs.plain(torch.arange(4), config.net.input)).mean(0, keepdim=True)
    probe = copy.deepcopy(linear)
    choose_trainable(probe, "all")
    draw = _Batches(data.inputs, data.targets, config, 2, CPU)
    estimated = {"ewc": estimate_importance(probe, draw.epoch(-1), "ewc", TaskTriplet(config.train.margin, negatives))}

    unknown = tuned(linear, data, config, negatives=negatives)

    assert same(unknown, tuned(linear, data, config, negatives=negatives, importance=estimated))
    assert not same(unknown, tuned(linear, data, replace(config, regularizer="finetune"), negatives=negatives))


def test_what_is_known_of_some_weights_is_not_lost_to_an_estimate_of_the_others(linear):
    # head -> all: importance of the head is known, that of the rest is not.
    config = tiny.vector_config(**{"regularizer": "ewc", "train.epochs": 10, "train.lr": 1e-3})
    data = tiny.vectors("01")
    probe = copy.deepcopy(linear).requires_grad_(True)
    batches = _Batches(data.inputs, data.targets, config, 2, CPU).epoch(-1)
    estimated = estimate_importance(probe, batches, "ewc", TaskTriplet(config.train.margin))
    known = {"head.weight": torch.full_like(linear.head.weight, 0.5)}

    partly = tuned(linear, data, config, importance={"ewc": known})

    assert same(partly, tuned(linear, data, config, importance={"ewc": estimated | known}))
    assert not same(partly, tuned(linear, data, config))


def test_a_learning_rate_that_explodes_is_reported(linear):
    config = tiny.vector_config(**{"train.lr": 1e38, "train.epochs": 5, "regularizer": "finetune"})
    with pytest.raises(Diverged, match=r"fine_tuning: the loss became nan in epoch .; lower the learning rate"):
        tuned(linear, tiny.vectors("01"), config)
