"""The demo as a picture: what was learnt when, and what was still known afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from service.cli.demo.data import Story
from service.cli.demo.story import Measured

__all__ = ["draw_plot"]

_INK, _FAINT = "#1f2937", "#9ca3af"
_WITHOUT = "#c2410c"
_WITH = ("#1d4ed8", "#0f766e", "#7c3aed", "#a16207")
_THUMBNAILS = 4


def draw_plot(story: Story, found: Sequence[Measured], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.4), dpi=130, facecolor="white")
    FigureCanvasAgg(figure)
    rows: Any = figure.add_gridspec(
        2, 1, height_ratios=(1, 3), left=0.07, right=0.97, top=0.86, bottom=0.08, hspace=0.42
    )
    for task, cell in enumerate(rows[0].subgridspec(1, len(story.tasks), wspace=0.06)):
        _draw_task(figure, cell, story, task)
    axes = rows[1].subgridspec(1, 2, wspace=0.14).subplots(sharey=True)
    _draw_curves(axes[0], found, "old", "Old classes: those of earlier updates")
    _draw_curves(axes[1], found, "new", "New classes: those of this update")
    axes[0].set_ylabel("correct test images, %", color=_INK)
    figure.suptitle(_title(found), x=0.07, ha="left", fontsize=13, fontweight="bold", color=_INK, y=0.97)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _title(found: Sequence[Measured]) -> str:
    last = max(row.update for row in found)
    ends = {row.translator: row.old for row in found if row.update == last and row.old is not None}
    said = ", ".join(f"{value:.0f} % {_called(name)}" for name, value in ends.items())
    return f"Old classes, no old image kept: {said}"


def _called(translator: str) -> str:
    return "without translation" if translator == "none" else f"with translation ({translator})"


def _draw_task(figure: Any, cell: Any, story: Story, number: int) -> None:
    """A few of the images, above their names."""
    import numpy as np
    from PIL import Image

    task = story.tasks[number]
    inner = cell.subgridspec(1, _THUMBNAILS, wspace=0.05)
    for position in range(_THUMBNAILS):
        axis = figure.add_subplot(inner[position])
        axis.axis("off")
        if position < len(task.classes):
            name = task.classes[position]
            with Image.open(task.folder / name / "0.png") as image:
                axis.imshow(np.asarray(image))
            axis.set_title(name, fontsize=8, color=_INK, y=-0.32)
        if position == 0:
            axis.text(0, 1.14, f"update {number + 1}", transform=axis.transAxes, fontsize=10, color=_INK, weight="bold")


def _draw_curves(axis: Any, found: Sequence[Measured], which: str, title: str) -> None:
    updates = sorted({row.update for row in found})
    names = list(dict.fromkeys(row.translator for row in found if row.update > 1))
    colours = dict(zip([n for n in names if n != "none"], _WITH * len(names), strict=False)) | {"none": _WITHOUT}
    [first] = [row for row in found if row.update == 1]
    for name in names:
        later = {row.update: getattr(row, which) for row in found if row.translator == name and row.update > 1}
        values = [first.new, *(later[update] for update in updates[1:])]
        axis.plot(
            updates, values, color=colours[name], marker="o", lw=2.2, label=_called(name), clip_on=False, zorder=3
        )
    _label_ends(axis, found, which, colours)
    axis.set_title(title, loc="left", fontsize=10.5, color=_INK)
    axis.set_xticks(updates, [f"after update {update}" for update in updates])
    axis.set_xlim(0.7, updates[-1] + 0.35)
    axis.set_ylim(0, 102)
    axis.grid(axis="y", color="#e5e7eb")
    axis.tick_params(colors=_INK, length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    if which == "old":
        axis.annotate(
            "just learnt",
            (1, first.new),
            (1, first.new - 13),
            ha="center",
            color=_FAINT,
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": _FAINT},
        )
        axis.legend(frameon=False, loc="lower left", labelcolor=_INK)


def _label_ends(axis: Any, found: Sequence[Measured], which: str, colours: dict[str, str]) -> None:
    """The last values, moved apart where they would cover each other."""
    last = max(row.update for row in found)
    ends = sorted((getattr(row, which), row.translator) for row in found if row.update == last)
    lowest = 0.0
    for value, name in ends:
        lowest = place = max(value, lowest)
        axis.text(last + 0.07, place, f"{value:.0f}", color=colours[name], va="center", fontweight="bold")
        lowest += 6.0
