"""How often the live model is right on labelled images."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from service.serving.live import LiveModel
from zstci import TaskData
from zstci.errors import InvalidData

__all__ = ["ClassAccuracy", "Evaluation", "evaluate"]


@dataclass(frozen=True)
class ClassAccuracy:
    class_id: str
    images: int
    correct: int

    @property
    def accuracy(self) -> float:
        return 100.0 * self.correct / self.images


@dataclass(frozen=True)
class Evaluation:
    """In percent, over the images of classes that the version knows; `unknown` are the others."""

    version: int
    classes: tuple[ClassAccuracy, ...]
    unknown: tuple[str, ...]

    @property
    def images(self) -> int:
        return sum(part.images for part in self.classes)

    @property
    def accuracy(self) -> float:
        return 100.0 * sum(part.correct for part in self.classes) / self.images


def evaluate(live: LiveModel, data: TaskData) -> Evaluation:
    ids = live.snapshot.prototypes.ids
    unknown = tuple(name for name in data.classes if name not in ids)
    if len(unknown) == len(data.classes):
        raise InvalidData(f"version {live.version} knows none of these classes; the folders must be named like its own")
    _, positions = live.index.search(live.snapshot.embed(data.inputs), 1)
    predicted = [ids[position] for position in positions[:, 0].tolist()]
    images = Counter(data.labels)
    correct = Counter(truth for truth, guess in zip(data.labels, predicted, strict=True) if truth == guess)
    known = [name for name in data.classes if name not in unknown]
    return Evaluation(live.version, tuple(ClassAccuracy(name, images[name], correct[name]) for name in known), unknown)
