"""Pictures of a run: accuracy and forgetting curves, the accuracy matrix, and the semantic gap with real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from zstci.metrics import average_accuracy, average_forgetting
from zstci.reproduce.plan import ROWS, Plan
from zstci.reproduce.published import PUBLISHED
from zstci.reproduce.run import Result, load_gap

__all__ = ["draw_plots"]

_COLOURS = {
    "none": "#888888", "sdc": "#e69f00", "zstci": "#d55e00", "zs": "#cc79a7", "ur": "#f0b6d5", "unified": "#8c510a",
    "linear": "#0072b2", "auto": "#009e73", "oracle": "#000000",
}  # fmt: skip
_CLASSES = {"cifar100": 100, "cub": 200}
_GAP_ORDER = ("auto", "linear", "zstci", "sdc")  # which translator the picture of the gap shows, best liked first


def draw_plots(plan: Plan, results: Sequence[Result]) -> None:
    for classifier in plan.classifiers:
        chosen = [r for r in results if r.classifier == classifier and r.regularizer != "joint"]
        if chosen:
            # The paper's curves belong beside ours only where they are of the same problem: all classes, ten tasks.
            same = (len(plan.stream.classes), len(plan.stream)) == (_CLASSES.get(plan.dataset), 10)
            published = PUBLISHED[plan.dataset] if classifier == "ncm" and same else {}
            _curves(plan, chosen, average_accuracy, "A_k, %", published, f"accuracy-{classifier}.png")
            _curves(plan, chosen, average_forgetting, "F_k, points", {}, f"forgetting-{classifier}.png")
            _matrices(plan, chosen, f"matrix-{classifier}.png")
    _gaps(plan)


def _curves(
    plan: Plan,
    results: Sequence[Result],
    measure: Callable[[Any], list[float]],
    label: str,
    published: dict[tuple[str, str], tuple[float, ...]],
    file: str,
) -> None:
    columns = list(dict.fromkeys(result.regularizer for result in results))
    figure = Figure(figsize=(1.2 + 3.6 * len(columns), 4.2), layout="constrained")
    axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axis, column in zip(axes, columns, strict=True):
        for result in (r for r in results if r.regularizer == column):
            values = measure(result.matrix)
            style = {"color": _COLOURS[result.translator], "label": result.translator}
            axis.plot(range(1, len(values) + 1), values, marker="o", markersize=3, **style)
        for (regularizer, translator), curve in published.items():
            if regularizer == column:
                axis.plot(range(1, 11), curve, linestyle=":", color=_COLOURS[translator], label=f"{translator}, paper")
        axis.set(title=column, xlabel="task k", xticks=range(1, len(plan.stream) + 1))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    axes[0].set_ylabel(label)
    figure.savefig(plan.out / file, dpi=120)


def _matrices(plan: Plan, results: Sequence[Result], file: str) -> None:
    columns = list(dict.fromkeys(result.regularizer for result in results))
    rows = list(dict.fromkeys(result.translator for result in results))
    figure = Figure(figsize=(1.0 + 2.4 * len(columns), 0.8 + 2.4 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)
    picture = None
    for axis in axes.flat:
        axis.set_axis_off()
    for result in results:
        axis = axes[rows.index(result.translator)][columns.index(result.regularizer)]
        axis.set_axis_on()
        size = len(plan.stream)
        grid = np.full((size, size), np.nan)
        for k, row in enumerate(result.matrix):
            grid[k, : len(row)] = row
        picture = axis.imshow(grid, vmin=0, vmax=100, cmap="viridis", extent=(0.5, size + 0.5, size + 0.5, 0.5))
        axis.set_title(f"{result.regularizer}, {result.translator}", fontsize=8)
        axis.set(xlabel="classes of task j", ylabel="after task k")
        axis.label_outer()
    if picture is not None:
        figure.colorbar(picture, ax=axes, label="a[k, j], %", shrink=0.6)
    figure.savefig(plan.out / file, dpi=110)


def _gaps(plan: Plan) -> None:
    """The paper's Figure 1 with real data: one panel a regularizer."""
    panels = []
    for column in (c for c in plan.regularizers if c.trains):
        row = next((row for row in _GAP_ORDER if row in plan.rows and row in ROWS), None)
        gap = load_gap(plan, column, row) if row else None
        if gap is not None:
            panels.append((f"{column.label}, {row}", gap))
    if not panels:
        return
    figure = Figure(figsize=(1.0 + 4.4 * len(panels), 4.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, gap) in zip(axes, panels, strict=True):
        _gap(axis, gap)
        axis.set_title(title)
    axes[0].legend(fontsize=8)
    figure.suptitle(f"{plan.dataset}: the classes of task 1 after task {len(plan.stream)}, in 2-D PCA")
    figure.savefig(plan.out / "gap.png", dpi=120)


def _gap(axis: Any, gap: dict[str, Tensor]) -> None:
    project = _plane(torch.cat([gap["stored"], gap["translated"], gap["truth"]]))
    samples, stored, moved, truth = (project(gap[name]) for name in ("samples", "stored", "translated", "truth"))
    axis.scatter(samples[:, 0], samples[:, 1], s=3, color="#cccccc", label="test images now")
    axis.scatter(stored[:, 0], stored[:, 1], marker="x", color="#d55e00", label="stored, not translated")
    axis.scatter(moved[:, 0], moved[:, 1], marker="o", color="#0072b2", label="translated")
    axis.scatter(truth[:, 0], truth[:, 1], marker="+", s=70, color="#000000", label="true means")
    for points, colour in ((stored, "#d55e00"), (moved, "#0072b2")):
        for point, goal in zip(points, truth, strict=True):
            axis.plot([point[0], goal[0]], [point[1], goal[1]], color=colour, linewidth=0.7, alpha=0.6)
    axis.set(xticks=[], yticks=[])


def _plane(points: Tensor) -> Callable[[Tensor], Any]:
    """The plane in which the points differ most."""
    centre = points.double().mean(0)
    _, _, directions = torch.linalg.svd(points.double() - centre, full_matrices=False)
    return lambda vectors: ((vectors.double() - centre) @ directions[:2].T).numpy()
