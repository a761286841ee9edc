"""The cheap half: every translator and classifier on the same nets' features."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from zstci.classifiers import Scatter, fit_metric, nearest
from zstci.memory import Memory, advance
from zstci.metrics import accuracy
from zstci.progress import Watch
from zstci.prototypes import class_means
from zstci.reproduce.nets import TaskFeatures, features_of, fingerprint, joint_features, trunk_once
from zstci.reproduce.plan import ROWS, Plan, Regularized
from zstci.seeds import deterministic
from zstci.tensors import write

__all__ = ["Result", "load_gap", "run"]

# Rough cost of a task in units of a cheap translator's, so that the bar's time to go is near the truth.
_COST = {"zstci": 40, "zs": 40, "ur": 40, "unified": 60, "net": 80}


@dataclass(frozen=True)
class Result:
    """One row: a[k, j] in percent. `whitened-still` is `whitened` whose covariance is not transported with the net."""

    regularizer: str
    translator: str
    classifier: str
    matrix: tuple[tuple[float, ...], ...]


def run(plan: Plan) -> list[Result]:
    """All rows of the plan. With `resume`, finished nets and rows are read instead of computed."""
    results: list[Result] = []
    start, stream = trunk_once(plan)
    with deterministic(), tqdm(total=_total(plan), desc=plan.dataset, unit="u", disable=None, smoothing=0.05) as bar:
        for column in plan.regularizers:
            bar.set_description(f"{plan.dataset} {column.label}: nets")
            measured = list(features_of(plan, column, start, stream, lambda: bar.update(_COST["net"])))
            for row in _rows(plan, column):
                bar.set_description(f"{plan.dataset} {column.label}: {row}")
                results += _cell(plan, column, row, measured, functools.partial(bar.update, _COST.get(row, 1)))
        if "joint" in plan.rows:
            for column in [c for c in plan.regularizers if c.trains][:1]:  # a frozen net is its own joint
                bar.set_description(f"{plan.dataset}: joint")
                results += _joint(plan, joint_features(plan, column, start, stream))
    return results


def _rows(plan: Plan, column: Regularized) -> list[str]:
    """A net that never moves leaves nothing to translate, and is its own oracle."""
    rows = [row for row in plan.rows if row in ROWS or row == "oracle"]
    return rows if column.trains else ["none"]


def _total(plan: Plan) -> int:
    per_task = sum(_COST["net"] + sum(_COST.get(row, 1) for row in _rows(plan, c)) for c in plan.regularizers)
    return per_task * len(plan.stream)


def _cell(
    plan: Plan, column: Regularized, row: str, measured: list[TaskFeatures], done: Callable[[], object]
) -> list[Result]:
    path = _cell_path(plan, column, row)
    if plan.resume and path.is_file():
        for _ in measured:
            done()
        return [_result(entry) for entry in json.loads(path.read_text())]
    matrices: dict[str, list[tuple[float, ...]]] = {}
    first: Memory | None = None
    for found, memory, still in _chain(column, row, measured):
        first = first or memory
        for name, metric in _metrics(plan, column, memory, still):
            matrices.setdefault(name, []).append(_accuracies(found, memory, metric, plan))
        done()
    results = [Result(column.label, row, name, tuple(matrix)) for name, matrix in matrices.items()]
    if row != "oracle" and first is not None:
        _write_gap(path.with_suffix(".safetensors"), measured[-1], first, memory)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps([asdict(result) for result in results]))
    partial.replace(path)
    return results


def _result(entry: dict[str, Any]) -> Result:
    return Result(**entry | {"matrix": tuple(tuple(row) for row in entry["matrix"])})


def _chain(
    column: Regularized, row: str, measured: list[TaskFeatures]
) -> Iterator[tuple[TaskFeatures, Memory, Scatter]]:
    """The memory after every task, by the same `advance` that `learn` uses."""
    dim = measured[0].features.new.shape[1]
    memory, still = Memory.empty(dim), Scatter.empty(dim)
    for task, found in enumerate(measured, start=1):
        if row == "oracle":
            yield found, found.truth, found.truth.scatter
            continue
        config = column.config.override(**ROWS[row], classifier="ncm")  # each classifier's metric is fitted by _metrics
        features = found.features
        memory = advance(memory, features, column.trains, config, (config.seed, task), Watch())
        samples = memory.common(features.new)
        means, _ = class_means(samples, features.targets, len(features.ids))
        still = still.grown(samples, features.targets, means)
        yield found, memory, still


def _metrics(plan: Plan, column: Regularized, memory: Memory, still: Scatter) -> Iterator[tuple[str, Tensor | None]]:
    shrinkage = column.config.shrinkage
    for name in plan.classifiers:
        yield name, fit_metric(name, memory.scatter, shrinkage)
    if "whitened" in plan.classifiers:
        yield "whitened-still", fit_metric("whitened", still, shrinkage)


def _accuracies(found: TaskFeatures, memory: Memory, metric: Tensor | None, plan: Plan) -> tuple[float, ...]:
    position = {name: i for i, name in enumerate(memory.prototypes.ids)}
    row = []
    for j, vectors in enumerate(found.tests):
        truth = torch.tensor([position[label] for label in plan.stream.test[j].labels])
        _, predicted = nearest(memory.common(vectors), memory.prototypes.means, metric)
        row.append(accuracy(predicted[:, 0], truth))
    return tuple(row)


def _joint(plan: Plan, found: TaskFeatures) -> list[Result]:
    config = plan.regularizers[0].config
    results = []
    for name in plan.classifiers:
        metric = fit_metric(name, found.truth.scatter, config.shrinkage)
        results.append(Result("joint", "joint", name, (_accuracies(found, found.truth, metric, plan),)))
    return results


def _cell_path(plan: Plan, column: Regularized, row: str) -> Path:
    """Named by what the row depends on, so that a changed setting never finds an old row."""
    config = column.config.override(**ROWS.get(row, {})).to_dict()
    relevant = {name: config[name] for name in ("translation", "translator", "shrinkage")}
    content = json.dumps([fingerprint(plan, column), relevant, plan.classifiers], sort_keys=True)
    return plan.out / "cells" / f"{column.label}-{row}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"


def _write_gap(path: Path, last: TaskFeatures, first: Memory, memory: Memory) -> None:
    """The first task's classes at the end: where they were stored, where translation puts them, where they are."""
    count = len(first.prototypes)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(
        path,
        {
            "stored": first.prototypes.means,
            "translated": memory.prototypes.means[:count],
            "truth": memory.common(last.truth.prototypes.means[:count]),
            "samples": memory.common(last.tests[0]),
        },
    )


def load_gap(plan: Plan, column: Regularized, row: str) -> dict[str, Tensor] | None:
    path = _cell_path(plan, column, row).with_suffix(".safetensors")
    return load_file(path) if path.is_file() else None
