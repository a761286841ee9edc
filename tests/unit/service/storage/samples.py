"""An update and a version for the stores to keep. Everything differs from the defaults, so that nothing gets lost."""

from __future__ import annotations

from threading import Barrier
from typing import Any

from service.domain import Facts, Key, RejectedImage, Update, UpdateOptions
from service.errors import VersionChanged
from service.storage.database import Database
from service.storage.versions import NewVersion, VersionStore

FACTS = Facts(
    seconds=1.5,
    task=2,
    classes=5,
    added=("Möwe", "kiwi"),
    images=40,
    backbone="resnet32",
    regularizer="lwf",
    translator="zstci",
    classifier="ncm",
    engine="onnx",
    translation={"loss": 0.25, "kind": "linear"},
    metrics={"accuracy": 0.9, "by_class": {"kiwi": [1, 2]}},
)
OPTIONS = UpdateOptions(
    preset="paper-cub",
    regularizer="lwf",
    overrides={"train.epochs": 3},
    on_bad_image="skip",
    on_existing_class="merge",
    activate="manual",
    instant=True,
    holdout=0.5,
)


def an_update(update_id: str = "u1", **values: Any) -> Update:
    given: dict[str, Any] = {
        "id": update_id,
        "state": "queued",
        "stage": "queued",
        "progress": 0.0,
        "eta_seconds": None,
        "attempt": 0,
        "options": OPTIONS,
        "classes": ("Möwe", "kiwi"),
        "images": 40,
        "rejected": (RejectedImage("kiwi/1.jpg", "empty_image", "0 bytes"),),
        "created_at": "2026-11-18T03:00:00.000000Z",
    }
    return Update(**given | values)


def a_version(bundle: str = "versions/a", parent: int | None = None, **values: Any) -> NewVersion:
    given: dict[str, Any] = {
        "kind": "update",
        "sha256": "0" * 64,
        "bytes": 5 * 2**30,
        "facts": FACTS,
        "update_id": "u1",
    }
    return NewVersion(parent=parent, bundle=bundle, **given | values)


def a_key(key_id: str = "k1", **values: Any) -> Key:
    given: dict[str, Any] = {"name": "Möwe", "scope": "update", "created_at": "2026-11-18T03:00:00.000000Z"}
    return Key(key_id, **given | values)


def publish_one(url: str, bundle: str, expected: int | None, together: Barrier | None = None) -> int | None:
    """As a process of its own would. The number, or None if somebody else was faster."""
    database = Database(url)
    try:
        if together is not None:
            together.wait()
        new = a_version(bundle, parent=expected)
        return VersionStore(database).publish(new, expected=expected, activate=True, names={bundle: bundle}).number
    except VersionChanged:
        return None
    finally:
        database.close()
