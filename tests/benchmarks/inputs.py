"""Made-up images: enough structure for a JPEG decoder to work as it does on photographs, nothing to download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from zstci.data import ImageArrays, ImageFiles

__all__ = ["jpegs", "small_images", "unit_vectors"]

_PHOTO = (500, 375)  # the usual size of ImageNet's and CUB's files


def small_images(classes: int, per_class: int) -> tuple[ImageArrays, Tensor]:
    pixels = np.random.default_rng(0).integers(0, 256, (classes * per_class, 32, 32, 3), dtype=np.uint8)
    return ImageArrays(pixels), torch.arange(classes).repeat_interleave(per_class)


def jpegs(folder: Path, count: int) -> ImageFiles:
    """Coarse blobs with grain on them, about 100 kB a file."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for path in paths:
        blobs = Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize(_PHOTO)
        grain = random.normal(0, 12, (_PHOTO[1], _PHOTO[0], 3))
        Image.fromarray(np.clip(np.asarray(blobs) + grain, 0, 255).astype(np.uint8)).save(path, quality=90)
    return ImageFiles(paths)


def unit_vectors(count: int, dim: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=random))
