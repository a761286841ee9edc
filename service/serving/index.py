"""Nearest-prototype search. Distances are exact, whatever kind of index finds the prototypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from service.serving import candidates
from service.serving.engine import Vectors
from service.serving.index_choice import Choice, IndexFacts, Lineage, choose, mean_gap

__all__ = ["PrototypeIndex"]

# From 20 queries on FAISS computes |a|^2 + |b|^2 - 2ab, which loses the digits of small distances.
_QUERIES_AT_ONCE = 16


class PrototypeIndex:
    """Plain L2 after the snapshot's linear change of space, if it has one (`whitened`)."""

    def __init__(self, index: Any, metric: Vectors | None, facts: IndexFacts) -> None:
        self._index, self._metric = index, metric
        self.facts = facts

    @classmethod
    def of(cls, means: Vectors, metric: Vectors | None, choice: Choice | None = None) -> Self:
        """With a metric there is one copy of the means beside the index while it is built, and none without."""
        return cls.over(_projected(means, metric), metric, choice)

    @classmethod
    def over(
        cls,
        projected: Vectors,
        metric: Vectors | None,
        choice: Choice | None = None,
        parent: Self | None = None,
        came_from: NDArray[np.int64] | None = None,
    ) -> Self:
        """Of means that have gone through the metric. With a parent its lists and codes are taken over, and it is used
        up; `came_from` says which rows are the parent's."""
        lineage = None
        if parent is not None and came_from is not None:
            lineage = Lineage(
                parent._index, parent.facts, came_from, _moved(parent._metric, metric, projected.shape[1])
            )
        index, facts = choose(projected, choice or Choice(), lineage)
        return cls(index, metric, facts)

    @classmethod
    def read(
        cls,
        path: Path,
        metric: Vectors | None,
        facts: IndexFacts | None = None,
        content: NDArray[np.uint8] | None = None,
    ) -> Self:
        """The file holds prototypes that have gone through the metric; queries still have to. `content` is that of the
        file, where it is in memory already."""
        index = _read(np.fromfile(path, dtype=np.uint8) if content is None else content)
        return cls(index, metric, facts or IndexFacts("flat", mean_gap(_stored(index))))

    def write(self, path: Path) -> None:
        faiss.write_index(self._index, str(path))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def gap(self) -> float:
        return self.facts.gap

    def search(self, embeddings: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
        """Distances (not squared) and positions of the k nearest prototypes, [N, min(k, C)] each, nearest first."""
        vectors = _projected(embeddings, self._metric)
        found = [
            self._nearest(vectors[begin : begin + _QUERIES_AT_ONCE], min(k, len(self)))
            for begin in range(0, len(vectors), _QUERIES_AT_ONCE)
        ]
        squares, positions = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return np.sqrt(np.maximum(squares, 0)), positions

    def _nearest(self, vectors: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
        """Squared distances and positions. More lists are looked into where the usual ones hold fewer than k."""
        if self.facts.candidates is not None:
            return candidates.search(self._index, vectors, k, self.facts.candidates)
        squares, positions = self._index.search(vectors, k)
        probes = self.facts.probes  # of lists of whole vectors, in versions from before candidates
        while probes is not None and probes < self._index.nlist and (positions < 0).any():
            probes *= 4
            more: Any = faiss.IVFSearchParameters()
            more.nprobe = probes
            squares, positions = self._index.search(vectors, k, params=more)
        return squares, positions


def _read(content: NDArray[np.uint8]) -> Any:
    """One piece of memory that FAISS looks into; it was read while other threads ran.

    FAISS's own reading allocates list by list, and the heap keeps most of that when the version is dropped: measured,
    a third version in memory after two swaps. Mapped files come and go faster still, but somebody who truncates one, or
    a disk that fails, would end the process at the next query, and what was checked would not be what answers.
    """
    reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(content), content.nbytes)  # type: ignore[attr-defined]  # no stub
    index: Any = faiss.read_index(reader)
    index.referenced_objects = [content]  # FAISS's name for what must live as long
    return index


def _stored(index: Any) -> Vectors:
    """The vectors of an exact index where they are, [C, D]."""
    vectors: Vectors = faiss.rev_swig_ptr(index.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)
    return vectors


def _moved(before: Vectors | None, after: Vectors | None, dim: int) -> Vectors | None:
    """The matrix from one space to the other; None where they are the same."""
    if before is after or (before is not None and after is not None and np.array_equal(before, after)):
        return None
    old, new = (np.eye(dim) if metric is None else metric.astype(np.float64) for metric in (before, after))
    matrix: Vectors = np.linalg.solve(old, new).astype(np.float32)
    return matrix


def _projected(vectors: Vectors, metric: Vectors | None) -> Vectors:
    projected = vectors if metric is None else vectors @ metric
    return np.ascontiguousarray(projected, dtype=np.float32)
