"""Pixels for learning: plain, or randomly cropped and flipped."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from zstci.config import InputConfig
from zstci.pixels import to_array

__all__ = ["Crops", "Part", "crop_and_flip", "draw_crops", "draw_part", "resized_crop", "to_pixels"]

_PAD = 4  # of the `crop` augmentation, as in the published runs

Crops = tuple[Tensor, Tensor, Tensor]  # top, left and whether to flip, [B, 1] each
Part = tuple[tuple[int, int, int, int], bool]  # box, and whether to flip


def to_pixels(image: Image.Image, config: InputConfig) -> Tensor:
    """[3, S, S], as `to_array` says."""
    return torch.from_numpy(to_array(image, config))


def draw_crops(count: int, random: torch.Generator) -> Crops:
    """A random place for each image; half of them are flipped."""
    top = torch.randint(2 * _PAD + 1, (count, 1), generator=random)
    left = torch.randint(2 * _PAD + 1, (count, 1), generator=random)
    return top, left, torch.rand((count, 1), generator=random) < 0.5


def crop_and_flip(pixels: Tensor, crops: Crops) -> Tensor:
    """Pad with black, crop back at the given place, flip: all images at once, [B, 3, S, S]."""
    count, _, height, width = pixels.shape
    top, left, flip = crops
    padded = F.pad(pixels, (_PAD, _PAD, _PAD, _PAD)).permute(0, 2, 3, 1)  # [B, S+8, S+8, 3]
    rows = top + torch.arange(height)  # [B, S]
    columns = torch.arange(width)
    columns = left + torch.where(flip, columns.flip(0), columns)
    cropped = padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def draw_part(size: tuple[int, int], random: torch.Generator) -> Part:
    """A random part of 8 % to 100 % of the area, sides 3:4 to 4:3, to be flipped half of the time."""
    box = _random_box(*size, random)
    return box, bool(torch.rand((), generator=random) < 0.5)


def resized_crop(image: Image.Image, size: int, part: Part) -> Tensor:
    """That part, resized to a square, [3, S, S]."""
    box, flip = part
    square = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if flip:
        square = square.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)


def _random_box(width: int, height: int, random: torch.Generator) -> tuple[int, int, int, int]:
    for _ in range(10):
        area, log_ratio, x, y = torch.rand(4, generator=random).tolist()
        target = width * height * (0.08 + 0.92 * area)
        ratio = (4 / 3) ** (2 * log_ratio - 1)
        w, h = round((target * ratio) ** 0.5), round((target / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            left, top = int(x * (width - w + 1)), int(y * (height - h + 1))
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side
