"""P classes x K images: every batch holds whole groups, so every anchor has its positives beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["class_members", "epoch_batches"]


def class_members(labels: Tensor) -> list[Tensor]:
    """Positions of each class, in label order."""
    order = torch.argsort(labels, stable=True)
    counts = torch.bincount(labels)
    return [group for group in order.split(counts.tolist()) if len(group)]


def epoch_batches(members: Sequence[Tensor], classes: int, images: int, random: torch.Generator) -> list[Tensor]:
    """One epoch: `images` of every class, in batches of `classes` whole classes; the last partial batch is dropped.

    A class with fewer images gives some twice. A task of fewer classes than a batch holds is one batch of them all.
    """
    shuffled = torch.randperm(len(members), generator=random).tolist()
    groups = [_draw(members[position], images, random) for position in shuffled]
    per_batch = min(classes, len(groups))
    whole = len(groups) - len(groups) % per_batch
    return [torch.cat(groups[start : start + per_batch]) for start in range(0, whole, per_batch)]


def _draw(group: Tensor, count: int, random: torch.Generator) -> Tensor:
    rounds = -(-count // len(group))
    return torch.cat([group[torch.randperm(len(group), generator=random)] for _ in range(rounds)])[:count]
