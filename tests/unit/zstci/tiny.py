"""Small real parts for the tests: scanned digits, as 8x8 images or as 64 numbers, and nets that learn them at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zstci import Config, ImageArrays, Snapshot, TaskData, Vectors
from zstci.config import InputConfig, NetConfig, TrainConfig, TranslatorConfig
from zstci.nets import EmbeddingNet

# A margin that digits do not reach at once: with a smaller one the loss is 0 and nothing learns.
TRAIN = TrainConfig(trainable="all", epochs=2, lr=1e-2, classes_per_batch=3, images_per_class=3, margin=1.0)
TRANSLATION = TranslatorConfig(hidden=8, epochs=2, batch_size=8)
VECTOR_NET = NetConfig("vectors:64", "none", dim=8)
IMAGE_NET = NetConfig("resnet32", "none", dim=8, input=InputConfig(size=8, resize=8, augment="crop"))


def vector_config(**changes: Any) -> Config:
    """Learns in milliseconds: a linear layer over ready-made numbers."""
    return Config(net=VECTOR_NET, train=TRAIN, translation=TRANSLATION, device="cpu").override(**changes)


def image_config(**changes: Any) -> Config:
    """A convolutional net with BatchNorm, on 8x8 pixels."""
    return Config(net=IMAGE_NET, train=TRAIN, translation=TRANSLATION, device="cpu").override(**changes)


def images(classes: Sequence[str], per_class: int = 4, skip: int = 0) -> TaskData:
    """`per_class` scans of each digit, after the first `skip` of them."""
    pixels, labels = _digits(tuple(classes), per_class, skip)
    return TaskData(ImageArrays(pixels), labels)


def vectors(classes: Sequence[str], per_class: int = 4, skip: int = 0) -> TaskData:
    """The same scans as vectors of 64 numbers around 0."""
    pixels, labels = _digits(tuple(classes), per_class, skip)
    return TaskData(Vectors(torch.from_numpy(pixels.reshape(len(pixels), -1) / 255.0 - 0.3).float()), labels)


def joined(*parts: TaskData) -> TaskData:
    """Several tasks of vectors as one."""
    values = [part.inputs.values for part in parts if isinstance(part.inputs, Vectors)]
    return TaskData(Vectors(torch.cat(values)), tuple(label for part in parts for label in part.labels))


def head(net: EmbeddingNet) -> Tensor:
    """The weights of the last layer: they show whether the net moved."""
    weight = net.head.weight
    assert isinstance(weight, Tensor)
    return weight


def tensors_of(snapshot: Snapshot) -> dict[str, Tensor]:
    """A copy of every number that a snapshot holds, by name."""
    memory = snapshot.memory
    named = {f"net.{name}": value for name, value in snapshot.net.state_dict().items()}
    named |= {f"prototypes.{name}": getattr(memory.prototypes, name) for name in ("means", "counts", "hops")}
    named |= {"scatter": memory.scatter.matrix, "freedom": torch.tensor(memory.scatter.freedom)}
    if memory.query is not None:
        named |= {f"query.{name}": value for name, value in memory.query.state_dict().items()}
    if memory.metric is not None:
        named["metric"] = memory.metric
    for kind, values in snapshot.importance.items():
        named |= {f"importance.{kind}.{name}": value for name, value in values.items()}
    return {name: value.detach().clone() for name, value in named.items()}


def assert_same_tensors(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert sorted(first) == sorted(second)
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert not different, f"not bit-identical: {different}"


def assert_same_snapshot(first: Snapshot, second: Snapshot) -> None:
    """Bit for bit, numbers and facts."""
    assert_same_tensors(tensors_of(first), tensors_of(second))
    assert first.prototypes.ids == second.prototypes.ids
    assert first.config == second.config
    assert (first.task, first.memory.translation) == (second.task, second.memory.translation)


@functools.cache
def _digits(classes: tuple[str, ...], per_class: int, skip: int) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = [np.flatnonzero(digits.target == int(name))[skip : skip + per_class] for name in classes]
    pixels = (digits.images[np.concatenate(chosen)] * (255 / 16)).astype(np.uint8)
    return pixels, tuple(name for name, rows in zip(classes, chosen, strict=True) for _ in rows)
