"""Bytes from a stranger -> the pixels that the net reads, by the same steps as in learning."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from PIL import Image

from service.errors import BadImage, BadImages, DamagedImage, EmptyImage, NotAnImage, TooManyPixels
from service.serving.engine import Pixels
from zstci.config import InputConfig
from zstci.pixels import to_array, upright_rgb

__all__ = ["FORMATS", "check_size", "decode", "decode_all"]

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")


def decode_all(contents: Sequence[bytes], config: InputConfig, max_pixels: int) -> Pixels:
    """[N, 3, S, S]. If some cannot be used, the error names each of them."""
    pixels: list[Pixels] = []
    faults: dict[int, BadImage] = {}
    for position, content in enumerate(contents):
        try:
            pixels.append(decode(content, config, max_pixels))
        except BadImage as fault:
            faults[position] = fault
    if faults:
        raise BadImages(faults)
    return np.stack(pixels)


def decode(content: bytes, config: InputConfig, max_pixels: int) -> Pixels:
    """[3, S, S]"""
    if not content:
        raise EmptyImage("it has 0 bytes")
    with _open(content) as image:
        check_size(image, config, max_pixels)
        try:
            upright = upright_rgb(image)
        except Exception as error:  # on damaged bytes Pillow's plugins raise nearly anything
            raise DamagedImage(f"it is truncated or damaged ({error})") from error
    return to_array(upright, config)


def _open(content: bytes) -> Image.Image:
    try:
        # Only the header is read here.
        return Image.open(BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise TooManyPixels(str(error)) from error
    except Exception as error:
        raise NotAnImage(f"it is none of {', '.join(FORMATS)}") from error


def check_size(image: Image.Image, config: InputConfig, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise TooManyPixels(f"{width} x {height} is more than {max_pixels} pixels; scale it down")
    # The shorter side is brought to `resize`, so a thin image grows: 1 x 1,000,000 would become 256 x 256,000,000.
    square = config.resize**2
    if square * max(width, height) / min(width, height) > max(max_pixels, square):
        raise TooManyPixels(f"{width} x {height} is too thin; cut it to a shape nearer to a square")
