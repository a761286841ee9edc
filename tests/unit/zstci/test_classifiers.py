import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from zstci.classifiers import Scatter, check_classifier, fit_metric, nearest
from zstci.errors import UnknownStrategy
from zstci.prototypes import class_means

DIM = 3
seeds = st.integers(0, 10**6)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def naive_scatter(vectors: Tensor, targets: list[int]) -> Tensor:
    """Sum of outer products, one image at a time."""
    total = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
    for label in set(targets):
        own = torch.stack([vectors[i].double() for i, target in enumerate(targets) if target == label])
        for row in own:
            total += torch.outer(row - own.mean(0), row - own.mean(0))
    return total.float()


def learnt(before: Scatter, vectors: Tensor, targets: list[int]) -> Scatter:
    labels = torch.tensor(targets)
    return before.grown(vectors, labels, class_means(vectors, labels, max(targets) + 1)[0])


@settings(deadline=None, max_examples=40)
@given(seed=seeds, targets=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_scatter_is_the_sum_of_outer_products_around_class_means(seed: int, targets: list[int]) -> None:
    vectors = normal(seed, len(targets), DIM)

    scatter = learnt(Scatter.empty(DIM), vectors, targets)

    torch.testing.assert_close(scatter.matrix, naive_scatter(vectors, targets), rtol=1e-4, atol=1e-5)
    assert scatter.freedom == len(targets) - len(set(targets))


@settings(deadline=None, max_examples=40)
@given(seed=seeds, first=st.lists(st.integers(1, 5), min_size=1, max_size=3), data=st.data())
def test_classes_learnt_in_two_parts_have_the_scatter_of_classes_learnt_at_once(
    seed: int, first: list[int], data: st.DataObject
) -> None:
    second = data.draw(st.lists(st.integers(1, 5), min_size=len(first), max_size=len(first)))
    parts = []
    for i, sizes in enumerate((first, second)):
        targets = [label for label, size in enumerate(sizes) for _ in range(size)]
        parts.append((normal(seed + i, len(targets), DIM), targets))
    (means, counts), (more_means, more_counts) = (class_means(v, torch.tensor(t), len(first)) for v, t in parts)

    apart = learnt(learnt(Scatter.empty(DIM), *parts[0]), *parts[1]).joined(means, counts, more_means, more_counts)

    at_once = learnt(Scatter.empty(DIM), torch.cat([v for v, _ in parts]), parts[0][1] + parts[1][1])
    torch.testing.assert_close(apart.matrix, at_once.matrix, rtol=1e-4, atol=1e-4)
    assert apart.freedom == at_once.freedom


@settings(deadline=None, max_examples=30)
@given(seed=seeds)
def test_transporting_the_scatter_equals_mapping_the_samples(seed: int) -> None:
    vectors, matrix, targets = normal(seed, 9, DIM), normal(seed + 1, DIM, DIM), [0, 0, 0, 1, 1, 1, 2, 2, 2]

    transported = learnt(Scatter.empty(DIM), vectors, targets).transported(matrix)

    mapped = learnt(Scatter.empty(DIM), vectors @ matrix, targets)
    torch.testing.assert_close(transported.matrix, mapped.matrix, rtol=1e-3, atol=1e-4)
    assert torch.equal(transported.matrix, transported.matrix.T)
    assert transported.freedom == mapped.freedom


def test_the_map_that_changes_nothing_leaves_the_scatter_bit_for_bit() -> None:
    scatter = learnt(Scatter.empty(DIM), normal(0, 6, DIM), [0, 0, 0, 1, 1, 1])

    assert torch.equal(scatter.transported(torch.eye(DIM)).matrix, scatter.matrix)


def test_whitening_makes_the_spread_within_classes_round() -> None:
    stretch = torch.tensor([[3.0, 1.0, 0.0], [0.0, 0.5, 0.2], [0.0, 0.0, 1.0]])
    vectors, targets = normal(0, 40, DIM) @ stretch, [0] * 20 + [1] * 20
    scatter = learnt(Scatter.empty(DIM), vectors, targets)

    metric = fit_metric("whitened", scatter, 0.0)

    assert metric is not None
    within = naive_scatter(vectors @ metric, targets) / scatter.freedom
    level = scatter.matrix.diagonal().mean() / scatter.freedom
    torch.testing.assert_close(within / level, torch.eye(DIM), rtol=5e-3, atol=5e-3)


def test_whitening_is_an_inverse_root_of_the_shrunk_covariance() -> None:
    scatter = learnt(Scatter.empty(DIM), normal(0, 12, DIM), [0] * 6 + [1] * 6)

    metric = fit_metric("whitened", scatter, 0.7)

    assert metric is not None
    covariance = scatter.matrix / scatter.freedom
    level = covariance.diagonal().mean()
    shrunk = covariance + 0.7 * level * torch.eye(DIM)
    torch.testing.assert_close(metric.T @ shrunk @ metric / level, torch.eye(DIM), rtol=1e-4, atol=1e-4)


def test_much_shrinkage_leaves_the_order_of_ncm() -> None:
    scatter = learnt(Scatter.empty(DIM), normal(0, 12, DIM), [0] * 6 + [1] * 6)
    queries, means = normal(1, 8, DIM), normal(2, 5, DIM)

    metric = fit_metric("whitened", scatter, 1e6)

    assert torch.equal(nearest(queries, means, metric, 5)[1], nearest(queries, means, None, 5)[1])


def test_a_direction_without_spread_gives_a_finite_metric() -> None:
    vectors = normal(0, 4, DIM) * torch.tensor([1.0, 1.0, 0.0])

    metric = fit_metric("whitened", learnt(Scatter.empty(DIM), vectors, [0, 0, 0, 0]), 0.0)

    assert metric is not None
    assert torch.isfinite(metric).all()


@pytest.mark.parametrize(
    "scatter", [Scatter.empty(DIM), Scatter(torch.zeros(DIM, DIM), 5)], ids=["no sample", "copies of one sample"]
)
def test_without_any_spread_whitening_leaves_the_space_alone(scatter: Scatter) -> None:
    assert fit_metric("whitened", scatter, 1.0) is None


def test_ncm_leaves_the_space_alone() -> None:
    assert fit_metric("ncm", Scatter(torch.eye(DIM), 5), 1.0) is None


@settings(deadline=None, max_examples=40)
@given(seed=seeds, classes=st.integers(1, 7), k=st.integers(1, 9), whitened=st.booleans())
def test_the_search_equals_brute_force(seed: int, classes: int, k: int, whitened: bool) -> None:
    queries, means = normal(seed, 5, DIM), normal(seed + 1, classes, DIM)
    metric = normal(seed + 2, DIM, DIM) if whitened else None

    distances, positions = nearest(queries, means, metric, k)

    assert positions.shape == distances.shape == (5, min(k, classes))
    for b, query in enumerate(queries):
        gaps = [query.double() - mean.double() for mean in means]
        brute = [float((gap if metric is None else gap @ metric.double()).square().sum()) for gap in gaps]
        # Squares: a float32 expansion of |a - b|^2 is exact to about 1e-7 of |a|^2 + |b|^2, not of the distance.
        assert distances[b].square().tolist() == pytest.approx(sorted(brute)[:k], rel=1e-5, abs=1e-4)
        assert [brute[i] for i in positions[b].tolist()] == pytest.approx(sorted(brute)[:k], rel=1e-5, abs=1e-4)


def test_the_search_does_not_bring_vectors_to_length_one() -> None:
    means = torch.tensor([[10.0, 0.0, 0.0], [0.0, 1.0, 0.0]])

    # By angle the first would win.
    assert nearest(torch.tensor([[1.0, 0.1, 0.0]]), means, None)[1].tolist() == [[1]]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownStrategy, match="'knn'; choose one of: ncm, whitened"):
        check_classifier("knn")
    with pytest.raises(UnknownStrategy):
        fit_metric("knn", Scatter.empty(DIM), 1.0)
