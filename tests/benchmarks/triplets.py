"""The batch-hard triplet loss without a loop over anchors, against the same loss with one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.benchmarks.inputs import unit_vectors
from tests.benchmarks.measure import Contest, Duel, repeat
from zstci.losses import batch_hard_triplet

__all__ = ["triplets"]

_MARGIN = 0.2
Loss = Callable[[Tensor, Tensor, float], Tensor]


def triplets(folder: Path, quick: bool) -> Contest:
    vectors, labels = unit_vectors(128, 512), torch.arange(16).repeat_interleave(8)
    fast, slow = (loss(vectors, labels, _MARGIN) for loss in (batch_hard_triplet, per_anchor_triplet))
    assert torch.allclose(fast, slow, rtol=1e-4), (fast, slow)
    learning = vectors.clone().requires_grad_()

    def both_ways(loss: Loss) -> None:
        learning.grad = None
        loss(learning, labels, _MARGIN).backward()

    seconds = 0.3 if quick else 0.6
    contestants = {
        "forward": repeat(lambda: batch_hard_triplet(vectors, labels, _MARGIN), 1, seconds),
        "forward, loop": repeat(lambda: per_anchor_triplet(vectors, labels, _MARGIN), 1, seconds),
        "both": repeat(lambda: both_ways(batch_hard_triplet), 1, seconds),
        "both, loop": repeat(lambda: both_ways(per_anchor_triplet), 1, seconds),
    }
    duels = (
        Duel("forward, batch 128, dim 512", "forward", "forward, loop", "batches", 20),
        Duel("forward + backward, batch 128, dim 512", "both", "both, loop", "batches", 20),
    )
    return Contest("Batch-hard triplet over a loop of anchors", contestants, duels)


def per_anchor_triplet(vectors: Tensor, labels: Tensor, margin: float) -> Tensor:
    """One anchor at a time, each with whole-batch torch operations: the loop that one would write first."""
    losses = []
    for anchor, label in zip(vectors, labels, strict=True):
        distances = (vectors - anchor).norm(dim=1)
        same = labels == label
        losses.append(F.relu(distances[same].max() - distances[~same].min() + margin))
    return torch.stack(losses).mean()
