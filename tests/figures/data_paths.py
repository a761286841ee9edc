"""The two data paths, drawn: what a query passes through, and what an update does meanwhile.

python -m tests.figures.data_paths
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

__all__ = ["draw"]

_TARGET = Path(__file__).parent / "data-paths.png"
_QUERY, _UPDATE, _SWAP, _INK = "#2a6f97", "#b5651d", "#4f772d", "#22223b"
_WIDTH, _HEIGHT, _STEP = 1.72, 0.8, 2.4

QUERY = [
    "image",
    "decode\nresize",
    "net\n(ONNX)",
    "translator",
    "nearest mean\n(FAISS, L2)",
    "names,\ndistances,\nversion",
]
UPDATE = [
    "POST\nnew classes",
    "check every\nimage",
    "durable job\n(DBOS)",
    "fine-tune\nLwF, EWC, MAS",
    "translate and\nre-project",
    "immutable\nversion",
]


def draw(target: Path = _TARGET) -> None:
    figure, axes = plt.subplots(figsize=(12.4, 4.1))
    axes.set_xlim(-1.1, 13.2)
    axes.set_ylim(-0.75, 3.7)
    axes.axis("off")
    _row(axes, 2.6, QUERY, _QUERY, "query: one process, no database on the way")
    _row(axes, 0.3, UPDATE, _UPDATE, "update: across processes; a crash at any line leaves the old version answering")
    _unit(axes, 2 * _STEP, 4 * _STEP, 2.6)
    _arrow(axes, (12.0, 0.3 + _HEIGHT / 2 + 0.08), (10.75, 2.0), _SWAP, rad=0.2)
    axes.text(
        7.2, 1.62, "published by compare-and-set, swapped as one reference", color=_SWAP, ha="center", fontsize=10
    )
    axes.text(12.0, -0.5, "images are deleted", color=_UPDATE, ha="center", fontsize=10, style="italic")
    figure.savefig(target, dpi=130, bbox_inches="tight", facecolor="white")
    plt.close(figure)


def _unit(axes: Axes, first: float, last: float, height: float) -> None:
    """What one version is: only ever replaced together."""
    corner = (first - _WIDTH / 2 - 0.2, height - _HEIGHT / 2 - 0.2)
    size = (last - first + _WIDTH + 0.4, _HEIGHT + 0.4)
    axes.add_patch(
        FancyBboxPatch(corner, *size, boxstyle="round,pad=0.02", fill=False, edgecolor=_SWAP, ls="--", lw=1.5)
    )


def _row(axes: Axes, height: float, labels: list[str], colour: str, title: str) -> None:
    axes.text(-0.9, height + 0.78, title, color=colour, fontsize=12, fontweight="bold")
    places = [_STEP * position for position in range(len(labels))]
    for place, label in zip(places, labels, strict=True):
        corner = (place - _WIDTH / 2, height - _HEIGHT / 2)
        axes.add_patch(
            FancyBboxPatch(
                corner, _WIDTH, _HEIGHT, boxstyle="round,pad=0.06", facecolor=f"{colour}1a", edgecolor=colour, lw=1.5
            )
        )
        axes.text(place, height, label, ha="center", va="center", fontsize=10, color=_INK)
    for before, after in pairwise(places):
        _arrow(axes, (before + _WIDTH / 2 + 0.08, height), (after - _WIDTH / 2 - 0.08, height), colour)


def _arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float], colour: str, rad: float = 0.0) -> None:
    style = f"arc3,rad={rad}"
    axes.add_patch(
        FancyArrowPatch(begin, end, arrowstyle="-|>", mutation_scale=14, color=colour, lw=1.6, connectionstyle=style)
    )


if __name__ == "__main__":
    draw()
