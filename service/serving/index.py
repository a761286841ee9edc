"""Exact nearest-prototype search."""

from __future__ import annotations

import faiss
import torch
from torch import Tensor

__all__ = ["PrototypeIndex"]

# From 20 queries on FAISS computes |a|^2 + |b|^2 - 2ab, which loses the digits of small distances.
_QUERIES_AT_ONCE = 16
_GAPS = 256  # prototypes that are enough to know how far apart classes are


class PrototypeIndex:
    """Plain L2 after the snapshot's linear change of space, if it has one (`whitened`)."""

    def __init__(self, means: Tensor, metric: Tensor | None) -> None:
        self._metric = metric
        vectors = self._projected(means)
        self._index = faiss.IndexFlatL2(vectors.shape[1])
        self._index.add(vectors.numpy())
        self.gap = self._mean_gap(vectors)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, embeddings: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Distances (not squared) and positions of the k nearest prototypes, [N, min(k, C)] each, nearest first."""
        return self._nearest(self._projected(embeddings), k)

    def _nearest(self, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        found = [
            self._index.search(part.numpy(), min(k, len(self)))  # squared distances
            for part in vectors.split(_QUERIES_AT_ONCE)
        ]
        squares = torch.cat([torch.from_numpy(part) for part, _ in found])
        positions = torch.cat([torch.from_numpy(part) for _, part in found])
        return squares.clamp_min(0).sqrt(), positions

    def _projected(self, vectors: Tensor) -> Tensor:
        projected = vectors if self._metric is None else vectors @ self._metric
        return projected.float().contiguous()

    def _mean_gap(self, vectors: Tensor) -> float:
        """Root mean square distance from a class to the one next to it; 0 where there is only one."""
        if len(vectors) < 2:
            return 0.0
        sample = vectors[:: -(-len(vectors) // _GAPS)].contiguous()
        distances, _ = self._nearest(sample, 2)
        return float(distances[:, 1].square().mean().sqrt())
