"""Exact nearest-prototype search."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import faiss
import torch
from torch import Tensor

__all__ = ["PrototypeIndex"]

# From 20 queries on FAISS computes |a|^2 + |b|^2 - 2ab, which loses the digits of small distances.
_QUERIES_AT_ONCE = 16
_GAPS = 256  # prototypes that are enough to know how far apart classes are


class PrototypeIndex:
    """Plain L2 after the snapshot's linear change of space, if it has one (`whitened`)."""

    def __init__(self, index: Any, metric: Tensor | None) -> None:
        self._index, self._metric = index, metric
        self.gap = self._mean_gap()

    @classmethod
    def of(cls, means: Tensor, metric: Tensor | None) -> Self:
        vectors = _projected(means, metric)
        index = faiss.IndexFlatL2(vectors.shape[1])
        index.add(vectors.numpy())
        return cls(index, metric)

    @classmethod
    def read(cls, path: Path, metric: Tensor | None) -> Self:
        """The file holds prototypes that have gone through the metric; queries still have to."""
        return cls(faiss.read_index(str(path)), metric)

    def write(self, path: Path) -> None:
        faiss.write_index(self._index, str(path))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, embeddings: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Distances (not squared) and positions of the k nearest prototypes, [N, min(k, C)] each, nearest first."""
        return self._nearest(_projected(embeddings, self._metric), k)

    def _nearest(self, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        found = [
            self._index.search(part.numpy(), min(k, len(self)))  # squared distances
            for part in vectors.split(_QUERIES_AT_ONCE)
        ]
        squares = torch.cat([torch.from_numpy(part) for part, _ in found])
        positions = torch.cat([torch.from_numpy(part) for _, part in found])
        return squares.clamp_min(0).sqrt(), positions

    def _mean_gap(self) -> float:
        """Root mean square distance from a class to the one next to it; 0 where there is only one."""
        if len(self) < 2:
            return 0.0
        positions = torch.arange(0, len(self), -(-len(self) // _GAPS))
        sample = torch.from_numpy(self._index.reconstruct_batch(positions.numpy()))
        distances, _ = self._nearest(sample, 2)
        return float(distances[:, 1].square().mean().sqrt())


def _projected(vectors: Tensor, metric: Tensor | None) -> Tensor:
    projected = vectors if metric is None else vectors @ metric
    return projected.float().contiguous()
