"""Real pictures on any machine: scikit-learn's scanned digits as PNG files, in folders named after their class."""

from __future__ import annotations

import functools
import io
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# A net that is made in no time; it need not be good to be compared with itself.
TINY: dict[str, Any] = {
    "net.backbone": "resnet32",
    "net.weights": "none",
    "net.dim": 16,
    "net.input.size": 8,
    "net.input.resize": 8,
    "net.input.augment": "crop",
    "device": "cpu",
}
TINY_OPTIONS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


def save_digits(folder: Path, classes: Sequence[int], count: int = 6, skip: int = 0, size: int = 8) -> Path:
    """`folder/digit-3/0.png` and so on: `count` scans of each class, after the first `skip` of them."""
    for digit in classes:
        target = folder / f"digit-{digit}"
        target.mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(_scans(digit)[skip : skip + count]):
            image.resize((size, size), Image.Resampling.NEAREST).save(target / f"{number}.png")
    return folder


def archive(classes: Sequence[int], count: int = 6, skip: int = 0, size: int = 8) -> bytes:
    """The same as a tar: `digit-3/0.png` and so on."""
    with tempfile.TemporaryDirectory() as folder, io.BytesIO() as buffer:
        save_digits(Path(folder), classes, count, skip, size)
        with tarfile.open(fileobj=buffer, mode="w") as packed:
            for path in sorted(Path(folder).rglob("*.png")):
                packed.add(path, str(path.relative_to(folder)))
        return buffer.getvalue()


def picture(digit: int, number: int = 0) -> bytes:
    """One scan as the bytes of a PNG file."""
    return encoded(_scans(digit)[number], "PNG")


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@functools.cache
def _scans(digit: int) -> list[Image.Image]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = (digits.images[digits.target == digit] * (255 / 16)).astype(np.uint8)
    return [Image.fromarray(scan) for scan in pixels]
