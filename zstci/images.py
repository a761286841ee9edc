"""From an image to the pixels that a net reads: upright, RGB, one size; plain or randomly cropped and flipped."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional as F

from zstci.config import InputConfig

__all__ = ["crop_and_flip", "resized_crop", "to_pixels", "upright_rgb"]

_PAD = 4  # of the `crop` augmentation, as in the published runs
_LONGEST = 16  # sides: 1 x 60,000 pixels resized to a height of 256 would be 15 GB, and only the middle is used


def upright_rgb(image: Image.Image) -> Image.Image:
    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
        upright = _eight_bits(upright)
    if upright.mode == "P":
        upright = upright.convert("RGBA")  # the only way that Pillow takes any kind of transparent palette
    return upright.convert("RGB")


def to_pixels(image: Image.Image, config: InputConfig) -> Tensor:
    """Shorter side to `resize`, centre crop of `size`: the pixels of torchvision's Resize + CenterCrop, [3, S, S]."""
    image = _middle(image)
    width, height = image.size
    if min(width, height) != config.resize:
        long_side = int(config.resize * max(width, height) / min(width, height))
        shape = (config.resize, long_side) if width <= height else (long_side, config.resize)
        image = image.resize(shape, Image.Resampling.BILINEAR)
    left = round((image.width - config.size) / 2.0)
    top = round((image.height - config.size) / 2.0)
    image = image.crop((left, top, left + config.size, top + config.size))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def crop_and_flip(pixels: Tensor, random: torch.Generator) -> Tensor:
    """Pad with black, crop back at a random place, flip half of them: all images at once, [B, 3, S, S]."""
    count, _, height, width = pixels.shape
    padded = F.pad(pixels, (_PAD, _PAD, _PAD, _PAD)).permute(0, 2, 3, 1)  # [B, S+8, S+8, 3]
    top = torch.randint(2 * _PAD + 1, (count, 1), generator=random)
    left = torch.randint(2 * _PAD + 1, (count, 1), generator=random)
    flip = torch.rand((count, 1), generator=random) < 0.5
    rows = top + torch.arange(height)  # [B, S]
    columns = torch.arange(width)
    columns = left + torch.where(flip, columns.flip(0), columns)
    cropped = padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def resized_crop(image: Image.Image, size: int, random: torch.Generator) -> Tensor:
    """A random part of 8 % to 100 % of the area, sides 3:4 to 4:3, resized to a square and flipped half of the time."""
    box = _random_box(image.width, image.height, random)
    part = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if torch.rand((), generator=random) < 0.5:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(part)).permute(2, 0, 1)


def _middle(image: Image.Image) -> Image.Image:
    """A strip cut to its middle; an image of ordinary shape as it is."""
    longest = _LONGEST * min(image.size)
    if max(image.size) <= longest:
        return image
    width, height = min(image.width, longest), min(image.height, longest)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _eight_bits(grey: Image.Image) -> Image.Image:
    """Pillow clips 16-bit grey to white; scale it instead. Wider numbers name no white, so the brightest is it."""
    values = np.nan_to_num(np.asarray(grey, dtype=np.float64)).clip(min=0)
    whites = (65535.0,) if grey.mode.startswith("I;16") else (255.0, 65535.0, values.max())
    white = next(limit for limit in whites if values.max() <= limit)
    return Image.fromarray((values / white * 255).round().astype(np.uint8))


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
