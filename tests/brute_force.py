"""What a query must answer, without any index: for unit and acceptance tests alike."""

from __future__ import annotations

from pathlib import Path

import torch

from zstci import ImageFiles, Snapshot

__all__ = ["distances_to"]


def distances_to(snapshot: Snapshot, image: Path) -> dict[str, float]:
    """Distance to every class, nearest first, in double precision."""
    metric = snapshot.memory.metric
    matrix = torch.eye(snapshot.net.dim).double() if metric is None else metric.double()
    query = snapshot.embed(ImageFiles([image])).double() @ matrix
    distances = (snapshot.prototypes.means.double() @ matrix - query).norm(dim=1)
    found = dict(zip(snapshot.prototypes.ids, distances.tolist(), strict=True))
    return dict(sorted(found.items(), key=lambda entry: entry[1]))
