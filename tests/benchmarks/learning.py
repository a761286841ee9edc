"""`make bench`: how fast the learning library is, as ratios of what is timed in turns in one run.

Every target of the library is here, and needs nothing but the package: `make bench ARGS='--quick'`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from tests.benchmarks.fine_tuning import efficientnet, resnet32
from tests.benchmarks.measure import Contest, Result, judge, machine, race
from tests.benchmarks.report import table, write_report
from tests.benchmarks.reprojecting import reprojecting
from tests.benchmarks.translating import fitting, sdc, translator_steps
from tests.benchmarks.triplets import triplets

RESULTS = Path(__file__).parent / "results"
_ROUNDS, _QUICK_ROUNDS = 5, 3
_BAR = "{desc:<14}{percentage:3.0f}%|{bar:40}| {elapsed}"  # contests differ too much for an honest ETA

# Built one after another, so that no contest's tensors stay in the way of the next.
CONTESTS: dict[str, Callable[[Path, bool], Contest]] = {
    "resnet32": resnet32,
    "efficientnet": efficientnet,
    "triplets": triplets,
    "reprojecting": reprojecting,
    "translator": translator_steps,
    "sdc": sdc,
    "fitting": fitting,
}


def main() -> None:
    options = _options()
    # One thread unless asked otherwise: two threads wait for each other at every operation, and on a busy machine that
    # measures the other programs. Both sides of a ratio have the same number.
    torch.set_num_threads(options.threads)
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    about = machine() | {"rounds": rounds, "quick": options.quick, "date": time.strftime("%Y-%m-%d %H:%M")}
    _warn_if_busy()
    results = run(options.only or list(CONTESTS), rounds, options.quick)
    print(table(results))
    about["load_after"] = [round(load, 1) for load in os.getloadavg()]
    write_report(options.out, "learning", about, results)
    print(f"written to {options.out}")


def run(names: list[str], rounds: int, quick: bool) -> list[Result]:
    results = []
    with tempfile.TemporaryDirectory() as folder, tqdm(total=len(names), bar_format=_BAR) as bar:
        for name in names:
            bar.set_description(name)
            contest = CONTESTS[name](Path(folder), quick)
            counted = min(rounds, contest.most_rounds)
            on_lap = partial(bar.update, 1 / ((counted + 1) * len(contest.contestants)))
            results += judge(contest, race(contest.contestants, counted, on_lap))
    return results


def _warn_if_busy() -> None:
    others = os.getloadavg()[0]
    if others > 0.5:
        print(f"{others:.1f} other processes are running: the clock's ratios are noisy, trust the CPU ratios")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the learning library.")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_ROUNDS} rounds of shorter laps")
    parser.add_argument("--rounds", type=int, help=f"laps of each contestant (default {_ROUNDS})")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default 1)")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTS), help="some contests, not all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for learning.json, .md and .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
