"""Values that storage, serving and the surfaces share. All frozen."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Answer", "Facts", "Prediction", "Version"]


@dataclass(frozen=True)
class Facts:
    """What is known about a version when it is made. `parent` is 0 for the first one."""

    parent: int
    created_at: str  # ISO 8601, UTC
    seconds: float  # that learning it took
    task: int
    classes: int
    added: tuple[str, ...]  # classes that its parent did not have
    images: int  # that it was learnt from; none of them is kept
    backbone: str
    regularizer: str
    translator: str
    classifier: str
    translation: dict[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Version:
    number: int
    facts: Facts
    sha256: str  # of the manifest, which holds those of the files
    bytes: int


@dataclass(frozen=True)
class Prediction:
    class_id: str
    name: str
    distance: float
    score: float


@dataclass(frozen=True)
class Answer:
    """The nearest classes of one image, nearest first. `margin` is how much farther the second one is."""

    predictions: tuple[Prediction, ...]
    margin: float | None  # None where there is only one class
