from typing import Any

import faiss
import numpy as np
import pytest

from service.serving.engine import Vectors
from service.serving.index import PrototypeIndex
from service.serving.index_choice import Choice, IndexFacts, nearest_exactly

SHORT = Choice(exact_up_to=1000)


def normal(seed: int, *shape: int) -> Vectors:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def families(count: int, dim: int = 32) -> Vectors:
    """Twenty classes around each of many centres, as species are to their families."""
    centres = normal(0, count // 20, dim)
    return centres[np.arange(count) % len(centres)] + 0.3 * normal(1, count, dim)


def brute_force(queries: Vectors, means: Vectors, metric: Vectors | None, k: int) -> tuple[np.ndarray, np.ndarray]:
    matrix = np.eye(means.shape[1]) if metric is None else metric.astype(np.float64)
    distances = np.linalg.norm((queries[:, None] - means[None]).astype(np.float64) @ matrix, axis=2)
    return np.sort(distances, axis=1)[:, :k], distances.argsort(axis=1)[:, :k]


def test_up_to_the_limit_the_search_is_exact_and_beyond_it_by_candidates():
    means = families(1001)

    assert PrototypeIndex.of(means[:1000], None, SHORT).facts.kind == "flat"
    assert PrototypeIndex.of(means, None, SHORT).facts.kind == "candidates"
    exact = PrototypeIndex.of(means, None).facts
    assert exact == IndexFacts("flat", exact.gap)
    assert exact.gap == pytest.approx(1.9, abs=0.5)


def test_the_recall_that_is_recorded_is_had_by_queries_that_were_not_in_the_sample():
    means = families(4000)
    index = PrototypeIndex.of(means, None, SHORT)
    asked = means[:200] + normal(7, 200, 32) * index.gap / np.sqrt(32)

    _, found = index.search(asked, 10)

    _, expected = brute_force(asked, means, None, 10)
    assert (found[:, 0] == expected[:, 0]).mean() >= 0.98
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), expected.tolist(), strict=True)])
    assert shared >= 0.98
    assert shared == pytest.approx(index.facts.recall_at_10, abs=0.02)
    assert min(index.facts.recall_at_1, index.facts.recall_at_10) >= 0.99
    assert index.facts.lists == 126
    assert index.facts.probes is not None
    assert 1 <= index.facts.probes <= 31


def test_more_candidates_are_measured_where_the_codes_say_too_little():
    shapeless = normal(0, 4000, 64)
    few = Choice(exact_up_to=1000, most_probed=1.0, candidates=40, most_candidates=1280)

    index = PrototypeIndex.of(shapeless, None, few)

    assert index.facts.candidates is not None
    assert 40 < index.facts.candidates <= 1280
    assert index.facts.recall_at_10 >= 0.99


@pytest.mark.parametrize("metric", [None, normal(2, 32, 32)], ids=["plain", "whitened"])
def test_distances_of_candidates_are_exact_small_ones_too(metric):
    means = families(3000)
    index = PrototypeIndex.of(means, metric, SHORT)
    assert index.facts.kind == "candidates"

    distances, positions = index.search(means[:40] + 1e-4, 5)

    matrix = np.eye(32) if metric is None else metric.astype(np.float64)
    apart = (means[:40, None] + np.float32(1e-4)).astype(np.float64) - means[positions]
    assert np.array_equal(positions[:, 0], np.arange(40))
    assert np.allclose(distances, np.linalg.norm(apart @ matrix, axis=2), rtol=1e-2, atol=1e-6)
    assert np.all(np.diff(distances, axis=1) >= 0)


def test_more_neighbours_than_candidates_are_found_all_the_same():
    means = families(2000)
    index = PrototypeIndex.of(means, None, SHORT)

    distances, positions = index.search(means[:20], 2000)

    assert all(sorted(row) == list(range(2000)) for row in positions.tolist())
    assert np.isfinite(distances).all()


def test_where_the_recall_cannot_be_had_the_search_stays_exact(caplog):
    shapeless = normal(0, 2000, 64)  # no two classes are nearer to each other than any others

    index = PrototypeIndex.of(shapeless, None, Choice(exact_up_to=1000, most_probed=0.02))

    assert (index.facts.kind, index.facts.recall_at_1, index.facts.probes) == ("flat", 1.0, None)
    assert [record.action for record in caplog.records] == ["index_stays_exact"]
    asked = normal(1, 30, 64)
    assert np.array_equal(index.search(asked, 5)[1], brute_force(asked, shapeless, None, 5)[1])


def test_the_same_prototypes_give_the_same_file(tmp_path):
    for name in ("one", "two"):
        PrototypeIndex.of(families(2000), None, SHORT).write(tmp_path / name)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("metric", [None, normal(2, 32, 32)], ids=["plain", "whitened"])
def test_candidates_read_from_their_file_answer_the_same(tmp_path, metric):
    index = PrototypeIndex.of(families(2000), metric, SHORT)
    index.write(tmp_path / "index.faiss")

    stored = PrototypeIndex.read(tmp_path / "index.faiss", metric, index.facts)

    assert (len(stored), stored.facts, stored.gap) == (2000, index.facts, index.gap)
    (distances, positions), expected = stored.search(normal(1, 40, 32), 100), index.search(normal(1, 40, 32), 100)
    assert np.array_equal(distances, expected[0])
    assert np.array_equal(positions, expected[1])


def test_classes_at_the_same_place_are_as_good_as_each_other():
    means = np.repeat(families(200), 10, axis=0)

    assert PrototypeIndex.of(means, None, SHORT).facts.recall_at_1 >= 0.99


def test_an_exact_search_keeps_the_digits_of_small_distances():
    means = 100 + normal(0, 500, 16)

    distances, positions = nearest_exactly(means + np.float32(1e-3), means, 3)

    assert np.array_equal(positions[:, 0], np.arange(500))
    assert np.allclose(distances[:, 0], 4e-3, rtol=0.1)


@pytest.mark.parametrize("metric", [None, normal(2, 32, 32)], ids=["plain", "whitened"])
def test_lists_of_whole_vectors_as_earlier_versions_wrote_them_still_answer(tmp_path, metric):
    means = families(2000)
    projected = np.ascontiguousarray(means if metric is None else means @ metric)
    index: Any = faiss.index_factory(32, "IVF90,Flat")
    index.train(projected)
    index.add(projected)
    index.nprobe = 20
    faiss.write_index(index, str(tmp_path / "index.faiss"))

    stored = PrototypeIndex.read(tmp_path / "index.faiss", metric, IndexFacts("ivf", 1.9, 1.0, 0.9, 90, 20))
    distances, positions = stored.search(means[:40], 2000)

    assert np.array_equal(positions[:, 0], np.arange(40))
    assert all(sorted(row) == list(range(2000)) for row in positions.tolist())
    expected, _ = brute_force(means[:40], means, metric, 2000)
    assert np.allclose(distances, expected, atol=1e-2)


@pytest.mark.parametrize("dim", [2, 3, 5, 31, 33])
def test_vectors_of_any_width_can_be_found_by_candidates(dim):
    means = families(1001, dim)
    index = PrototypeIndex.of(means, None, SHORT)

    assert index.facts.kind == "candidates"
    distances, rows = index.search(means[:50], 1)
    assert rows[:, 0].tolist() == list(range(50))
    assert np.allclose(distances, 0, atol=1e-3)
