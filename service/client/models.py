"""What the service answers, typed and frozen. Fields that a newer service adds are ignored."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from service.domain import ENDED, Stage, State, VersionKind

__all__ = [
    "AuditEntry",
    "ClassEntry",
    "Classification",
    "DryRun",
    "DryRunClass",
    "Embeddings",
    "Hit",
    "Prediction",
    "Progress",
    "Ready",
    "Rejected",
    "Search",
    "UpdateEntry",
    "UpdateError",
    "UpdateOptions",
    "VersionEntry",
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Hit(_Model):
    class_id: str
    name: str
    distance: float


class Prediction(Hit):
    score: float


class Classification(_Model):
    """One image; nearest class first."""

    predictions: tuple[Prediction, ...]
    margin: float | None
    version: int


class Search(_Model):
    """One image; nearest first."""

    hits: tuple[Hit, ...]
    version: int


class Embeddings(_Model):
    """One vector for each image. Vectors of two versions must not be compared."""

    data: tuple[tuple[float, ...], ...]
    dim: int
    version: int


class ClassEntry(_Model):
    id: str
    name: str
    images: int
    hops: int


class Ready(_Model):
    version: int
    classes: int


class VersionEntry(_Model):
    number: int
    active: bool
    parent: int | None
    kind: VersionKind
    created_at: str
    seconds: float
    task: int
    classes: int
    added: tuple[str, ...]
    images: int
    backbone: str
    regularizer: str
    translator: str
    classifier: str
    engine: str
    translation: dict[str, float | str]
    metrics: dict[str, Any]
    update_id: str | None
    sha256: str
    bytes: int


class Rejected(_Model):
    """An image that cannot be learnt from, by its name in the upload."""

    name: str
    code: str
    detail: str


class UpdateOptions(_Model):
    preset: str | None = None
    regularizer: str | None = None
    translator: str | None = None
    classifier: str | None = None
    overrides: dict[str, Any] = {}
    on_bad_image: str
    on_existing_class: str
    activate: str
    instant: bool
    holdout: float


class UpdateError(_Model):
    code: str
    detail: str


class UpdateEntry(_Model):
    id: str
    state: State
    stage: Stage
    progress: float
    eta_seconds: float | None
    attempt: int
    options: UpdateOptions
    classes: tuple[str, ...]
    images: int
    rejected: tuple[Rejected, ...]
    created_at: str
    started_at: str | None
    ended_at: str | None
    parent: int | None
    version: int | None
    instant_version: int | None
    metrics: dict[str, Any]
    error: UpdateError | None
    cancel_requested: bool
    purged_at: str | None
    receipt: dict[str, Any]

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class DryRunClass(_Model):
    name: str
    images: int
    known: bool


class DryRun(_Model):
    """What an update would be made of. Nothing was kept."""

    classes: tuple[DryRunClass, ...]
    images: int
    rejected: tuple[Rejected, ...]
    config: dict[str, Any]


class Progress(_Model):
    """`progress` is that of the whole update, 0 to 1."""

    stage: Stage
    progress: float
    eta_seconds: float | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    attempt: int = 1


class AuditEntry(_Model):
    """Who changed what."""

    id: int
    at: str
    key_id: str | None
    actor: str
    action: str
    object: str
    request_id: str | None
    outcome: str
