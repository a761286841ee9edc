"""The figures of growth as tables for readers and curves for a glance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

from matplotlib import pyplot as plt

__all__ = ["write_growth"]

_BASE, _FACTOR = "1000", 20  # a search may take so many times what it takes among a thousand classes
_PHASES = ("before", "making", "swapping", "after")

Found = dict[str, Any]


def write_growth(folder: Path, content: Found) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "growth.json").write_text(json.dumps(content, indent=1) + "\n")
    writers = {"index": _index, "reprojection": _reprojection, "updates": _updates, "swap": _swap}
    parts = [writers[name](content[name]["found"]) for name in writers if name in content]
    machines = [f"- {name}: {content[name]['about']}" for name in writers if name in content]
    page = "# Benchmark: growth\n\nMade by `python -m tests.benchmarks.growth`. Vectors of 512 dimensions, made up: "
    page += "families of 50 classes. One thread; medians, wall (CPU) time.\n\n"
    (folder / "growth.md").write_text(page + "\n".join([*parts, "![growth](growth.png)\n", *machines]) + "\n")
    _plot(folder / "growth.png", content)


def _index(rows: Found) -> str:
    """The recall is that of queries which the index was not tuned with."""
    base = rows.get(_BASE, next(iter(rows.values())))
    lines = []
    for size, row in rows.items():
        lists = "exact" if row["kind"] == "flat" else f"{row['probes']} of {row['lists']} lists"
        lists += f", {row['candidates']} candidates" if row.get("candidates") else ""
        ratio = row["search_wall"] / base["search_wall"]
        cpu = row["search_cpu"] / base["search_cpu"]
        build = f"{_time(row['build_wall'])} ({_time(row['build_cpu'])}), {row['build_rounds']}x"
        recalls = f"{row['fresh_recall_at_1']:.3f}", f"{row['fresh_recall_at_10']:.3f}"
        search = f"{_time(row['search_wall'])} ({_time(row['search_cpu'])})"
        lines.append((_count(size), lists, search, f"{ratio:.2f} ({cpu:.2f})", *recalls, build))
    head = ("classes", "index", "search, k = 100", "over 1,000 classes", "recall@1", "recall@10", "build")
    return f"## Search (target: at most {_FACTOR} times, recall at least 0.99)\n\n{_table(head, lines)}"


def _reprojection(found: Found) -> str:
    lines = [
        (_count(size), *(f"{_time(found[name][size]['wall'])} ({_time(found[name][size]['cpu'])})" for name in found))
        for size in next(iter(found.values()))
    ]
    return f"## Re-projecting all classes\n\n{_table(('classes', *found), lines)}"


def _updates(found: Found) -> str:
    titles = {"stored": "stored classes, 40 new images", "images": "new images, 100 stored classes"}
    text = "## An update without training, from the queue to published\n\n"
    for axis, title in titles.items():
        rows = found[axis].items()
        lines = [
            (_count(size), f"{_time(row['wall'])} ({_time(row['cpu'])})", str(row["rounds"])) for size, row in rows
        ]
        text += _table((title, "update", "rounds"), lines) + "\n"
    return text


def _swap(found: Found) -> str:
    text = "## A swap while two clients ask (memory: anonymous RSS of the API process)\n\n"
    head = ("classes", "swap", "phase", "seconds", "queries", "failed", "p50", "p99", "longest", "MiB", "peak MiB")
    lines = []
    for size, run in found.items():
        for number, swap in enumerate(run["swaps"], start=1):
            for name in _PHASES:
                phase = swap[name]
                waits = (f"{phase[key]:.1f} ms" for key in ("p50_ms", "p99_ms", "max_ms"))
                counts = (f"{phase['seconds']:.1f}", str(phase["queries"]), str(phase["failed"]))
                memory = (str(phase["rss_mib"]), str(phase["rss_peak_mib"]))
                lines.append((_count(size), str(number), name, *counts, *waits, *memory))
    text += _table(head, lines) + "\nWhere the time of making and loading a version goes, in seconds:\n\n"
    steps = {size: run["swaps"][-1] for size, run in found.items()}
    names = list(dict.fromkeys(name for swap in steps.values() for name in swap["made"]["seconds"]))
    costs = [(name, *(f"{swap['made']['seconds'].get(name, 0):.2f}" for swap in steps.values())) for name in names]
    costs.append(("API: verify, load, warm up", *(f"{swap['load_seconds']:.2f}" for swap in steps.values())))
    costs.append(("published until live", *(f"{swap['live_after']:.2f}" for swap in steps.values())))
    costs.append(("peak MiB of the maker", *(str(swap["made"]["peak_mib"]) for swap in steps.values())))
    return text + _table(("", *(_count(size) for size in steps)), costs)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *lines))


def _count(size: str) -> str:
    return f"{int(size):,}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _plot(path: Path, content: Found) -> None:
    curves: dict[str, dict[str, Found]] = {}
    if "index" in content:
        rows = content["index"]["found"]
        curves["search, ms"] = {"search": {size: 1000 * row["search_cpu"] for size, row in rows.items()}}
        curves["build, s"] = {"build": {size: row["build_cpu"] for size, row in rows.items()}}
    if "reprojection" in content:
        found = content["reprojection"]["found"]
        moved = {name: {size: row["cpu"] for size, row in rows.items()} for name, rows in found.items()}
        curves["re-projecting, s"] = moved
    if "updates" in content:
        stored = content["updates"]["found"]["stored"]
        curves["update without training, s"] = {"update": {size: row["cpu"] for size, row in stored.items()}}
    figure, panels = plt.subplots(1, max(1, len(curves)), figsize=(4 * max(1, len(curves)), 3.4), squeeze=False)
    for axes, (title, lines) in zip(panels[0], curves.items(), strict=False):
        for name, line in lines.items():
            axes.loglog([int(size) for size in line], list(line.values()), marker="o", label=name)
        if title.startswith("search") and _BASE in lines["search"]:
            axes.axhline(
                _FACTOR * lines["search"][_BASE], linestyle="--", color="black", label=f"{_FACTOR} times 1,000"
            )
        axes.set_title(f"{title} (CPU)", size=10)
        axes.set_xlabel("classes")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
