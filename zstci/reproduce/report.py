"""What a run leaves behind: a text to read, CSV and JSON to compute with, PNG to look at."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any

from zstci.metrics import average_accuracy, average_forgetting, mean_accuracy, weighted_accuracy
from zstci.reproduce.plan import Plan
from zstci.reproduce.plots import draw_plots
from zstci.reproduce.published import ABLATIONS, PUBLISHED
from zstci.reproduce.run import Result

__all__ = ["row_name", "write_report"]

_NAMES = {"finetune": "E-FT", "lwf": "E-LwF", "ewc": "E-EWC", "mas": "E-MAS", "frozen": "frozen"}
_TRANSLATORS = {"sdc": "SDC", "zstci": "ZSTCI", "zs": "ZS", "ur": "UR"}


def write_report(plan: Plan, results: Sequence[Result]) -> str:
    """All files into `plan.out`; returns the text."""
    text = "\n".join(_text(plan, results)) + "\n"
    (plan.out / "report.txt").write_text(text)
    (plan.out / "report.json").write_text(json.dumps(_document(plan, results), indent=1) + "\n")
    _write_csv(plan, results)
    draw_plots(plan, results)
    return text


def row_name(result: Result) -> str:
    """As the paper writes it: E-LwF+ZSTCI; a weight of our own stays visible: E-LwF=0.1."""
    if result.regularizer == "joint":
        return "joint"
    kind, _, weight = result.regularizer.partition("=")
    name = _NAMES[kind] + (f"={weight}" if weight else "")
    if result.translator == "none":
        return name
    return f"{name}+{_TRANSLATORS.get(result.translator, result.translator)}"


def _text(plan: Plan, results: Sequence[Result]) -> Iterator[str]:
    tasks, classes = len(plan.stream), len(plan.stream.classes)
    start = f", {plan.start} start" if plan.dataset == "cifar100" else ""
    start += f" ({plan.warmup})" if plan.warmup else ""
    yield f"{plan.dataset}: {classes} classes in {tasks} tasks, seed {plan.regularizers[0].config.seed}{start}"
    yield "A_k: mean accuracy over the tasks so far, in percent. mean: over all k. F: forgetting after the last task."
    if plan.dataset == "cub" and classes != 200:
        yield f"The paper's rows are over 200 species with ResNet-18; these {classes} species are an easier problem."
    yield ""
    yield _line("row", "classifier", [f"T{k}" for k in range(1, tasks + 1)], "mean", "F")
    group = ""
    for result in results:
        if result.regularizer != group:
            group = result.regularizer
            yield ""
        yield from _rows(plan, result, tasks)


def _rows(plan: Plan, result: Result, tasks: int) -> Iterator[str]:
    averages = average_accuracy(result.matrix)
    if result.regularizer == "joint":
        yield _line("joint", result.classifier, ["-"] * (tasks - 1) + [f"{averages[-1]:.1f}"], "-", "-")
        return
    forgetting = average_forgetting(result.matrix)[-1]
    shown = [f"{value:.1f}" for value in averages]
    yield _line(row_name(result), result.classifier, shown, f"{mean_accuracy(result.matrix):.1f}", f"{forgetting:.1f}")
    if result.classifier != "ncm" or tasks != 10:
        return
    key = (result.regularizer, result.translator)
    published: Sequence[float] = PUBLISHED.get(plan.dataset, {}).get(key, ())
    if not published and key in ABLATIONS.get(plan.dataset, {}):
        published = [float("nan")] * 9 + [ABLATIONS[plan.dataset][key]]
    if published:
        yield _line("  paper", "", [_number(value) for value in published])
        yield _line("  ours - paper", "", [_number(a - p, "+") for a, p in zip(averages, published, strict=True)])


def _number(value: float, sign: str = "") -> str:
    return "-" if value != value else f"{value:{sign}.1f}"


def _line(name: str, classifier: str, values: Sequence[str], mean: str = "", forgetting: str = "") -> str:
    cells = "".join(f"{value:>7}" for value in values)
    return f"{name:<18}{classifier:<15}{cells}{mean:>8}{forgetting:>7}".rstrip()


def _document(plan: Plan, results: Sequence[Result]) -> dict[str, Any]:
    """No time and no path: the same command gives the same bytes."""
    sizes = [len(task.classes) for task in plan.stream.train]
    return {
        "dataset": plan.dataset,
        "start": plan.start,
        "warmup": plan.warmup,
        "tasks": [list(task.classes) for task in plan.stream.train],
        "oracle_images": plan.oracle_images,
        "configs": {column.label: _portable(column.config.to_dict()) for column in plan.regularizers},
        "results": [
            {
                "regularizer": result.regularizer,
                "translator": result.translator,
                "classifier": result.classifier,
                "matrix": result.matrix,
                "A": average_accuracy(result.matrix),
                "A_by_class": weighted_accuracy(result.matrix, sizes),
                "F": average_forgetting(result.matrix),
                "mean_A": mean_accuracy(result.matrix),
            }
            for result in results
        ],
    }


def _portable(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"net": config["net"] | {"weights": config["net"]["weights"].rpartition("/")[2]}}


def _write_csv(plan: Plan, results: Sequence[Result]) -> None:
    with open(plan.out / "accuracy.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["regularizer", "translator", "classifier", "k", "j", "a"])
        for result in results:
            for k, row in enumerate(result.matrix, start=_first_k(plan, result)):
                table.writerows([*_key(result), k, j, f"{value:.4f}"] for j, value in enumerate(row, start=1))
    with open(plan.out / "summary.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["regularizer", "translator", "classifier", "k", "A", "A_by_class", "F", "mean_A"])
        sizes = [len(task.classes) for task in plan.stream.train]
        for result in results:
            columns = (average_accuracy, lambda m: weighted_accuracy(m, sizes), average_forgetting)
            rows = zip(*(measure(result.matrix) for measure in columns), strict=True)
            for k, values in enumerate(rows, start=_first_k(plan, result)):
                table.writerow([*_key(result), k, *(f"{v:.4f}" for v in (*values, mean_accuracy(result.matrix[:k])))])


def _first_k(plan: Plan, result: Result) -> int:
    """A joint row has one line only, that after all tasks."""
    return len(plan.stream) if result.regularizer == "joint" else 1


def _key(result: Result) -> tuple[str, str, str]:
    return result.regularizer, result.translator, result.classifier
