"""Can this image be learnt from? The checks and errors of a query, without the pixels."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from service.errors import DamagedImage, EmptyImage, NotAnImage, TooManyPixels
from service.serving.decode import FORMATS, check_size
from zstci.config import InputConfig
from zstci.pixels import upright_rgb

__all__ = ["check"]

_DRAFT = (64, 64)


def check(content: bytes, max_pixels: int, config: InputConfig) -> str:
    """The format, such as JPEG, of an image that opens as a whole. `config` is of the net that will learn it."""
    if not content:
        raise EmptyImage("it has 0 bytes")
    with _open(content) as image:
        check_size(image, config, max_pixels)
        kind = image.format or ""
        # A JPEG may be decoded smaller, three times as fast: all of its bytes are still read, only less is computed.
        image.draft("RGB", _DRAFT)
        try:
            upright_rgb(image)
        except Exception as error:  # on damaged bytes Pillow's plugins raise nearly anything
            raise DamagedImage(f"it is truncated or damaged ({error})") from error
    return kind


def _open(content: bytes) -> Image.Image:
    try:
        # Only the header is read here.
        return Image.open(BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise TooManyPixels(str(error)) from error
    except Exception as error:
        raise NotAnImage(f"it is none of {', '.join(FORMATS)}") from error
