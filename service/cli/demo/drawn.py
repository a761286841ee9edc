"""Pictures that are drawn here: six shapes and six textures, no two alike, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

__all__ = ["DRAWN", "draw"]

_SIDE = 192  # drawn larger than needed and then made smaller, so that edges are smooth
_SIZE = 96

Point = tuple[float, float]
Colour = tuple[int, int, int]


def draw(name: str, random: np.random.Generator) -> Image.Image:
    """One picture of a class: any place, size, turn and colours."""
    paper, ink = _colours(random)
    canvas = Image.new("RGB", (_SIDE, _SIDE), paper)
    DRAWN[name](ImageDraw.Draw(canvas), ink, random)
    if random.random() < 0.5:
        canvas = canvas.filter(ImageFilter.GaussianBlur(float(random.uniform(0, 2))))
    small = np.asarray(canvas.resize((_SIZE, _SIZE), Image.Resampling.LANCZOS), dtype=np.float32)
    noisy = small + random.normal(0, random.uniform(8, 40), small.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def _colours(random: np.random.Generator) -> tuple[Colour, Colour]:
    """Any two that can be told apart: what a class is must not be told by its colour."""
    while True:
        paper, ink = random.integers(0, 256, (2, 3))
        if abs(int(paper.sum()) - int(ink.sum())) > 90:
            return _colour(paper), _colour(ink)


def _colour(values: np.ndarray) -> Colour:
    red, green, blue = map(int, values)
    return red, green, blue


def _around(random: np.random.Generator, radii: list[float]) -> list[Point]:
    """A polygon whose corners are so far from its centre: somewhere, in some size, turned somehow."""
    radius = float(random.uniform(0.14, 0.34)) * _SIDE
    x, y = random.uniform(radius, _SIDE - radius, 2)
    turn = float(random.uniform(0, 2 * math.pi))
    step = 2 * math.pi / len(radii)
    return [
        (x + radius * share * math.cos(turn + i * step), y + radius * share * math.sin(turn + i * step))
        for i, share in enumerate(radii)
    ]


def _polygon(*radii: float) -> Callable[[ImageDraw.ImageDraw, Colour, np.random.Generator], None]:
    return lambda canvas, ink, random: canvas.polygon(_around(random, list(radii)), fill=ink)


def _ring(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    radius = float(random.uniform(0.14, 0.34)) * _SIDE
    x, y = map(float, random.uniform(radius, _SIDE - radius, 2))
    canvas.ellipse((x - radius, y - radius, x + radius, y + radius), outline=ink, width=int(radius * 0.3))


def _lines(random: np.random.Generator, turn: float, wave: float = 0.0) -> list[list[Point]]:
    """Lines beside each other across the whole picture; with a wave, not straight."""
    gap, length = float(random.uniform(18, 30)), float(random.uniform(30, 50))
    along = np.arange(-2 * _SIDE, 2 * _SIDE, 3.0)
    lines = []
    for offset in np.arange(-2 * _SIDE, 2 * _SIDE, gap):
        across = offset + wave * gap * np.sin(2 * math.pi * along / length)
        x = along * math.cos(turn) - across * math.sin(turn)
        y = along * math.sin(turn) + across * math.cos(turn)
        lines.append([(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    return lines


def _stripes(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    for line in _lines(random, float(random.uniform(0, math.pi))):
        canvas.line(line, fill=ink, width=8)


def _waves(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    for line in _lines(random, float(random.uniform(0, math.pi)), wave=0.5):
        canvas.line(line, fill=ink, width=7)


def _grid(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    turn = float(random.uniform(0, math.pi))
    for line in _lines(random, turn) + _lines(random, turn + math.pi / 2):
        canvas.line(line, fill=ink, width=5)


def _dots(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    gap, radius = float(random.uniform(22, 36)), float(random.uniform(5, 9))
    for x in np.arange(random.uniform(0, gap), _SIDE, gap):
        for y in np.arange(random.uniform(0, gap), _SIDE, gap):
            canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)


def _bricks(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    high = float(random.uniform(16, 28))
    wide = 2.2 * high
    for row, y in enumerate(np.arange(-random.uniform(0, high), _SIDE, high)):
        for x in np.arange(-wide * (1 + 0.5 * (row % 2)), _SIDE + wide, wide):
            canvas.rectangle((x + 2, y + 2, x + wide - 2, y + high - 2), fill=ink)


def _blots(canvas: ImageDraw.ImageDraw, ink: Colour, random: np.random.Generator) -> None:
    for _ in range(int(random.integers(25, 45))):
        x, y, width, height = *random.uniform(0, _SIDE, 2), *random.uniform(4, 26, 2)
        canvas.ellipse((x - width, y - height, x + width, y + height), fill=ink)


DRAWN: dict[str, Callable[[ImageDraw.ImageDraw, Colour, np.random.Generator], None]] = {
    "triangle": _polygon(1, 1, 1),
    "ring": _ring,
    "stripes": _stripes,
    "dots": _dots,
    "square": _polygon(1, 1, 1, 1),
    "star": _polygon(*(1, 0.42) * 5),
    "waves": _waves,
    "bricks": _bricks,
    "disc": _polygon(*(1,) * 48),
    "cross": _polygon(*(1, 1, 0.45) * 4),
    "grid": _grid,
    "blots": _blots,
}
