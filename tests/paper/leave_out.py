"""Which images should `auto` leave out? Compare two ways of guessing how well a ridge will serve the old classes.

    python -m tests.paper.leave_out RESULTS/nets/lwf ...

reads the nets folder of a `zstci reproduce` run and prints, for every task and ridge, the error relative to not
translating at all: with whole new classes left out, with images left out, and the truth, which is the error on the
means of the old classes that only the experiment knows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from zstci.translators import RIDGES, linear_fit, ridge_errors


def classes_out(old: Tensor, new: Tensor, targets: Tensor, ridge: float) -> float:
    """Squared error on the mean of a class that the fit did not see, relative to leaving that mean where it was."""
    error = still = 0.0
    for label in targets.unique():
        held = targets == label
        before, after = old[held].mean(0), new[held].mean(0)
        error += float((before @ linear_fit(old[~held], new[~held], ridge) - after).square().sum())
        still += float((before - after).square().sum())
    return error / still


def nearest_truth(new: Tensor, means: Tensor) -> Tensor:
    """The results hold no labels; the class whose true mean is nearest stands in for them."""
    return torch.cdist(new, means).argmin(1)


def rows(folder: Path) -> Iterator[str]:
    paths = sorted(folder.glob("task-*.safetensors"))
    before = load_file(paths[0])
    for number, path in enumerate(paths[1:], start=2):
        found = load_file(path)
        old, new, stored = found["old"], found["new"], before["truth.means"]
        truth, fresh = found["truth.means"][: len(stored)], found["truth.means"][len(stored) :]
        targets = nearest_truth(new, fresh)
        drift = (new - old).square().sum(1).mean()
        images = [error / float(drift) for error in ridge_errors(old, new, RIDGES)]
        for ridge, image_error in zip(RIDGES, images, strict=True):
            moved = stored @ linear_fit(old, new, ridge)
            true_error = float((moved - truth).square().sum() / (stored - truth).square().sum())
            class_error = classes_out(old, new, targets, ridge)
            yield f"{number:4} {ridge:7g} {class_error:12.2f} {image_error:11.2f} {true_error:6.2f}"
        before = found


def main(folders: list[str]) -> None:
    for folder in folders:
        print(f"{Path(folder).name}\ntask   ridge  classes out  images out  truth")
        for row in rows(Path(folder)):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
