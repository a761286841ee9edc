"""The loss against a loop over anchors. In double precision, so that the tolerance can be tight."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from zstci.losses import TaskTriplet, batch_hard_triplet, pairwise_distances


def naive_triplet(anchors: Tensor, labels: list[int], margin: float, negatives: list[Tensor]) -> Tensor:
    """One anchor at a time, with torch only for the gradient of a single distance."""
    total = anchors.new_zeros(())
    for i, anchor in enumerate(anchors):
        others = [j for j in range(len(anchors)) if j != i]
        positives = [(anchor - anchors[j]).norm() for j in others if labels[j] == labels[i]]
        away = [(anchor - anchors[j]).norm() for j in others if labels[j] != labels[i]]
        away += [(anchor - negative).norm() for negative in negatives]
        farthest = max(positives, default=anchors.new_zeros(()))
        if away and farthest - min(away) + margin > 0:
            total = total + farthest - min(away) + margin
    return total / len(anchors)


def points(seed: int, count: int, dim: int) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    dim=st.integers(1, 5),
    margin=st.sampled_from([0.0, 0.2, 3.0]),
    extra=st.integers(0, 3),
)
def test_the_triplet_loss_and_its_gradient_equal_a_loop_over_anchors(
    seed: int, labels: list[int], dim: int, margin: float, extra: int
) -> None:
    anchors, negatives = points(seed, len(labels), dim).requires_grad_(), points(seed + 1, extra, dim)

    loss = batch_hard_triplet(anchors, torch.tensor(labels), margin, negatives)
    (gradient,) = torch.autograd.grad(loss, anchors)

    expected = naive_triplet(anchors, labels, margin, list(negatives))
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-6)
    if expected.requires_grad:
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, anchors)[0], atol=1e-6, rtol=1e-6)
    else:
        assert not gradient.any()


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), left=st.integers(0, 5), right=st.integers(0, 5), dim=st.integers(1, 6))
def test_distances_equal_a_loop_over_pairs(seed: int, left: int, right: int, dim: int) -> None:
    a, b = points(seed, left, dim), points(seed + 1, right, dim)

    found = pairwise_distances(a, b)

    assert found.shape == (left, right)
    for i in range(left):
        for j in range(right):
            naive = sum((float(x) - float(y)) ** 2 for x, y in zip(a[i], b[j], strict=True)) ** 0.5
            assert float(found[i, j]) == pytest.approx(naive, rel=1e-6, abs=1e-5)


def test_distances_are_unsquared_and_averaged_over_all_anchors() -> None:
    line = torch.tensor([[0.0], [3.0], [1.0]])

    loss = batch_hard_triplet(line, torch.tensor([0, 0, 1]))

    # Anchor 0: 3 - 1. Anchor 3: 3 - 2. Anchor 1 is alone in its class: 0 - 1 < 0, but it counts in the mean.
    assert loss.item() == pytest.approx((2 + 1 + 0) / 3)


def test_the_margin_is_added_to_every_active_anchor() -> None:
    line, labels = torch.tensor([[0.0], [3.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])

    assert batch_hard_triplet(line, labels, 0.5).item() == pytest.approx(batch_hard_triplet(line, labels).item() + 0.5)


@pytest.mark.parametrize("negatives", [None, torch.zeros(0, 3)])
def test_a_batch_of_one_class_costs_nothing_and_pulls_at_nothing(negatives: Tensor | None) -> None:
    anchors = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()

    loss = batch_hard_triplet(anchors, torch.zeros(4, dtype=torch.int64), 0.2, negatives)
    (gradient,) = torch.autograd.grad(loss, anchors)

    assert loss.item() == 0
    assert torch.equal(gradient, torch.zeros(4, 3))


def test_a_batch_of_one_class_is_kept_away_from_extra_negatives() -> None:
    anchors = torch.tensor([[0.0], [3.0]]).requires_grad_()

    loss = batch_hard_triplet(anchors, torch.tensor([7, 7]), 0.0, torch.tensor([[1.0], [50.0]]))
    (gradient,) = torch.autograd.grad(loss, anchors)

    assert loss.item() == pytest.approx(((3 - 1) + (3 - 2)) / 2)
    assert gradient.any()


def test_embeddings_that_coincide_give_finite_gradients() -> None:
    anchors = torch.ones(6, 4).requires_grad_()

    loss = batch_hard_triplet(anchors, torch.tensor([0, 0, 1, 1, 2, 2]), 0.1, torch.ones(2, 4))
    (gradient,) = torch.autograd.grad(loss, anchors)

    assert loss.item() == pytest.approx(0.1, abs=1e-5)
    assert torch.isfinite(gradient).all()


def test_a_damaged_embedding_shows_in_the_loss_instead_of_vanishing() -> None:
    anchors = torch.tensor([[0.0], [torch.nan], [1.0]])

    assert torch.isnan(batch_hard_triplet(anchors, torch.tensor([0, 0, 1])))
    assert torch.isnan(batch_hard_triplet(anchors, torch.tensor([0, 0, 0])))


def test_a_class_alone_is_compared_with_the_past_in_the_space_of_the_past() -> None:
    anchors, past = points(1, 4, 3), points(2, 2, 3)
    alone, two = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 0, 1, 1])
    triplet = TaskTriplet(0.2, past, lambda x: 2 * x)

    assert triplet(anchors, alone) == batch_hard_triplet(2 * anchors, alone, 0.2, past)
    # Where a batch has negatives of its own, the past is not asked.
    assert triplet(anchors, two) == batch_hard_triplet(anchors, two, 0.2)
