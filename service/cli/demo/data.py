"""The demo's images, as anybody's would lie on a disk: update-1/class-name/image.png, and others for the test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Story", "Task", "write_story"]

_SIZE = 96
_UPDATES = 3


@dataclass(frozen=True)
class Task:
    """One update: what is sent, and other images of the same classes."""

    folder: Path
    classes: tuple[str, ...]
    tests: tuple[tuple[str, Path], ...]  # name of the class, image


@dataclass(frozen=True)
class Story:
    kind: str
    tasks: tuple[Task, ...]


def write_story(kind: str, folder: Path, count: int) -> Story:
    """`count` images of each class to learn from, and as many others to test with."""
    import numpy as np

    classes = {"digits": _digits, "pictures": _pictures}[kind](2 * count)
    groups = np.array_split(np.array(list(classes)), _UPDATES)
    updates = [{str(name): classes[str(name)] for name in group} for group in groups]
    return Story(kind, tuple(_write(folder, number, update, count) for number, update in enumerate(updates, start=1)))


def _write(folder: Path, number: int, classes: dict[str, list[Image.Image]], count: int) -> Task:
    learn, test = folder / f"update-{number}", folder / "test"
    tests = []
    for name, images in classes.items():
        for root in (learn, test):
            (root / name).mkdir(parents=True)
        for position, image in enumerate(images):
            path = (learn if position < count else test) / name / f"{position}.png"
            image.save(path)
            if position >= count:
                tests.append((name, path))
    return Task(learn, tuple(classes), tuple(tests))


def _digits(count: int) -> dict[str, list[Image.Image]]:
    """scikit-learn's scans of handwritten digits, eight by eight pixels made larger."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    scans = load_digits()
    pixels = (scans.images * (255 / 16)).astype(np.uint8)

    def of(digit: int) -> Iterator[Image.Image]:
        for scan in pixels[scans.target == digit][:count]:
            yield Image.fromarray(scan).resize((_SIZE, _SIZE), Image.Resampling.BICUBIC).convert("RGB")

    return {f"digit {digit}": list(of(digit)) for digit in range(10)}


def _pictures(count: int) -> dict[str, list[Image.Image]]:
    import numpy as np

    from service.cli.demo.drawn import DRAWN, draw

    random = np.random.default_rng(0)
    return {name: [draw(name, random) for _ in range(count)] for name in DRAWN}
