"""What the API says of updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain import Stage, State, Update
from service.usecases.submit_update import Preview

__all__ = ["DryRun", "PlannedClass", "UpdateEntry", "UpdatePage", "brief", "dry_run", "entry"]


class _Schema(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Rejected(_Schema):
    """An image that was left out."""

    name: str = Field(description="As it was sent", examples=["barn-swallow/007.jpg"])
    code: str = Field(examples=["damaged_image"])
    detail: str = Field(examples=["it is truncated or damaged (image file is truncated)"])


class Reason(_Schema):
    code: str = Field(examples=["diverged"])
    detail: str = Field(examples=["fine_tuning: the loss became nan in epoch 3; lower the learning rate"])


class Options(_Schema):
    """What was asked for; null: as the preset says."""

    preset: str | None = Field(examples=["default"])
    regularizer: str | None = Field(examples=["lwf"])
    translator: str | None = Field(examples=["zstci"])
    classifier: str | None = Field(examples=["whitened"])
    overrides: dict[str, Any] = Field(
        description="Single settings by their dotted names", examples=[{"train.epochs": 20}]
    )
    on_bad_image: Literal["reject", "skip"]
    on_existing_class: Literal["reject", "merge"]
    activate: Literal["auto", "manual"]
    instant: bool
    holdout: float = Field(examples=[0.2])


class UpdateEntry(_Schema):
    id: str = Field(examples=["5f0c9d1e6f7f4a53b1f4a4f8f6a7c001"])
    state: State = Field(description="succeeded, failed and cancelled are final")
    stage: Stage = Field(
        description="What is being done: queued (it waits), validating, embedding (every image through the net), "
        "fine_tuning, translating and reprojecting (what is stored), evaluating (the held-out images), publishing; "
        "ended when it succeeded. It stays where it was when an update fails or is cancelled"
    )
    progress: float = Field(description="Of the whole update, 0 to 1", examples=[0.43])
    eta_seconds: float | None = Field(description="Rough time to go", examples=[12.5])
    attempt: int = Field(description="How often work on it has begun: above 1 after a crash or a restart", examples=[1])
    options: Options
    classes: list[str] = Field(description="Names in the upload", examples=[["barn-swallow"]])
    images: int = Field(description="Usable images in the upload", examples=[30])
    rejected: list[Rejected] = Field(description="Images that were left out (on_bad_image=skip)")
    created_at: str = Field(examples=["2026-11-18T03:00:00.000000Z"])
    started_at: str | None = Field(examples=["2026-11-18T03:00:01.000000Z"])
    ended_at: str | None = Field(examples=["2026-11-18T03:00:09.000000Z"])
    parent: int | None = Field(description="The version it was learnt on top of", examples=[2])
    version: int | None = Field(description="The version that it made", examples=[3])
    instant_version: int | None = Field(
        description="The version that answered meanwhile (instant=true); taken back if the update fails or is "
        "cancelled, unless something was built on it",
        examples=[None],
    )
    metrics: dict[str, Any] = Field(
        description="`accuracy` in percent on the held-out part of the upload, among all classes; `classes`: the same "
        "for each; `seconds`; `translation`: what the translator says of itself",
        examples=[{"accuracy": 91.7, "held_out_images": 12, "seconds": 8.2}],
    )
    error: Reason | None = Field(
        description="Why it failed, and whether its instant part still answers; of a cancelled update `instant_kept`, "
        "if that could not be taken back because other versions were built on it"
    )
    cancel_requested: bool
    purged_at: str | None = Field(description="When its images were deleted; none outlives its update")
    receipt: dict[str, Any] = Field(
        description="What was deleted: number of images, also of those that were left out, bytes, and the sha256 of "
        "each (not in lists; what was too large to be read has none)",
        examples=[{"images": 30}],
    )


class UpdatePage(_Schema):
    data: list[UpdateEntry] = Field(description="Newest first")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one")


class PlannedClass(_Schema):
    name: str = Field(examples=["barn-swallow"])
    images: int = Field(examples=[30])
    known: bool = Field(description="Whether the active version knows it already", examples=[False])


class DryRun(_Schema):
    """What the update would do. Nothing was kept."""

    dry_run: Literal[True] = True
    classes: list[PlannedClass]
    images: int = Field(examples=[30])
    rejected: list[Rejected]
    config: dict[str, Any] = Field(description="Every setting that would be used")


def entry(update: Update) -> UpdateEntry:
    return UpdateEntry.model_validate(update)


def brief(update: Update) -> UpdateEntry:
    """For lists: without the sha256 of every single image."""
    short = {name: value for name, value in update.receipt.items() if name != "sha256"}
    return entry(replace(update, receipt=short))


def dry_run(preview: Preview) -> DryRun:
    upload = preview.upload
    counts = dict.fromkeys(upload.classes, 0)
    for image in upload.images:
        counts[image.class_name] += 1
    return DryRun(
        classes=[PlannedClass(name=n, images=count, known=n in preview.known) for n, count in counts.items()],
        images=len(upload.images),
        rejected=[Rejected.model_validate(rejected) for rejected in upload.rejected],
        config=preview.config.to_dict(),
    )
