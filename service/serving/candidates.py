"""An index that names some hundred candidates from short codes, and measures those exactly.

A vector is turned so that a few directions hold most of what tells classes apart. In these it lies in one of many lists
and is known by four bits for every two numbers. A query compares itself with the codes of the lists around it, and then
with the vectors themselves of the nearest few hundred, which are kept beside the codes, row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from service.serving.engine import Vectors

__all__ = ["CANDIDATES", "Parts", "build", "grow", "parts_of", "search", "too_few_lists"]

SEED = 1993
CANDIDATES = 400  # a query asks for up to 100 classes
_A_CLASS = 4  # candidates for each class that is asked for
# Twice the root of the number of vectors, few rounds, few vectors a list: more of each made building slower and
# answers no sooner.
_LISTS_OF_ROOT, _ROUNDS, _VECTORS_OF_A_LIST = 2, 5, 32
_GROWN = 1.5  # times as many lists as there are would be made: then they are too long
_TRAINED_WITH = 65_536  # vectors
# Of the spread that the kept directions hold. At a million classes of 512 dimensions that is 128 of them and a recall
# at 10 of 0.999; the candidates make up for the rest.
_KEPT, _LEAST_KEPT = 0.8, 32


@dataclass(frozen=True)
class Parts:
    """What FAISS has put together, each as what it is."""

    turn: Any  # LinearTransform: to the directions that are kept
    lists: Any  # IndexIVFPQFastScan
    exact: Any  # IndexFlat: the vectors, by row


def parts_of(index: Any) -> Parts:
    turned: Any = faiss.downcast_index(index.base_index)
    turn = faiss.downcast_VectorTransform(turned.chain.at(0))
    return Parts(turn, faiss.downcast_index(turned.index), faiss.downcast_index(index.refine_index))


def build(vectors: Vectors) -> Any:
    """The same vectors give the same index."""
    rows = np.sort(np.random.default_rng(SEED).permutation(len(vectors))[:_TRAINED_WITH])
    sample = vectors if len(rows) == len(vectors) else vectors[rows]
    matrix = _directions(sample)
    turn: Any = faiss.LinearTransform(vectors.shape[1], len(matrix), False)
    _set(turn, matrix)
    lists: Any = faiss.index_factory(len(matrix), f"IVF{_lists(len(vectors))},PQ{max(1, len(matrix) // 2)}x4fs")
    lists.cp.seed, lists.cp.niter = SEED, _ROUNDS
    lists.cp.min_points_per_centroid, lists.cp.max_points_per_centroid = 1, _VECTORS_OF_A_LIST
    turned: Any = faiss.IndexPreTransform(turn, lists)
    turned.train(sample)
    turned.add(vectors)
    return _joined(turned, vectors)


def grow(parent: Any, vectors: Vectors, came_from: NDArray[np.int64], moved: Vectors | None) -> Any:
    """The parent's lists and codes with other rows. `came_from` is the parent's row of each vector, or -1 for what is
    new or was changed. Where all of the space was `moved`, by a matrix from the parent's to this one's, only the way
    to the codes changes: they stay what they are."""
    parts = parts_of(parent)
    if moved is not None:
        matrix = faiss.vector_to_array(parts.turn.A).reshape(parts.turn.d_out, parts.turn.d_in)
        _set(parts.turn, np.linalg.solve(moved.astype(np.float64), matrix.T.astype(np.float64)).T)
    kept = np.flatnonzero(came_from >= 0)
    new_row = np.full(parts.exact.ntotal, -1, dtype=np.int64)
    new_row[came_from[kept]] = kept
    again = _without_gone(parts.lists.invlists, new_row)
    fresh = np.sort(np.concatenate([np.flatnonzero(came_from < 0), again]))
    turned: Any = faiss.downcast_index(parent.base_index)
    turned.ntotal = parts.lists.ntotal = len(vectors) - len(fresh)
    if len(fresh):
        turned.add_with_ids(np.ascontiguousarray(vectors[fresh]), fresh)
    grown = _joined(turned, vectors)
    grown.referenced_objects.append(parent)  # it owns the lists
    return grown


def too_few_lists(index: Any, count: int) -> bool:
    return _lists(count) > _GROWN * parts_of(index).lists.nlist


def search(index: Any, vectors: Vectors, k: int, candidates: int) -> tuple[Vectors, NDArray[np.int64]]:
    """Squared distances and rows. Where the lists that are looked into hold fewer than k, all vectors are measured."""
    wanted = min(max(candidates, _A_CLASS * k), index.ntotal)
    parameters: Any = faiss.IndexRefineSearchParameters()
    parameters.k_factor = wanted / k
    squares, rows = index.search(vectors, k, params=parameters)
    few = np.flatnonzero((rows < 0).any(axis=1))
    if len(few):
        squares[few], rows[few] = index.refine_index.search(np.ascontiguousarray(vectors[few]), k)
    return squares, rows


def _joined(turned: Any, vectors: Vectors) -> Any:
    index: Any = faiss.IndexRefineFlat(turned, faiss.swig_ptr(vectors))
    index.referenced_objects = [turned]
    return index


def _directions(sample: Vectors) -> Vectors:
    """Those in which the vectors differ most, [directions, D], as many as hold most of the spread."""
    centred = sample - sample.mean(axis=0)
    spread, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    held = np.cumsum(spread[::-1]) / max(spread.sum(), 1e-30)
    count = max(_LEAST_KEPT, 1 + int(np.searchsorted(held, _KEPT)))
    count = min(-(-count // 8) * 8, sample.shape[1])
    count -= count % 2 if count > 1 else 0  # a code holds two of them
    return np.ascontiguousarray(directions[:, ::-1][:, :count].T, dtype=np.float32)


def _set(turn: Any, matrix: NDArray[Any]) -> None:
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix, dtype=np.float32).ravel(), turn.A)
    turn.is_trained = True


def _lists(count: int) -> int:
    return round(_LISTS_OF_ROOT * math.sqrt(count))


def _without_gone(lists: Any, new_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every code under its new row. A list that loses one is emptied, and the rows that stay in it returned: FAISS
    writes the next code over what a removed one has left behind without clearing it."""
    again = []
    for number in range(lists.nlist):
        if size := lists.list_size(number):
            ids: NDArray[np.int64] = faiss.rev_swig_ptr(lists.get_ids(number), size)
            ids[:] = new_row[ids]
            if ids.min() < 0:
                again.append(ids[ids >= 0])
                lists.resize(number, 0)
    return np.concatenate(again) if again else np.empty(0, dtype=np.int64)
