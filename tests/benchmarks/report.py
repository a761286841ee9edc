"""A benchmark's results as JSON for programs, a table for readers and a plot for a glance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

from matplotlib import pyplot as plt

from tests.benchmarks.measure import Result

__all__ = ["table", "write_report"]

_HEADER: tuple[str, ...] = ("", "ours /s", "ours, each", "baseline /s", "ratio", "range", "CPU ratio", "target", "met")
_COLOURS = {"yes": "tab:green", "by CPU time": "tab:olive", "NO": "tab:red", "": "tab:blue"}


def write_report(folder: Path, name: str, about: dict[str, object], results: Sequence[Result]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"about": about, "results": [asdict(result) | {"met": result.met} for result in results]}
    (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    (folder / f"{name}.md").write_text(_page(name, about, results))
    _plot(folder / f"{name}.png", about, results)


def table(results: Sequence[Result]) -> str:
    """In markdown, with columns that also line up in a terminal."""
    rows = [_HEADER]
    for contest, group in groupby(results, key=lambda result: result.contest):
        rows += [(f"**{contest}**", *[""] * (len(_HEADER) - 1)), *(_row(result) for result in group)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = [
        _line([cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))])
        for row in rows
    ]
    rule = _line(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join([lines[0], rule, *lines[1:]])


def _page(name: str, about: dict[str, object], results: Sequence[Result]) -> str:
    facts = "\n".join(f"- {key}: {value}" for key, value in about.items())
    return f"""# Benchmark: {name}

Made by `make bench`. A ratio is ours over the baseline, items per second, median over rounds in which both had their
turn; the range is that of the rounds. The CPU ratio charges the CPU seconds of all threads instead of the clock's: on a
busy machine it is the one to trust.

{table(results)}

![ratios]({name}.png)

{facts}
"""


def _row(result: Result) -> tuple[str, ...]:
    title = f"{result.duel.title} [{result.duel.unit}]"
    if result.ratio is None or result.baseline_rate is None:
        return (title, _short(result.rate), _duration(1 / result.rate), *[""] * (len(_HEADER) - 3))
    return (
        title,
        _short(result.rate),
        _duration(1 / result.rate),
        _short(result.baseline_rate),
        _short(result.ratio),
        f"{_short(result.lowest)} .. {_short(result.highest)}",
        _short(result.cpu_ratio),
        "" if result.duel.target is None else _short(result.duel.target),
        result.met,
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _plot(path: Path, about: dict[str, object], results: Sequence[Result]) -> None:
    """A panel for each contest: the ratios as bars, CPU ratios below them, each target as a line across its bars."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.ratio is not None:
            groups.setdefault(result.contest, []).append(result)
    heights = [len(group) + 1.2 for group in groups.values()]
    figure, panels = plt.subplots(
        len(groups),
        1,
        figsize=(10, 0.55 * sum(heights) + 1),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, (title, group) in zip(panels[:, 0], groups.items(), strict=True):
        _panel(axes, title, group)
    figure.suptitle(
        f"{about.get('cpu')}, {about.get('torch_threads')} torch thread(s), torch {about.get('torch')}", size=10
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axes: Any, title: str, group: Sequence[Result]) -> None:
    ratios = [result.ratio or 0.0 for result in group]
    for row, result in enumerate(group):
        colour = _COLOURS[result.met]
        axes.barh(row - 0.15, result.ratio, 0.4, color=colour)
        axes.barh(row + 0.2, result.cpu_ratio, 0.2, color="lightgrey")
        axes.hlines(row - 0.15, result.lowest, result.highest, color="black", linewidth=1)
        if result.duel.target is not None:
            axes.vlines(result.duel.target, row - 0.45, row + 0.45, color="black", linestyle="--")
        axes.annotate(
            f" {_short(result.ratio)}", (max(result.ratio or 0, result.highest or 0), row - 0.15), va="center"
        )
    if max(ratios) > 5:
        axes.set_xscale("log")
        axes.set_xlim(left=min(1.0, 0.3 * min(ratios)), right=4 * max(result.highest or 1 for result in group))
    else:
        axes.set_xlim(0, 1.2 * max(1.0, *(result.highest or 0 for result in group)))
    axes.set_yticks(range(len(group)), [result.duel.title for result in group])
    axes.invert_yaxis()
    axes.set_title(f"{title} (grey: by CPU time, dashed: target)", size=10, loc="left")
