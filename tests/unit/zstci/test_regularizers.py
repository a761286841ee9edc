"""Penalties and importances against loops over weights, images and batches."""

import copy

import pytest
import torch
from torch import Tensor, nn

from zstci.choices import REGULARIZERS
from zstci.errors import UnknownStrategy
from zstci.losses import TaskTriplet
from zstci.nets import EmbeddingNet
from zstci.regularizers import (
    Finetune,
    LwF,
    WeightAnchor,
    check_regularizer,
    default_weight,
    estimate_importance,
)

Batch = tuple[Tensor, Tensor]


def tiny_net(seed: int = 0) -> EmbeddingNet:
    torch.manual_seed(seed)
    trunk = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    return EmbeddingNet(trunk, nn.Linear(5, 3), torch.zeros(1), torch.ones(1))


def some_batches(count: int = 3) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [(torch.randn(6, 4, generator=random), torch.tensor([0, 0, 0, 1, 1, 1])) for _ in range(count)]


def naive_triplet(embeddings: Tensor, labels: Tensor, margin: float) -> Tensor:
    hinges = []
    for i, anchor in enumerate(embeddings):
        gaps = [(anchor - other).norm() for j, other in enumerate(embeddings) if j != i]
        same = [bool(labels[j] == labels[i]) for j in range(len(labels)) if j != i]
        farthest = max(gap for gap, alike in zip(gaps, same, strict=True) if alike)
        nearest = min(gap for gap, alike in zip(gaps, same, strict=True) if not alike)
        hinges.append((farthest - nearest + margin).clamp_min(0))
    return torch.stack(hinges).mean()


def naive_importance(net: EmbeddingNet, batches: list[Batch], kind: str, margin: float) -> dict[str, Tensor]:
    """Plain backward passes, one a batch: mean of the squared gradient of the batch."""
    found = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    for inputs, labels in batches:
        net.zero_grad()
        if kind == "ewc":
            naive_triplet(net(inputs), labels, margin).backward()
        else:
            total = torch.zeros(())
            for raw in net.head(net.trunk(inputs)):
                total = total + raw.square().sum().sqrt()
            total.backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None
            found[name] += parameter.grad**2 / len(batches)
    return found


@pytest.mark.parametrize("kind", ["ewc", "mas"])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_importance_is_the_mean_over_batches_of_the_squared_batch_gradient(kind: str, margin: float) -> None:
    net, batches = tiny_net(), some_batches()

    found = estimate_importance(net, batches, kind, TaskTriplet(margin))

    expected = naive_importance(copy.deepcopy(net), batches, kind, margin)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert value.any()
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("kind", ["ewc", "mas"])
def test_importance_leaves_no_gradient_behind(kind: str) -> None:
    net = tiny_net()

    estimate_importance(net, some_batches(), kind, TaskTriplet(0.2))

    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("kind", ["ewc", "mas"])
def test_a_weight_that_nothing_uses_has_importance_zero(kind: str) -> None:
    net = tiny_net()
    net.register_parameter("unused", nn.Parameter(torch.ones(2, 2)))

    found = estimate_importance(net, some_batches(), kind, TaskTriplet(0.2))

    assert torch.equal(found["unused"], torch.zeros(2, 2))
    assert found["head.weight"].any()


def test_only_weights_that_learn_get_an_importance() -> None:
    net = tiny_net()
    net.trunk.requires_grad_(False)

    assert set(estimate_importance(net, some_batches(), "mas", TaskTriplet(0.0))) == {"head.weight", "head.bias"}


def test_fisher_of_a_single_class_needs_negatives_to_be_more_than_zero() -> None:
    net, inputs = tiny_net(), some_batches(1)[0][0]
    batch = [(inputs, torch.zeros(6, dtype=torch.int64))]

    past = net(inputs).detach().mean(0, keepdim=True)

    alone = estimate_importance(net, batch, "ewc", TaskTriplet(0.2))
    beside_the_past = estimate_importance(net, batch, "ewc", TaskTriplet(0.2, past))

    assert not any(value.any() for value in alone.values())
    assert any(value.any() for value in beside_the_past.values())


def test_lwf_is_half_lambda_times_the_sum_of_squared_moves() -> None:
    net, parent, (inputs, _) = tiny_net(1), tiny_net(0), some_batches(1)[0]
    embeddings = net(inputs)

    penalty = LwF(parent, 0.7)(net, inputs, embeddings)

    after, before, naive = embeddings.tolist(), parent(inputs).tolist(), 0.0
    for i in range(len(inputs)):
        for d in range(3):
            naive += 0.7 / 2 * (after[i][d] - before[i][d]) ** 2
    assert penalty.item() == pytest.approx(naive, rel=1e-5)


def test_lwf_pulls_at_the_net_and_not_at_its_parent() -> None:
    net, parent, (inputs, _) = tiny_net(1), tiny_net(0), some_batches(1)[0]

    torch.autograd.backward(LwF(parent, 1.0)(net, inputs, net(inputs)))

    assert all(parameter.grad is not None for parameter in net.parameters())
    assert all(parameter.grad is None for parameter in parent.parameters())


def test_the_anchor_is_half_lambda_times_importance_times_the_squared_move_of_each_weight() -> None:
    net, parent, (inputs, _) = tiny_net(1), tiny_net(0), some_batches(1)[0]
    importance = estimate_importance(parent, some_batches(), "mas", TaskTriplet(0.0))

    penalty = WeightAnchor(parent, importance, 1e3)(net, inputs, net(inputs))

    old, naive = dict(parent.named_parameters()), 0.0
    for name, parameter in net.named_parameters():
        moves = zip(*(values.flatten().tolist() for values in (importance[name], parameter, old[name])), strict=True)
        naive += sum(1e3 / 2 * weight * (now - then) ** 2 for weight, now, then in moves)
    assert penalty.item() == pytest.approx(naive, rel=1e-4)


def test_the_anchor_remembers_the_weights_of_the_start() -> None:
    net = tiny_net()
    anchor = WeightAnchor(net, {"head.bias": torch.tensor([1.0, 2.0, 0.0])}, 2.0)
    inputs = some_batches(1)[0][0]
    assert anchor(net, inputs, net(inputs)).item() == 0

    with torch.no_grad():
        net.get_parameter("head.bias").add_(3.0)

    assert anchor(net, inputs, net(inputs)).item() == pytest.approx(2.0 / 2 * (1 * 9 + 2 * 9 + 0 * 9), rel=1e-5)


def test_fine_tuning_adds_nothing() -> None:
    net, inputs = tiny_net(), some_batches(1)[0][0]

    assert Finetune()(net, inputs, net(inputs)).item() == 0


def test_the_papers_weights_are_the_defaults_and_zero_is_a_choice() -> None:
    assert {name: default_weight(name, None) for name in ("lwf", "ewc", "mas")} == {"lwf": 1.0, "ewc": 1e7, "mas": 1e6}
    assert default_weight("lwf", 0.0) == 0.0


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownStrategy, match="'lfw'; choose one of: ewc, finetune, frozen, lwf, mas"):
        check_regularizer("lfw")
    assert [check_regularizer(name) for name in REGULARIZERS] == list(REGULARIZERS)
