"""What the API answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.domain import Version, VersionKind
from service.usecases.class_names import LONGEST

__all__ = [
    "Check",
    "ClassEntry",
    "ClassName",
    "ClassPage",
    "Classification",
    "Classifications",
    "Embeddings",
    "Health",
    "Hit",
    "Predicted",
    "Ready",
    "Search",
    "Searches",
    "VersionEntry",
    "VersionPage",
    "version_entry",
]


_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class _Schema(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Hit(_Schema):
    """A class, and how far the image is from it."""

    class_id: str = Field(description="Stable id of the class", examples=["c0123456789abcde"])
    name: str = Field(description="Its name, which can be changed", examples=["barn-swallow"])
    distance: float = Field(description="Euclidean distance to the class mean, not squared", examples=[0.412])


class Predicted(Hit):
    """A class that the image may be of."""

    score: float = Field(
        description="0 to 1, how much nearer this class is than the others. A ranking, not a calibrated probability.",
        examples=[0.93],
    )


class Classification(_Schema):
    """One image."""

    predictions: list[Predicted] = Field(description="Nearest class first")
    margin: float | None = Field(
        description="How much farther the second class is than the first; null where there is only one class",
        examples=[0.118],
    )
    version: int = Field(description="The version that answered", examples=[3])


class Classifications(_Schema):
    """What each image shows."""

    data: list[Classification] = Field(description="One entry for each image, in the order they were sent")


class Search(_Schema):
    """One image."""

    hits: list[Hit] = Field(description="Nearest first")
    version: int = Field(description="The version that answered", examples=[3])


class Searches(_Schema):
    """What is near each image."""

    data: list[Search] = Field(description="One entry for each image, in the order they were sent")


class Embeddings(_Schema):
    """Each image as a vector."""

    data: list[list[float]] = Field(
        description="One vector for each image, in the space that class means live in; compare by Euclidean distance",
        examples=[[[0.6, -0.64, 0.48]]],
    )
    dim: int = Field(description="Numbers in a vector; 1280 with the default net", examples=[3])
    version: int = Field(description="Vectors of two versions must not be compared", examples=[3])


class ClassEntry(_Schema):
    """A class that is known."""

    id: str = Field(description="Stays the same whatever it is called", examples=["c0123456789abcde"])
    name: str = Field(description="Can be changed", examples=["barn-swallow"])
    images: int = Field(description="How many images it was learnt from; none is kept", examples=[30])
    hops: int = Field(description="How many translations into a new space its mean has been through", examples=[1])


class ClassName(_Schema):
    """What a class shall be called."""

    name: str = Field(
        description="The new name, without slashes and invisible characters",
        min_length=1,
        max_length=1000,  # beyond it nothing looks closer
        examples=["Hirundo rustica"],
        json_schema_extra={"maxLength": LONGEST},
    )


class ClassPage(_Schema):
    """A page of all classes."""

    data: list[ClassEntry] = Field(description="In the order they were learnt")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one", examples=["100"])


class VersionEntry(_Schema):
    """All that was known at a time: net, class means and index. It never changes."""

    number: int = Field(description="Counts up", examples=[3])
    active: bool = Field(description="Whether this version answers queries", examples=[True])
    parent: int | None = Field(description="The version it was learnt on top of; null for the first", examples=[2])
    kind: VersionKind = Field(
        description="Made by an update, by its instant part, or by the deletion of a class", examples=["update"]
    )
    created_at: str = Field(description="ISO 8601, UTC", examples=["2026-11-18T03:00:00.000000Z"])
    seconds: float = Field(description="How long it took to make", examples=[12.5])
    task: int = Field(description="How many updates it is made of", examples=[3])
    classes: int = Field(description="How many classes it knows", examples=[30])
    added: list[str] = Field(description="Classes that its parent does not have", examples=[["barn-swallow"]])
    images: int = Field(description="How many images this update brought; none is kept", examples=[300])
    backbone: str = Field(description="The kind of net", examples=["efficientnet_lite0"])
    regularizer: str = Field(description="What held the net back while it learnt", examples=["frozen"])
    translator: str = Field(description="What made old class means follow the net", examples=["auto"])
    classifier: str = Field(description="How the nearest class is found", examples=["whitened"])
    engine: str = Field(description="What computes its embeddings", examples=["onnx"])
    translation: dict[str, float | str] = Field(
        description="What the translator reports, if the net moved", examples=[{"name": "linear"}]
    )
    metrics: dict[str, Any] = Field(
        description="On the held-out part of its upload, as in the update", examples=[{"accuracy": 91.7}]
    )
    update_id: str | None = Field(
        description="The update that made it; null after the deletion of a class",
        examples=["5f0c9d1e6f7f4a53b1f4a4f8f6a7c001"],
    )
    sha256: str = Field(description="Of its manifest, which holds those of its files", examples=[_SHA256])
    bytes: int = Field(description="Size of its files", examples=[20971520])


class VersionPage(_Schema):
    """A page of all versions."""

    data: list[VersionEntry] = Field(description="Newest first")
    active: int | None = Field(description="The version to send as If-Match; null where none is", examples=[3])
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one", examples=["100"])


class Health(_Schema):
    """The process answers."""

    status: str = Field(description="Always ok", examples=["ok"])


class Check(_Schema):
    """One of the things that have to be right."""

    ok: bool = Field(description="Whether it is", examples=[True])
    detail: str = Field(description="How it is, or what is wrong", examples=["reachable"])


class Ready(_Schema):
    """Whether everything is as it should be."""

    status: str = Field(description="`ready` or `not ready`", examples=["ready"])
    version: int | None = Field(description="The version that answers", examples=[3])
    loaded: list[int] = Field(description="Versions that can be asked for by number", examples=[[3, 2]])
    classes: int = Field(description="How many classes that version knows", examples=[30])
    checks: dict[str, Check] = Field(
        description="What readiness is made of: `database` and `model`",
        examples=[
            {"database": {"ok": True, "detail": "reachable"}, "model": {"ok": True, "detail": "version 3 answers"}}
        ],
    )


def version_entry(version: Version, active: int | None) -> VersionEntry:
    return VersionEntry(
        number=version.number,
        active=version.number == active,
        parent=version.parent,
        kind=version.kind,
        created_at=version.created_at,
        update_id=version.update_id,
        sha256=version.sha256,
        bytes=version.bytes,
        **asdict(version.facts),
    )
