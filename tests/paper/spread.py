"""How much of a cell is a matter of draws? The paper's order of classes, other random numbers.

    python -m tests.paper.spread cifar100 --regularizer ewc --translator none,sdc,zstci --seeds 1993,1,2 --out DIR

`zstci reproduce --seed` changes the order of classes as well, which is another problem; here only what is drawn in
training changes: batches, augmentation, the fresh head and the translator's weights. Goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from zstci.metrics import average_accuracy
from zstci.reproduce import make_plan, run
from zstci.reproduce.run import Result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=["cifar100", "cub", "digits"])
    parser.add_argument("--regularizer", default="ewc")
    parser.add_argument("--translator", default="none,sdc,zstci,linear")
    parser.add_argument("--classifier", default="ncm")
    parser.add_argument("--seeds", default="1993,1,2")
    parser.add_argument("--epsilon", choices=["plain", "corrected"], default="plain", help="of Adam, on CIFAR-100")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    for seed in seeds:
        for result in measure(chosen, seed):
            row = f"{result.regularizer:<8} {result.translator:<8} {result.classifier:<14} seed {seed:>5}"
            values = " ".join(f"{value:5.1f}" for value in average_accuracy(result.matrix))
            print(f"{chosen.epsilon:<10} {row} {values}", flush=True)


def measure(chosen: argparse.Namespace, seed: int) -> list[Result]:
    plan = make_plan(
        chosen.dataset,
        regularizers=chosen.regularizer.split(","),
        rows=chosen.translator.split(","),
        classifiers=chosen.classifier.split(","),
        data=chosen.data,
        out=chosen.out / f"{chosen.epsilon}-seed-{seed}",
        resume=True,
        oracle_images=20,  # the true means are not shown here
    )
    changes = {"seed": seed, "train.epsilon": chosen.epsilon}
    columns = tuple(replace(column, config=column.config.override(**changes)) for column in plan.regularizers)
    return run(replace(plan, regularizers=columns))


if __name__ == "__main__":
    main()
