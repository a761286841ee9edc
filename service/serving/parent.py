"""What a version takes over from the one that it was built on: most classes, and where to find them, stay the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from service.serving.engine import EngineName, Vectors
from service.serving.index import PrototypeIndex

if TYPE_CHECKING:
    from torch import Tensor

    from service.serving.bundle import Manifest
    from service.serving.index_choice import IndexFacts
    from zstci import Snapshot
    from zstci.prototypes import Prototypes

__all__ = ["Parent", "came_from", "index_of"]

_AT_ONCE = 8192  # rows that are compared


@dataclass(frozen=True)
class Parent:
    """A version whose bytes were checked, and its snapshot in memory."""

    folder: Path
    snapshot: Snapshot
    index: IndexFacts | None
    engine: EngineName
    engine_sha256: str | None

    @classmethod
    def of(cls, folder: Path, snapshot: Snapshot, manifest: Manifest) -> Parent:
        return cls(folder, snapshot, manifest.index, manifest.engine, manifest.engine_sha256)

    def has_net_of(self, snapshot: Snapshot) -> bool:
        """And its way to the common space: then the exported engine is the same, too."""
        import torch  # where there is a snapshot it is loaded already

        mine, other = (_way(one) for one in (self.snapshot, snapshot))
        return mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)


def index_of(snapshot: Snapshot, parent: Parent | None) -> PrototypeIndex:
    """With the lists and codes of the parent's, where it has some."""
    metric, projected = _numpy(snapshot.memory.metric), snapshot.memory.projected.numpy()
    if parent is None or parent.index is None or parent.index.kind != "candidates":
        return PrototypeIndex.over(projected, metric)
    path = parent.folder / "index.faiss"
    try:
        # Mapped, because most of it are vectors that nobody looks at here.
        content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    except FileNotFoundError:  # a copy of a bucket's, which may be cleared away at any time
        return PrototypeIndex.over(projected, metric)
    before = PrototypeIndex.read(path, _numpy(parent.snapshot.memory.metric), parent.index, content)
    rows = came_from(parent.snapshot.prototypes, snapshot.prototypes)
    return PrototypeIndex.over(projected, metric, parent=before, came_from=rows)


def came_from(before: Prototypes, after: Prototypes) -> NDArray[np.int64]:
    """The row there of every class; -1 for one that is new, or whose mean is another by now. [C]"""
    shared = min(len(before), len(after))
    if before.ids[:shared] == after.ids[:shared]:
        rows = np.arange(len(after))
        rows[shared:] = -1
    else:
        row_of = {name: row for row, name in enumerate(before.ids)}
        rows = np.array([row_of.get(name, -1) for name in after.ids], dtype=np.int64)
    old, new = before.means.numpy(), after.means.numpy()
    for begin in range(0, len(rows), _AT_ONCE):
        part = rows[begin : begin + _AT_ONCE]  # a view
        part[(old[part] != new[begin : begin + _AT_ONCE]).any(axis=1)] = -1
    return rows


def _way(snapshot: Snapshot) -> dict[str, Tensor]:
    query = snapshot.memory.query
    tensors: dict[str, Tensor] = dict(snapshot.net.state_dict())
    if query is not None:
        tensors |= {f"query {name}": value for name, value in query.state_dict().items()}
    return tensors


def _numpy(metric: Tensor | None) -> Vectors | None:
    return None if metric is None else metric.numpy()
