"""The net as it was learnt, by torch: on a GPU, and wherever no ONNX could be written."""

from __future__ import annotations

from pathlib import Path

import torch

from service.serving.engine import AT_ONCE, Pixels, Vectors
from service.serving.micro_batches import IMAGES, MicroBatches
from zstci import Snapshot
from zstci.devices import on, resolve

__all__ = ["TorchEngine", "load"]

_AT_ONCE = {"cpu": AT_ONCE, "cuda": 64}  # images


class TorchEngine:
    """In full precision on a GPU too: distances must not depend on where they are computed."""

    def __init__(self, snapshot: Snapshot, in_batches: bool | None = None) -> None:
        """A GPU takes 32 images in the time of one; on a CPU each query is faster alone on its core."""
        self._device = resolve(snapshot.config.device)
        self._net, self._memory = on(snapshot.net, self._device), snapshot.memory
        in_batches = self._device.type == "cuda" if in_batches is None else in_batches
        self._batches = MicroBatches() if in_batches else None
        self.together = IMAGES if in_batches else 1

    def embed(self, pixels: Pixels) -> Vectors:
        return self.embed_alone(pixels) if self._batches is None else self._batches.embed(pixels, self.embed_alone)

    @torch.inference_mode()
    def embed_alone(self, pixels: Pixels) -> Vectors:
        images = torch.from_numpy(pixels).split(_AT_ONCE[self._device.type])
        # Channels last is how the units of a GPU read.
        placed = (part.to(self._device, memory_format=torch.channels_last) for part in images)
        parts = [self._net(part).float().cpu() for part in placed]
        return self._memory.common(torch.cat(parts)).numpy()


def load(folder: Path) -> TorchEngine:
    """For serving: queries side by side, each on one core."""
    torch.set_num_threads(1)
    return TorchEngine(Snapshot.load(folder, training=False))
