"""Made-up classes by the million: nobody has that many photographs, but an index only sees vectors."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tests.pictures import TINY, save_digits
from zstci import Snapshot, TaskData, learn, preset
from zstci.prototypes import Prototypes

__all__ = ["DIM", "class_ids", "families", "likely_queries", "rotation", "snapshot_of"]

DIM = 512
_CLASSES_OF_A_FAMILY = 50
_CHUNK = 65_536


def families(count: int, within: float = 0.5, seed: int = 0) -> Tensor:
    """A mixture of Gaussians, [count, DIM]: classes lie around the centre of their family, `within` as far as centres
    lie around the origin. As in embeddings of images, a few directions carry much of the spread."""
    random = torch.Generator().manual_seed(seed)
    spread = torch.arange(1, DIM + 1).float().rsqrt()
    spread /= spread.norm()
    centres = torch.randn(max(1, count // _CLASSES_OF_A_FAMILY), DIM, generator=random) * spread
    means = torch.empty(count, DIM)
    for part in means.split(_CHUNK):
        family = torch.randint(len(centres), (len(part),), generator=random)
        part.copy_(centres[family] + within * torch.randn(len(part), DIM, generator=random) * spread)
    return means


def likely_queries(means: Tensor, gap: float, count: int, seed: int = 77) -> Tensor:
    """As far from the mean of a class as the next class is; other ones than those that the index was tuned with."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(means), (count,), generator=random)
    return means[rows] + torch.randn(count, DIM, generator=random) * gap / DIM**0.5


def rotation(seed: int = 0) -> Tensor:
    """A metric that costs what any metric costs and changes no distance."""
    return torch.linalg.qr(torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(seed)))[0].contiguous()


def class_ids(count: int) -> tuple[str, ...]:
    """As long as those that the service makes."""
    return tuple(f"c{number:015x}" for number in range(count))


def snapshot_of(count: int) -> Snapshot:
    """A tiny net that has learnt three digits, and in their place remembers `count` made-up classes."""
    config = preset("default").override(**TINY | {"net.dim": DIM})
    with tempfile.TemporaryDirectory() as folder:
        learnt = learn(None, TaskData.from_folder(save_digits(Path(folder), [0, 1, 2])), config)
    counts = torch.full((count,), 6)
    prototypes = Prototypes(class_ids(count), families(count), counts, torch.zeros_like(counts))
    return replace(learnt, memory=replace(learnt.memory, prototypes=prototypes))
