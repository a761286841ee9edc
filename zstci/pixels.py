"""From an image to the pixels that a net reads: upright, RGB, one size. Without torch, which a server need not load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from zstci.config import InputConfig

__all__ = ["to_array", "upright_rgb", "upright_size"]

_PART = 2**18  # pixels
_LYING = (5, 6, 7, 8)  # orientations that swap width and height
_LONGEST = 16  # sides: 1 x 60,000 pixels resized to a height of 256 would be 15 GB, and only the middle is used


def upright_rgb(image: Image.Image) -> Image.Image:
    """Decoded. Usually it is the image itself: a copy of a photograph costs as much as its search."""
    image.load()
    ImageOps.exif_transpose(image, in_place=True)
    upright = image
    if upright.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
        upright = _eight_bits(upright)
    if upright.mode == "P":
        upright = upright.convert("RGBA")  # the only way that Pillow takes any kind of transparent palette
    return upright if upright.mode == "RGB" else upright.convert("RGB")


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of `upright_rgb`, without decoding the image."""
    lying = image.getexif().get(ExifTags.Base.Orientation) in _LYING
    return (image.height, image.width) if lying else image.size


def to_array(image: Image.Image, config: InputConfig) -> NDArray[np.uint8]:
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
    return np.array(image).transpose(2, 0, 1)


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
    raw = np.asarray(grey).reshape(-1)
    # A part at a time: in doubles all of it is four times as large.
    parts = [slice(start, start + _PART) for start in range(0, len(raw), _PART)]
    brightest = max((np.nan_to_num(raw[part].astype(np.float64)).max() for part in parts), default=0.0)
    whites = (65535.0,) if grey.mode.startswith("I;16") else (255.0, 65535.0, brightest)
    white = next(limit for limit in whites if brightest <= limit)
    scaled = np.empty(raw.shape, np.uint8)
    for part in parts:
        values = np.nan_to_num(raw[part].astype(np.float64)).clip(min=0)
        scaled[part] = (values / white * 255).round()
    return Image.fromarray(scaled.reshape(grey.height, grey.width))
