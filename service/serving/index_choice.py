"""Which index a number of prototypes gets: exact as long as that is fast, by lists where the recall can be had."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from service.serving.engine import Vectors

__all__ = ["Choice", "IndexFacts", "choose", "mean_gap", "nearest_exactly", "threads"]

logger = logging.getLogger(__name__)

_GAPS = 256  # prototypes that are enough to know how far apart classes are
_SAMPLE = 1024  # queries that the recall is measured with
_AIM = 0.005  # above the recall that is asked for: a sample of a thousand may be wrong by that much
_SPARE = 8  # candidates of an exact search beyond those that are asked for
_AT_ONCE = 256  # queries whose candidates are looked at again
_SEED = 1993
# Twice the root of the number of vectors, few rounds, few vectors a list: one thread sorts a million of 512 dimensions
# in 40 s. Twice as many lists took twice as long and answered no sooner; half as many answered later. A graph (HNSW)
# took 50 s for 100,000, where lists take 2 s.
_LISTS_OF_ROOT, _ROUNDS, _VECTORS_OF_A_LIST = 2, 5, 32


@dataclass(frozen=True)
class Choice:
    """An exact search through 20,000 vectors of 512 dimensions takes 2 ms: less than any net takes for a photo."""

    exact_up_to: int = 20_000
    recall: float = 0.99  # at 1: how often the nearest class is found
    most_probed: float = 0.25  # of the lists; beyond that an exact search costs little more


@dataclass(frozen=True)
class IndexFacts:
    """What is known of an index when it is built. Recall is against an exact search, on a sample of likely queries."""

    kind: Literal["flat", "ivf"]
    gap: float  # root mean square distance from a class to the one next to it; 0 where there is only one
    recall_at_1: float = 1.0
    recall_at_10: float = 1.0
    lists: int | None = None
    probes: int | None = None


def choose(vectors: Vectors, choice: Choice) -> tuple[Any, IndexFacts]:
    """The FAISS index that holds the vectors, and its facts. The same vectors give the same index."""
    gap = mean_gap(vectors)
    if len(vectors) > choice.exact_up_to:
        index, facts = _by_lists(vectors, gap, choice)
        if facts.recall_at_1 >= choice.recall:
            return index, facts
        del index  # before the next one is built: at a million vectors it holds gigabytes
        about = {"action": "index_stays_exact", "classes": len(vectors), "recall": facts.recall_at_1}
        logger.warning("Searching exactly: lists find too few nearest classes", extra=about)
    exact: Any = faiss.IndexFlatL2(vectors.shape[1])
    exact.add(vectors)
    return exact, IndexFacts("flat", gap)


def mean_gap(vectors: Vectors) -> float:
    if len(vectors) < 2:
        return 0.0
    distances, _ = nearest_exactly(vectors[:: -(-len(vectors) // _GAPS)], vectors, 2)
    return float(np.sqrt(np.square(distances[:, 1]).mean()))


def nearest_exactly(queries: Vectors, vectors: Vectors, k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distances and positions of the k nearest, [N, k] each, by brute force.

    For many queries FAISS computes |a|^2 + |b|^2 - 2ab, which is fast but loses the digits of small distances; so it
    only names some candidates more than are asked for, and these are measured again.
    """
    _, candidates = faiss.knn(queries, vectors, min(k + _SPARE, len(vectors)))
    distances = np.empty(candidates.shape)
    for begin in range(0, len(queries), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        apart = queries[part, None].astype(np.float64) - vectors[candidates[part]]
        distances[part] = np.linalg.norm(apart, axis=2)
    order = distances.argsort(axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(candidates, order, 1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """FAISS takes every core unless told otherwise. It is told for the calling thread alone."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _by_lists(vectors: Vectors, gap: float, choice: Choice) -> tuple[Any, IndexFacts]:
    """Vectors near the same centre share a list, and a query looks into the lists of the centres that are nearest to
    it. Lists hold the vectors as they are, so that distances stay exact."""
    lists = round(_LISTS_OF_ROOT * math.sqrt(len(vectors)))
    index: Any = faiss.index_factory(vectors.shape[1], f"IVF{lists},Flat")
    index.cp.seed, index.cp.niter = _SEED, _ROUNDS
    index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, _VECTORS_OF_A_LIST
    index.train(vectors)
    index.add(vectors)

    queries = _likely_queries(vectors, gap)
    distances, positions = nearest_exactly(queries, vectors, 10)
    nearest = vectors[positions[:, 0]]
    index.nprobe = _probes(index, queries, nearest, choice)
    found = np.sqrt(np.maximum(index.search(queries, 10)[0], 0))
    recall_at_1, recall_at_10 = (_recall(found, distances, k) for k in (1, 10))
    return index, IndexFacts("ivf", gap, recall_at_1, recall_at_10, lists, index.nprobe)


def _likely_queries(vectors: Vectors, gap: float) -> Vectors:
    """Images are near the mean of their class but not on it: as far from it, here, as the next class."""
    random = np.random.default_rng(_SEED)
    rows = np.sort(random.permutation(len(vectors))[:_SAMPLE])
    noise = random.standard_normal((len(rows), vectors.shape[1]), dtype=np.float32)
    return vectors[rows] + noise * np.float32(gap / math.sqrt(vectors.shape[1]))


def _probes(index: Any, queries: Vectors, nearest: Vectors, choice: Choice) -> int:
    """How many lists to look into. No search is needed to know: a vector is found when its own list is among them."""
    most = max(1, int(choice.most_probed * index.nlist))
    _, own = index.quantizer.search(nearest, 1)
    _, looked_into = index.quantizer.search(queries, most)
    hits = looked_into == own  # [N, most], at most one in a row
    reached = np.cumsum(hits.mean(axis=0))
    return min(most, 1 + int(np.searchsorted(reached, min(1.0, choice.recall + _AIM) - 1e-9)))


def _recall(found: Vectors, exact: NDArray[np.float64], k: int) -> float:
    """By distance: of two classes at the same place either is right."""
    limit = exact[:, k - 1 : k] * (1 + 1e-5) + 1e-12
    return round(float((found[:, :k] <= limit).mean()), 4)
