"""The version that answers, and the slot it is read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from service.errors import NoClassesYet
from service.serving.index import PrototypeIndex
from zstci import Snapshot
from zstci.devices import resolve

__all__ = ["LiveModel", "ModelSlot"]


@dataclass(frozen=True)
class LiveModel:
    """Net, translator, prototypes and index of one version: they are only ever replaced together."""

    version: int
    snapshot: Snapshot
    index: PrototypeIndex
    device: torch.device

    @classmethod
    def load(cls, folder: Path, version: int) -> LiveModel:
        """Checked byte by byte, and warm."""
        live = cls.of(Snapshot.load(folder, training=False), version)
        live.warm_up()
        return live

    @classmethod
    def of(cls, snapshot: Snapshot, version: int) -> LiveModel:
        device = resolve(snapshot.config.device)
        snapshot.net.to(device)
        index = PrototypeIndex(snapshot.prototypes.means, snapshot.memory.metric)
        return cls(version, snapshot, index, device)

    @torch.inference_mode()
    def embed(self, pixels: Tensor) -> Tensor:
        """uint8 pixels [N, 3, S, S] -> vectors in the common space, [N, D]."""
        return self.snapshot.memory.common(self.snapshot.net(pixels.to(self.device)).float().cpu())

    def warm_up(self) -> None:
        """The first pass through a net costs several times the later ones; no query should pay for it."""
        size = self.snapshot.config.net.input.size
        self.index.search(self.embed(torch.zeros(1, 3, size, size, dtype=torch.uint8)), 1)


class ModelSlot:
    """`current` is read once per request, which then stays with what it got. Assigning one reference needs no lock, and
    a replaced model lives until its last request lets go of it."""

    def __init__(self) -> None:
        self._current: LiveModel | None = None

    @property
    def current(self) -> LiveModel:
        live = self._current
        if live is None:
            raise NoClassesYet
        return live

    @property
    def version(self) -> int | None:
        live = self._current
        return live.version if live is not None else None

    def swap(self, live: LiveModel) -> None:
        self._current = live
