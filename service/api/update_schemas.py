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
    code: str = Field(description="Stable name of the reason", examples=["damaged_image"])
    detail: str = Field(
        description="What is wrong with it", examples=["it is truncated or damaged (image file is truncated)"]
    )


class Reason(_Schema):
    """Why an update did not come to a version."""

    code: str = Field(description="Stable name of the reason", examples=["diverged"])
    detail: str = Field(
        description="What happened, and what to do",
        examples=["fine_tuning: the loss became nan in epoch 3; lower the learning rate"],
    )


class Options(_Schema):
    """What was asked for; null: as the preset says."""

    preset: str | None = Field(description="Named settings", examples=["default"])
    regularizer: str | None = Field(description="What holds the net back while it learns", examples=["lwf"])
    translator: str | None = Field(description="What makes old class means follow the net", examples=["zstci"])
    classifier: str | None = Field(description="How the nearest class is found", examples=["whitened"])
    overrides: dict[str, Any] = Field(
        description="Single settings by their dotted names", examples=[{"train.epochs": 20}]
    )
    on_bad_image: Literal["reject", "skip"] = Field(
        description="Whether an unusable image refuses the update or is left out", examples=["skip"]
    )
    on_existing_class: Literal["reject", "merge"] = Field(
        description="Whether a known class refuses the update or more is learnt of it", examples=["reject"]
    )
    activate: Literal["auto", "manual"] = Field(
        description="Whether the new version answers as soon as it is ready, or waits to be activated",
        examples=["auto"],
    )
    instant: bool = Field(
        description="Whether the new classes answer at once, under the net as it is", examples=[False]
    )
    holdout: float = Field(description="Share of each class's images that is not learnt from", examples=[0.2])


class UpdateEntry(_Schema):
    """An update: what was sent, how far it is, and what came of it."""

    id: str = Field(description="Ask for it with this", examples=["5f0c9d1e6f7f4a53b1f4a4f8f6a7c001"])
    state: State = Field(description="succeeded, failed and cancelled are final", examples=["succeeded"])
    stage: Stage = Field(
        description="What is being done: queued (it waits), validating, embedding (every image through the net), "
        "fine_tuning, translating and reprojecting (what is stored), evaluating (the held-out images), publishing; "
        "ended when it succeeded. It stays where it was when an update fails or is cancelled",
        examples=["ended"],
    )
    progress: float = Field(description="Of the whole update, 0 to 1", examples=[1.0])
    eta_seconds: float | None = Field(
        description="Rough time to go; null where it is not known, or over", examples=[None, 12.5]
    )
    attempt: int = Field(description="How often work on it has begun: above 1 after a crash or a restart", examples=[1])
    options: Options = Field(description="What was asked for; null: as the preset says")
    classes: list[str] = Field(description="Names in the upload", examples=[["barn-swallow"]])
    images: int = Field(description="Usable images in the upload", examples=[30])
    rejected: list[Rejected] = Field(description="Images that were left out (on_bad_image=skip)")
    created_at: str = Field(description="When it was accepted; ISO 8601, UTC", examples=["2026-11-18T03:00:00.000000Z"])
    started_at: str | None = Field(
        description="When work on it began; null while it waits", examples=["2026-11-18T03:00:01.000000Z"]
    )
    ended_at: str | None = Field(description="When it ended; null until then", examples=["2026-11-18T03:00:09.000000Z"])
    parent: int | None = Field(description="The version it was learnt on top of", examples=[2])
    version: int | None = Field(description="The version that it made", examples=[3])
    instant_version: int | None = Field(
        description="The version that answers until the trained one is ready (instant=true); taken back if the update "
        "fails or is cancelled, unless something was built on it",
        examples=[None],
    )
    metrics: dict[str, Any] = Field(
        description="`accuracy` in percent on the held-out part of the upload, among all classes; `classes`: the same "
        "for each; `seconds`; `translation`: what the translator says of itself",
        examples=[{"accuracy": 91.7, "held_out_images": 12, "seconds": 8.2}],
    )
    error: Reason | None = Field(
        description="Why it failed, and whether its instant part still answers; of a cancelled update `instant_kept`, "
        "if that could not be taken back because other versions were built on it. null where nothing is wrong",
        examples=[None],
    )
    cancel_requested: bool = Field(description="Whether somebody asked to stop it", examples=[False])
    purged_at: str | None = Field(
        description="When its images were deleted; none outlives its update", examples=["2026-11-18T03:00:09.000000Z"]
    )
    receipt: dict[str, Any] = Field(
        description="What was deleted: number of images, also of those that were left out, bytes, and the sha256 of "
        "each (not in lists; what was too large to be read has none)",
        examples=[{"images": 30}],
    )


class UpdatePage(_Schema):
    """A page of all updates."""

    data: list[UpdateEntry] = Field(description="Newest first")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one", examples=["100"])


class PlannedClass(_Schema):
    """A class of the upload."""

    name: str = Field(description="As it was sent", examples=["barn-swallow"])
    images: int = Field(description="Its usable images", examples=[30])
    known: bool = Field(description="Whether the active version knows it already", examples=[False])


class DryRun(_Schema):
    """What the update would do. Nothing was kept."""

    dry_run: Literal[True] = Field(default=True, description="Tells it from an update", examples=[True])
    classes: list[PlannedClass] = Field(description="In the order they were sent")
    images: int = Field(description="Usable images in the upload", examples=[30])
    rejected: list[Rejected] = Field(description="Images that would be left out (on_bad_image=skip)")
    config: dict[str, Any] = Field(
        description="Every setting that would be used",
        examples=[{"regularizer": "frozen", "translator": "auto", "classifier": "whitened", "seed": 1993}],
    )


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
