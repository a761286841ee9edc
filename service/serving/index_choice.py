"""Which index a number of prototypes gets: exact as long as that is fast, by candidates where the recall can be had."""

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

from service.serving import candidates
from service.serving.candidates import CANDIDATES
from service.serving.engine import Vectors

__all__ = ["Choice", "IndexFacts", "Lineage", "choose", "mean_gap", "nearest_exactly", "threads"]

logger = logging.getLogger(__name__)

_GAPS = 256  # prototypes that are enough to know how far apart classes are
_SAMPLE = 512  # queries that the recall is measured with where an index is built,
_SAMPLE_OF_GROWN = 64  # and where a parent's is taken on: an exact search through all vectors is most of that work
_AIM = 0.0075  # above the recall that is asked for: a sample may be wrong by that much
_SPARE = 8  # candidates of an exact search beyond those that are asked for
_AT_ONCE = 256  # queries whose candidates are looked at again
_SEED = 1993
_MOST_NEW = 0.1  # of the rows; where more are new or changed, the codes are made for them anew


@dataclass(frozen=True)
class Choice:
    """An exact search through 20,000 vectors of 512 dimensions takes 2 ms: less than any net takes for a photo."""

    exact_up_to: int = 20_000
    recall: float = 0.99  # at 1 and at 10: how many of the nearest classes are found
    most_probed: float = 0.25  # of the lists; beyond that an exact search costs little more
    candidates: int = CANDIDATES
    most_candidates: int = 4 * CANDIDATES


@dataclass(frozen=True)
class IndexFacts:
    """What is known of an index when it is built. Recall is against an exact search, on a sample of likely queries."""

    kind: Literal["flat", "ivf", "candidates"]  # ivf: lists of whole vectors, in versions from before candidates
    gap: float  # root mean square distance from a class to the one next to it; 0 where there is only one
    recall_at_1: float = 1.0
    recall_at_10: float = 1.0
    lists: int | None = None
    probes: int | None = None
    candidates: int | None = None


@dataclass(frozen=True)
class Lineage:
    """An index that has most of the vectors already. It is used up: its lists become those of the next."""

    index: Any
    facts: IndexFacts
    came_from: NDArray[np.int64]  # of every vector its row there; -1 where it is new or was changed
    moved: Vectors | None  # the matrix from there to here, where all of the space went through one


def choose(vectors: Vectors, choice: Choice, parent: Lineage | None = None) -> tuple[Any, IndexFacts]:
    """The FAISS index that holds the vectors, and its facts. The same vectors give the same index."""
    if len(vectors) <= choice.exact_up_to or vectors.shape[1] < 2:
        return _exact(vectors), IndexFacts("flat", mean_gap(vectors))
    if parent is not None and (grown := _grown(vectors, choice, parent)):
        return grown
    gap = mean_gap(vectors)
    index, facts = _built(vectors, gap, choice)
    if min(facts.recall_at_1, facts.recall_at_10) >= choice.recall:
        return index, facts
    del index  # before the next one is built: at a million vectors it holds gigabytes
    about = {"action": "index_stays_exact", "classes": len(vectors), "recall": facts.recall_at_10}
    logger.warning("Searching exactly: lists find too few of the nearest classes", extra=about)
    return _exact(vectors), IndexFacts("flat", gap)


def mean_gap(vectors: Vectors) -> float:
    if len(vectors) < 2:
        return 0.0
    distances, _ = nearest_exactly(_spread_out(vectors), vectors, 2)
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


def _exact(vectors: Vectors) -> Any:
    exact: Any = faiss.IndexFlatL2(vectors.shape[1])
    exact.add(vectors)
    return exact


def _built(vectors: Vectors, gap: float, choice: Choice) -> tuple[Any, IndexFacts]:
    index = candidates.build(vectors)
    sample = _Sample.of(vectors, gap, np.random.default_rng(_SEED).permutation(len(vectors))[:_SAMPLE])
    parts = candidates.parts_of(index)
    most = max(1, int(choice.most_probed * parts.lists.nlist))
    probes = _probes(parts, sample, most, choice)
    facts = sample.measured(index, vectors, probes, choice.candidates)
    while min(facts.recall_at_1, facts.recall_at_10) < choice.recall + _AIM:  # the codes may name others
        effort = _more(facts, most, choice)
        if effort == (facts.probes, facts.candidates):
            break
        facts = sample.measured(index, vectors, *effort)
    return index, facts


def _grown(vectors: Vectors, choice: Choice, parent: Lineage) -> tuple[Any, IndexFacts] | None:
    """None where it is better built anew: too much is new, lists have grown too long or find too little."""
    new = np.flatnonzero(parent.came_from < 0)
    facts = parent.facts
    if facts.kind != "candidates" or len(new) > _MOST_NEW * len(vectors):
        return None
    if candidates.too_few_lists(parent.index, len(vectors)):
        return None
    index = candidates.grow(parent.index, vectors, parent.came_from, parent.moved)
    assert facts.probes is not None
    assert facts.candidates is not None
    _look_into(index, facts.probes)
    distances, _ = candidates.search(index, _spread_out(vectors), 2, facts.candidates)
    gap = float(np.sqrt(distances[:, 1].mean()))
    others = np.random.default_rng(_SEED + len(vectors)).permutation(len(vectors))
    rows = np.concatenate([new[: _SAMPLE_OF_GROWN // 2], others])[:_SAMPLE_OF_GROWN]
    facts = _Sample.of(vectors, gap, rows).measured(index, vectors, facts.probes, facts.candidates)
    return (index, facts) if min(facts.recall_at_1, facts.recall_at_10) >= choice.recall else None


@dataclass(frozen=True)
class _Sample:
    """Likely queries and what they should find. Images are near the mean of their class but not on it: as far from it,
    here, as the next class."""

    queries: Vectors
    distances: NDArray[np.float64]  # [N, 10]
    positions: NDArray[np.int64]
    gap: float
    nearest: Vectors  # [N * 10, D]

    @classmethod
    def of(cls, vectors: Vectors, gap: float, rows: NDArray[np.int64]) -> _Sample:
        random = np.random.default_rng(_SEED)
        noise = random.standard_normal((len(rows), vectors.shape[1]), dtype=np.float32)
        queries = vectors[np.sort(rows)] + noise * np.float32(gap / math.sqrt(vectors.shape[1]))
        distances, positions = nearest_exactly(queries, vectors, 10)
        return cls(queries, distances, positions, gap, vectors[positions.ravel()])

    def measured(self, index: Any, vectors: Vectors, probes: int, wanted: int) -> IndexFacts:
        _look_into(index, probes)
        found = np.sqrt(np.maximum(candidates.search(index, self.queries, 10, wanted)[0], 0))
        lists = candidates.parts_of(index).lists.nlist
        at_1, at_10 = (_recall(found, self.distances, k) for k in (1, 10))
        return IndexFacts("candidates", self.gap, at_1, at_10, lists, probes, wanted)


def _look_into(index: Any, probes: int) -> None:
    candidates.parts_of(index).lists.nprobe = probes


def _spread_out(vectors: Vectors) -> Vectors:
    """Some of them, from all over."""
    return vectors[:: -(-len(vectors) // _GAPS)]


def _probes(parts: candidates.Parts, sample: _Sample, most: int, choice: Choice) -> int:
    """How many lists to look into. No search is needed to know: a vector is found when its own list is among them."""
    _, own = parts.lists.quantizer.search(parts.turn.apply(sample.nearest), 1)
    _, looked_into = parts.lists.quantizer.search(parts.turn.apply(sample.queries), most)
    hits = looked_into[:, None] == own.reshape(len(looked_into), -1, 1)  # [N, 10, most], at most one in a row
    reached = np.cumsum(hits.mean(axis=(0, 1)))
    return min(most, 1 + int(np.searchsorted(reached, min(1.0, choice.recall + _AIM) - 1e-9)))


def _more(facts: IndexFacts, most: int, choice: Choice) -> tuple[int, int]:
    """Half as many lists again, and when there are no more, twice the candidates."""
    assert facts.probes is not None
    assert facts.candidates is not None
    if facts.probes < most:
        return min(most, facts.probes + (facts.probes + 1) // 2), facts.candidates
    return most, min(2 * facts.candidates, choice.most_candidates)


def _recall(found: Vectors, exact: NDArray[np.float64], k: int) -> float:
    """By distance: of two classes at the same place either is right."""
    limit = exact[:, k - 1 : k] * (1 + 1e-5) + 1e-12
    return round(float((found[:, :k] <= limit).mean()), 4)
