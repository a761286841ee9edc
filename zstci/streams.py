"""Class-incremental task streams: real data, cut into tasks of classes in a seeded order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from zstci._torchvision_ops import make_torchvision_importable
from zstci.data import ImageArrays, ImageFiles, Inputs, TaskData, Vectors
from zstci.errors import InvalidConfig, MissingData, UnknownStrategy

__all__ = ["STREAMS", "Stream", "load_stream", "shared_data", "take"]

Split = tuple[Inputs, tuple[str, ...]]


@dataclass(frozen=True)
class Stream:
    """`train[t]` and `test[t]` hold the same classes; no class is in two tasks."""

    train: tuple[TaskData, ...]
    test: tuple[TaskData, ...]

    def __len__(self) -> int:
        return len(self.train)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(name for task in self.train for name in task.classes)


def shared_data() -> Path | None:
    """The folder that ZSTCI_DATA names, if it does."""
    folder = os.environ.get("ZSTCI_DATA")
    return Path(folder) if folder else None


def load_stream(name: str, folder: Path | None, tasks: int, seed: int, limit: int = 0) -> Stream:
    """`limit` keeps only the first images of every class of the training part; 0 keeps all."""
    if name not in STREAMS:
        raise UnknownStrategy("stream", name, STREAMS)
    train, test = STREAMS[name](folder)
    return _cut(train, test, tasks, seed, limit)


def _cut(train: Split, test: Split, tasks: int, seed: int, limit: int) -> Stream:
    names = sorted(set(train[1]), key=_natural)
    if set(test[1]) - set(names):
        raise InvalidConfig(
            f"test classes without training images: {sorted(set(test[1]) - set(names))[:3]}; "
            "add images of them to the training part, or remove them from the test part"
        )
    if set(names) - set(test[1]):
        raise InvalidConfig(
            f"training classes without test images: {sorted(set(names) - set(test[1]))[:3]}; "
            "add images of them to the test part, or remove them from the training part"
        )
    if not 1 <= tasks <= len(names):
        raise InvalidConfig(f"{len(names)} classes cannot be cut into {tasks} tasks; choose 1 to {len(names)}")
    order = np.random.RandomState(seed).permutation(len(names))  # the published order for seed 1993
    groups = [[names[i] for i in group] for group in np.array_split(order, tasks)]
    return Stream(
        tuple(_select(train, group, limit) for group in groups), tuple(_select(test, group, 0) for group in groups)
    )


def _natural(name: str) -> tuple[int, str]:
    """Numbers in number order, so that class "10" follows "9" as in the published order."""
    return (int(name), "") if name.isdecimal() else (-1, name)


def _select(split: Split, names: Sequence[str], limit: int) -> TaskData:
    if limit < 0:
        raise InvalidConfig(f"the limit must not be negative, got {limit}; 0 keeps every image")
    inputs, labels = split
    by_class: dict[str, list[int]] = {name: [] for name in names}
    for position, label in enumerate(labels):
        if label in by_class:
            by_class[label].append(position)
    positions = [i for name in names for i in (by_class[name][:limit] if limit else by_class[name])]
    return TaskData(_subset(inputs, positions), tuple(labels[i] for i in positions))


def take(data: TaskData, limit: int) -> TaskData:
    """The first `limit` images of every class; 0 takes all."""
    return _select((data.inputs, data.labels), data.classes, limit) if limit else data


def _subset(inputs: Inputs, positions: list[int]) -> Inputs:
    if isinstance(inputs, ImageFiles):
        return ImageFiles([inputs.paths[i] for i in positions])
    if isinstance(inputs, Vectors):
        return Vectors(inputs.values[positions])
    assert isinstance(inputs, ImageArrays)
    return ImageArrays(inputs.pixels[torch.tensor(positions)].permute(0, 2, 3, 1).numpy())


def _folders(root: Path) -> tuple[Split, Split]:
    train, test = TaskData.from_folder(root / "train"), TaskData.from_folder(root / "test")
    return (train.inputs, train.labels), (test.inputs, test.labels)


def _cub(folder: Path | None) -> tuple[Split, Split]:
    shared = shared_data()
    for root in _existing(folder, [shared and shared / "cub", shared and shared / "cub-mini", shared]):
        if (root / "train").is_dir() and (root / "test").is_dir():
            return _folders(root)
    raise MissingData(
        "no CUB here; give --data DIR, or set ZSTCI_DATA, with train/<species>/ and test/<species>/ below it"
    )


def _cifar100(folder: Path | None) -> tuple[Split, Split]:
    shared = shared_data()
    roots = list(_existing(folder, [shared, shared and shared / "cifar100"]))
    for root in roots:
        if (root / "cifar-100-python").is_dir():
            make_torchvision_importable()
            from torchvision.datasets import CIFAR100

            try:
                parts = [CIFAR100(str(root), train=train) for train in (True, False)]
            except RuntimeError as error:
                raise MissingData(f"{root / 'cifar-100-python'} is incomplete or damaged; copy it again") from error
            train, test = [(ImageArrays(part.data), tuple(map(str, part.targets))) for part in parts]
            return train, test
        if (root / "train").is_dir() and (root / "test").is_dir():
            return _folders(root)
    restorers = [root / "restore.py" for root in roots if (root / "restore.py").is_file()]
    hint = (
        f"run: python {restorers[0]} DIR, then give --data DIR" if restorers else "give --data DIR, or set ZSTCI_DATA"
    )
    raise MissingData(f"no CIFAR-100 here (a folder that holds cifar-100-python, or train/ and test/ folders); {hint}")


def _digits(folder: Path | None) -> tuple[Split, Split]:
    """scikit-learn's 1,797 scanned digits, 8x8: real images on any machine. Every fourth image is for the test."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = (digits.images * (255 / 16)).astype(np.uint8)
    test = np.arange(len(pixels)) % 4 == 3
    train_part, test_part = [
        (ImageArrays(pixels[chosen]), tuple(map(str, digits.target[chosen]))) for chosen in (~test, test)
    ]
    return train_part, test_part


def _existing(given: Path | None, usual: Iterable[Path | None]) -> Iterable[Path]:
    """A folder that was given is the only one: to fall back on other data would go unnoticed."""
    return (folder for folder in ([given] if given else usual) if folder is not None and folder.is_dir())


STREAMS: dict[str, Callable[[Path | None], tuple[Split, Split]]] = {
    "cifar100": _cifar100,
    "cub": _cub,
    "digits": _digits,
}
