"""What a service costs as it grows from a hundred classes to a million.

    python -m tests.benchmarks.growth [--largest 1000000] [--rounds 5] [--only index swap]

Vectors are made up: 512 dimensions, families of 50 classes, fixed seeds. Everything is computed by one thread. Parts
can be measured one at a time; what was measured before stays in the report.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import torch
from tqdm import tqdm

from tests.benchmarks.growth_data import DIM
from tests.benchmarks.growth_index import measure_index, measure_reprojection
from tests.benchmarks.growth_report import write_growth
from tests.benchmarks.growth_swap import measure_swap
from tests.benchmarks.growth_updates import measure_updates
from tests.benchmarks.measure import machine

RESULTS = Path(__file__).parent / "results"
_SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
_MOST_UPDATED = 100_000  # stored classes; an update of more takes minutes
_MOST_REPROJECTED = 100_000  # again and again; a million are re-projected in `swap`
_IMAGES = (10, 40, 160)  # of each of two new classes
_LEAST_SWAPPED = 10_000

Part = Callable[[list[int], int, Callable[[], object]], Any]


def _reprojection(sizes: list[int], rounds: int, on_lap: Callable[[], object]) -> Any:
    return measure_reprojection([size for size in sizes if size <= _MOST_REPROJECTED], rounds, on_lap)


def _swaps(sizes: list[int], rounds: int, on_lap: Callable[[], object]) -> dict[int, Any]:
    found = {}
    for size in sizes:
        if size >= _LEAST_SWAPPED:
            found[size] = measure_swap(size)
        on_lap()
    return found


def _updates(sizes: list[int], rounds: int, on_lap: Callable[[], object]) -> Any:
    return measure_updates([size for size in sizes if size <= _MOST_UPDATED], list(_IMAGES), rounds, on_lap)


PARTS: dict[str, Part] = {
    "index": measure_index,
    "reprojection": _reprojection,
    "updates": _updates,
    "swap": _swaps,
}


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    sizes = [size for size in _SIZES if size <= options.largest]
    path = options.out / "growth.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name in options.only or list(PARTS):
        about = machine() | {"date": time.strftime("%Y-%m-%d %H:%M"), "rounds": options.rounds, "dimensions": DIM}
        with tqdm(desc=name, bar_format="{desc:<14}{n_fmt} laps, {elapsed}") as bar:
            found = PARTS[name](sizes, options.rounds, bar.update)
        about["load_after"] = [round(load, 1) for load in os.getloadavg()]
        content[name] = {"about": about, "found": found}
        # Numbers as keys become text in a file, so that a part reads the same now and later.
        content = json.loads(json.dumps(content))
        write_growth(options.out, content)
    print((options.out / "growth.md").read_text())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=_SIZES[-1], help="most classes (default 1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="laps that medians are taken of (default 5)")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="some parts, not all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for growth.json, .md and .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
