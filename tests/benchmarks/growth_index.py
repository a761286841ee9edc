"""Searching, building and re-projecting from a hundred classes to a million, in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any

import numpy as np
import torch

from service.serving.index import PrototypeIndex
from service.serving.index_choice import nearest_exactly
from tests.benchmarks.growth_data import DIM, class_ids, families, likely_queries, rotation
from tests.benchmarks.inputs import unit_vectors
from tests.benchmarks.measure import Contestant, Lap, Stopwatch, race, repeat
from zstci.config import TranslatorConfig
from zstci.progress import Watch
from zstci.prototypes import Prototypes
from zstci.translators import Pairs, fit_translator

__all__ = ["measure_index", "measure_reprojection"]

_NEIGHBOURS = 100  # as many as a query of the service asks for
_QUERIES = 1024
_LAP_SECONDS = 1.0
_FEW = 100_000  # classes; building is timed again and again only up to here

Row = dict[str, Any]


def measure_index(sizes: list[int], rounds: int, on_lap: Callable[[], object]) -> dict[int, Row]:
    """Facts, recall on fresh queries, and the milliseconds of a search and seconds of building by size."""
    rows: dict[int, Row] = {}
    searches: dict[str, Contestant] = {}
    metric = rotation().numpy()
    for size in sizes:
        means = families(size)
        builds = [_built(means.numpy(), metric) for _ in range(rounds if size <= _FEW else 1)]
        index = builds[-1][0]
        queries = likely_queries(means, index.gap, _QUERIES).numpy()
        rows[size] = asdict(index.facts) | _recalls(index, queries, means.numpy())
        rows[size] |= {f"build_{name}": value for name, value in _medians([lap for _, lap in builds]).items()}
        searches[str(size)] = repeat(partial(_search, index, cycle(np.split(queries, _QUERIES))), 1, _LAP_SECONDS)
        on_lap()
    for name, laps in race(searches, rounds, on_lap).items():
        rows[int(name)] |= {f"search_{key}": value for key, value in _medians(laps).items()}
        rows[int(name)]["search_laps"] = [asdict(lap) for lap in laps]
    return rows


def measure_reprojection(sizes: list[int], rounds: int, on_lap: Callable[[], object]) -> dict[str, dict[int, Row]]:
    """Seconds that `linear` and `zstci` take to move every stored mean, by size."""
    stored = {}
    for size in sizes:
        counts = torch.ones(size, dtype=torch.int64)
        stored[size] = Prototypes(class_ids(size), families(size), counts, torch.zeros_like(counts))
    rows: dict[str, dict[int, Row]] = {}
    for name in ("linear", "zstci"):
        moves = {str(size): repeat(partial(_moved, stored[size], _translator(name)), 1, 0.2) for size in sizes}
        rows[name] = {int(size): _medians(laps) for size, laps in race(moves, rounds, on_lap).items()}
    return rows


def _built(means: np.ndarray, metric: np.ndarray) -> tuple[PrototypeIndex, Lap]:
    watch = Stopwatch()
    return PrototypeIndex.of(means, metric), watch.stop(1)


def _search(index: PrototypeIndex, queries: cycle[np.ndarray]) -> object:
    return index.search(next(queries), _NEIGHBOURS)


def _recalls(index: PrototypeIndex, queries: np.ndarray, means: np.ndarray) -> Row:
    """Of queries that the index was not tuned with. The metric of this benchmark changes no distance."""
    _, expected = nearest_exactly(queries, means, 10)
    _, found = index.search(queries, 10)
    tens = [len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), expected.tolist(), strict=True)]
    return {
        "fresh_recall_at_1": float((found[:, 0] == expected[:, 0]).mean()),
        "fresh_recall_at_10": float(np.mean(tens)),
    }


def _translator(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Fitted on a task of ten classes of 500 images, as in the benchmark of re-projecting."""
    old = unit_vectors(5000, DIM)
    new = old + 0.1 * unit_vectors(5000, DIM, seed=1)
    pairs = Pairs(old, new, torch.arange(10).repeat_interleave(500), unit_vectors(100, DIM, seed=2))
    return fit_translator(name, pairs, TranslatorConfig(epochs=1), "bench", Watch()).old


@torch.no_grad()
def _moved(stored: Prototypes, translate: Callable[[torch.Tensor], torch.Tensor]) -> object:
    return stored.mapped(translate)


def _medians(laps: list[Lap]) -> dict[str, float]:
    """Of one item, in seconds."""
    return {
        "wall": median(lap.wall / lap.items for lap in laps),
        "cpu": median(lap.cpu / lap.items for lap in laps),
        "rounds": len(laps),
    }
