import pytest
import torch

from service.serving.index import PrototypeIndex


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("queries", [1, 16, 50])
@pytest.mark.parametrize("whitened", [False, True])
def test_the_search_equals_brute_force_in_double_precision(queries, whitened):
    means, asked = normal(0, 30, 12), normal(1, queries, 12)
    metric = normal(2, 12, 12) if whitened else None

    distances, positions = PrototypeIndex.of(means, metric).search(asked, 5)

    matrix = torch.eye(12).double() if metric is None else metric.double()
    exact = torch.cdist(asked.double() @ matrix, means.double() @ matrix, compute_mode="donot_use_mm_for_euclid_dist")
    expected = exact.topk(5, largest=False)
    assert torch.equal(positions, expected.indices)
    assert torch.allclose(distances.double(), expected.values, atol=1e-5)


def test_small_distances_keep_their_digits_whatever_the_number_of_queries():
    means = normal(0, 30, 64)
    asked = means + 1e-4

    distances, _ = PrototypeIndex.of(means, None).search(asked, 1)

    assert torch.allclose(distances, torch.tensor(8e-4), rtol=1e-2)


def test_more_neighbours_than_classes_are_all_classes():
    distances, positions = PrototypeIndex.of(normal(0, 3, 4), None).search(normal(1, 2, 4), 10)

    assert distances.shape == positions.shape == (2, 3)


def test_the_gap_is_the_distance_between_neighbouring_classes():
    corners = torch.tensor([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])

    assert PrototypeIndex.of(corners, None).gap == 2.0
    assert PrototypeIndex.of(corners[:1], None).gap == 0.0
    assert PrototypeIndex.of(torch.arange(1000.0)[:, None] * 3, None).gap == 3.0


@pytest.mark.parametrize("metric", [None, normal(2, 12, 12)], ids=["plain", "whitened"])
def test_an_index_read_from_its_file_answers_the_same(tmp_path, metric):
    index = PrototypeIndex.of(normal(0, 600, 12), metric)
    index.write(tmp_path / "index.faiss")

    stored = PrototypeIndex.read(tmp_path / "index.faiss", metric)

    assert (len(stored), stored.gap) == (600, index.gap)
    for found, expected in zip(stored.search(normal(1, 40, 12), 7), index.search(normal(1, 40, 12), 7), strict=True):
        assert torch.equal(found, expected)
