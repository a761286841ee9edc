"""Values that storage, serving and the surfaces share. All frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "SCOPES",
    "Active",
    "Actor",
    "Answer",
    "AuditEntry",
    "Caller",
    "Event",
    "EventKind",
    "Facts",
    "Failure",
    "Key",
    "Prediction",
    "RejectedImage",
    "Report",
    "Scope",
    "Stage",
    "State",
    "StoredKey",
    "Update",
    "UpdateOptions",
    "Upload",
    "UploadedImage",
    "Version",
    "VersionKind",
]

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Stage = Literal[
    "queued",
    "validating",
    "embedding",
    "fine_tuning",
    "translating",
    "reprojecting",
    "evaluating",
    "publishing",
    "ended",
]
EventKind = Literal["state", "progress", "metric", "done"]
VersionKind = Literal["update", "instant", "delete"]  # what made it: an update, its instant part, the end of a class
Scope = Literal["query", "update", "admin"]
SCOPES: tuple[Scope, ...] = ("query", "update", "admin")  # each may do what those before it may
ENDED: tuple[State, ...] = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Facts:
    """What is known about a version when it is made."""

    seconds: float  # that learning it took
    task: int
    classes: int
    added: tuple[str, ...]  # names of the classes that its parent did not have
    images: int  # that it was learnt from; none of them is kept
    backbone: str
    regularizer: str
    translator: str
    classifier: str
    engine: str  # what computes its embeddings: onnx or torch
    translation: dict[str, float | str] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)  # on the held-out part of its upload


@dataclass(frozen=True)
class Version:
    number: int
    parent: int | None
    kind: VersionKind
    bundle: str  # where its files are: a key of the artifacts
    created_at: str  # ISO 8601, UTC
    sha256: str  # of its manifest, which holds those of the files
    bytes: int
    facts: Facts
    update_id: str | None = None


@dataclass(frozen=True)
class Active:
    """What every API process polls: the version that answers, and a count of the changes of names."""

    version: int | None
    names_revision: int


@dataclass(frozen=True)
class UploadedImage:
    """`name` is as it was sent, `file` where it lies in the upload's folder: names of strangers never become paths."""

    name: str
    class_name: str
    file: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class RejectedImage:
    name: str
    code: str
    detail: str
    sha256: str | None = None  # None of what was too large to be read at all
    bytes: int = 0


@dataclass(frozen=True)
class Upload:
    images: tuple[UploadedImage, ...]
    rejected: tuple[RejectedImage, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """In first-seen order."""
        return tuple(dict.fromkeys(image.class_name for image in self.images))


@dataclass(frozen=True)
class UpdateOptions:
    """What a caller may choose. None: as the preset says."""

    preset: str | None = None
    regularizer: str | None = None
    translator: str | None = None
    classifier: str | None = None
    overrides: dict[str, Any] = field(default_factory=dict)  # dotted settings, such as train.epochs
    on_bad_image: Literal["reject", "skip"] = "reject"
    on_existing_class: Literal["reject", "merge"] = "reject"
    activate: Literal["auto", "manual"] = "auto"
    instant: bool = False
    holdout: float = 0.2


@dataclass(frozen=True)
class Failure:
    code: str
    detail: str


@dataclass(frozen=True)
class Update:
    id: str
    state: State
    stage: Stage
    progress: float  # of the whole update, 0 to 1
    eta_seconds: float | None
    attempt: int  # how often work on it has begun
    options: UpdateOptions
    classes: tuple[str, ...]  # names in the upload
    images: int
    rejected: tuple[RejectedImage, ...]
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    parent: int | None = None  # the version it was learnt on top of
    version: int | None = None  # the version it made
    instant_version: int | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    error: Failure | None = None
    cancel_requested: bool = False
    purged_at: str | None = None  # when its images were deleted
    receipt: dict[str, Any] = field(default_factory=dict)  # what was deleted: number, bytes and digest, no image
    clean_stops: int = 0  # attempts that ended because their worker was asked to stop


@dataclass(frozen=True)
class Report:
    """One step of progress, as the worker tells it."""

    stage: Stage
    progress: float
    eta_seconds: float | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Event:
    id: int
    update_id: str
    attempt: int
    kind: EventKind
    data: dict[str, Any]
    created_at: str


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


@dataclass(frozen=True)
class Key:
    """What may be told about a key: all but the key."""

    id: str
    name: str
    scope: Scope
    created_at: str
    expires_at: str | None = None
    rotated_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None  # to a few seconds


@dataclass(frozen=True)
class StoredKey:
    """As it is at rest: digests alone. After a rotation the previous secret may be good for a while."""

    key: Key
    digest: str
    previous_digest: str | None = None
    previous_until: str | None = None


@dataclass(frozen=True)
class Caller:
    """Who asks. Without an id: somebody who needs no key here."""

    key_id: str | None
    name: str
    scope: Scope


@dataclass(frozen=True)
class Actor:
    """Who changes something, and with which request."""

    key_id: str | None
    name: str
    request_id: str | None = None


@dataclass(frozen=True)
class AuditEntry:
    id: int
    at: str
    key_id: str | None
    actor: str
    action: str
    object: str
    request_id: str | None
    outcome: str  # done, the code of what refused it, or begun: then its process died in the middle
