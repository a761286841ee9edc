"""Class means and what is known about each: the whole memory of an old class, no image needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zstci.errors import InvalidData

__all__ = ["Prototypes", "class_means"]


_CHUNK = 1024  # means at a time: what a translator holds in between stays in the cache


@dataclass(frozen=True)
class Prototypes:
    """`means` [C, D] live in the common space of the snapshot; `hops` counts the translations each has been through."""

    ids: tuple[str, ...]
    means: Tensor
    counts: Tensor
    hops: Tensor

    @classmethod
    def empty(cls, dim: int) -> Prototypes:
        nothing = torch.zeros(0, dtype=torch.int64)
        return cls((), torch.zeros(0, dim), nothing, nothing.clone())

    def __len__(self) -> int:
        return len(self.ids)

    def mapped(self, translate: Callable[[Tensor], Tensor]) -> Prototypes:
        """Every mean moved by a translator. The mean is translated, never re-normalised."""
        if not len(self):
            return self
        moved = torch.cat([translate(part) for part in self.means.split(_CHUNK)])
        return replace(self, means=moved, hops=self.hops + 1)

    def merged(self, ids: Iterable[str], means: Tensor, counts: Tensor) -> Prototypes:
        """New classes appended; a known class moves to the mean of all its images, weighted by how many there were."""
        position = {name: i for i, name in enumerate(self.ids)}
        rows = torch.tensor([position.setdefault(name, len(position)) for name in ids], dtype=torch.int64)
        added = len(position) - len(self)
        old_means = torch.cat([self.means, self.means.new_zeros(added, means.shape[1])])
        old_counts = torch.cat([self.counts, self.counts.new_zeros(added)])
        hops = torch.cat([self.hops, self.hops.new_zeros(added)])
        totals = old_counts[rows] + counts
        share = (counts / totals).unsqueeze(1).to(means.dtype)
        # Both are copies already.
        old_means[rows] += share * (means - old_means[rows])
        old_counts[rows] = totals
        return Prototypes(tuple(position), old_means, old_counts, hops)

    def without(self, ids: Iterable[str]) -> Prototypes:
        gone = set(ids)
        unknown = gone - set(self.ids)
        if unknown:
            raise InvalidData(f"no class {sorted(unknown)[0]!r} to remove; `prototypes.ids` names those that are known")
        keep = [i for i, name in enumerate(self.ids) if name not in gone]
        return Prototypes(tuple(self.ids[i] for i in keep), self.means[keep], self.counts[keep], self.hops[keep])


def class_means(vectors: Tensor, targets: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean vector and number of samples per class, [C, D] and [C]. Summed in double: order must not show."""
    counts = torch.bincount(targets, minlength=classes)
    sums = torch.zeros(classes, vectors.shape[1], dtype=torch.float64)
    sums.index_add_(0, targets, vectors.double())
    return (sums / counts.clamp_min(1).unsqueeze(1)).float(), counts
