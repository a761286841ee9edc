import numpy as np
import pytest

from service.serving.engine import Vectors
from service.serving.index import PrototypeIndex


def normal(seed: int, *shape: int) -> Vectors:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("queries", [1, 16, 50])
@pytest.mark.parametrize("whitened", [False, True])
def test_the_search_equals_brute_force_in_double_precision(queries, whitened):
    means, asked = normal(0, 30, 12), normal(1, queries, 12)
    metric = normal(2, 12, 12) if whitened else None

    distances, positions = PrototypeIndex.of(means, metric).search(asked, 5)

    matrix = np.eye(12) if metric is None else metric.astype(np.float64)
    exact = np.linalg.norm((asked[:, None] - means[None]).astype(np.float64) @ matrix, axis=2)
    assert np.array_equal(positions, exact.argsort(axis=1)[:, :5])
    assert np.allclose(distances, np.sort(exact, axis=1)[:, :5], atol=1e-5)


def test_small_distances_keep_their_digits_whatever_the_number_of_queries():
    means = normal(0, 30, 64)
    asked = means + 1e-4

    distances, _ = PrototypeIndex.of(means, None).search(asked, 1)

    assert np.allclose(distances, 8e-4, rtol=1e-2)


def test_more_neighbours_than_classes_are_all_classes():
    distances, positions = PrototypeIndex.of(normal(0, 3, 4), None).search(normal(1, 2, 4), 10)

    assert distances.shape == positions.shape == (2, 3)


def test_the_gap_is_the_distance_between_neighbouring_classes():
    corners = np.array([[0, 0], [0, 2], [9, 0], [9, 2]], dtype=np.float32)

    assert PrototypeIndex.of(corners, None).gap == 2.0
    assert PrototypeIndex.of(corners[:1], None).gap == 0.0
    assert PrototypeIndex.of(np.arange(1000, dtype=np.float32)[:, None] * 3, None).gap == 3.0


@pytest.mark.parametrize("metric", [None, normal(2, 12, 12)], ids=["plain", "whitened"])
def test_an_index_read_from_its_file_answers_the_same(tmp_path, metric):
    index = PrototypeIndex.of(normal(0, 600, 12), metric)
    index.write(tmp_path / "index.faiss")

    stored = PrototypeIndex.read(tmp_path / "index.faiss", metric)

    assert (len(stored), stored.gap) == (600, index.gap)
    found, expected = (one.search(normal(1, 40, 12), 7) for one in (stored, index))
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])
