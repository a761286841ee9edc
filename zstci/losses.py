"""Batch-hard triplet loss on plain Euclidean distances, without a loop over samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["TaskTriplet", "batch_hard_triplet", "pairwise_distances"]

# Below the square root: its slope at 0 is infinite, and an anchor is at distance 0 from itself.
_SMALLEST_SQUARE = 1e-12


def pairwise_distances(left: Tensor, right: Tensor) -> Tensor:
    """Unsquared L2 distance of every pair, [A, D] x [B, D] -> [A, B]."""
    return _root(_pairwise_squares(left, right))


def batch_hard_triplet(anchors: Tensor, labels: Tensor, margin: float = 0.0, negatives: Tensor | None = None) -> Tensor:
    """Mean over anchors of max(0, farthest positive - nearest negative + margin).

    `negatives` [M, D] are further vectors, of other classes than every anchor: the prototypes of old classes, say.
    An anchor that has no negative at all adds 0: there is nothing to keep away from.
    """
    squares = _pairwise_squares(anchors, anchors)  # [B, B]; roots are taken of the chosen ones only
    same = labels[:, None] == labels[None, :]
    farthest = squares.masked_fill(~same, 0.0).amax(1)  # [B]
    nearest = squares.masked_fill(same, torch.inf).amin(1)
    if negatives is not None and len(negatives):
        nearest = torch.minimum(nearest, _pairwise_squares(anchors, negatives).amin(1))
    # relu(-inf) is 0 with gradient 0, so an anchor without negatives drops out by itself.
    return F.relu(_root(farthest) - _root(nearest) + margin).mean()


@dataclass(frozen=True)
class TaskTriplet:
    """The triplet loss of a task, whose batches may hold a single class: then there is nothing to keep apart but the
    classes of the past. Their prototypes are `negatives` [M, D], and `query` takes embeddings to the space that these
    live in; without it that is the net's own."""

    margin: float
    negatives: Tensor | None = None
    query: Callable[[Tensor], Tensor] | None = None

    def __call__(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if len(labels.unique()) > 1:
            return batch_hard_triplet(embeddings, labels, self.margin)
        anchors = self.query(embeddings) if self.query is not None else embeddings
        return batch_hard_triplet(anchors, labels, self.margin, self.negatives)


def _pairwise_squares(left: Tensor, right: Tensor) -> Tensor:
    return left.square().sum(1, keepdim=True) + right.square().sum(1) - 2 * left @ right.T


def _root(squares: Tensor) -> Tensor:
    return squares.clamp_min(_SMALLEST_SQUARE).sqrt()
