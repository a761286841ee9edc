"""No image outlives its update."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from service.config import Settings
from service.domain import ENDED, RejectedImage, Update, UploadedImage
from service.errors import BadUpload, StorageFull
from service.storage.artifacts import Artifacts
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases import read_upload

__all__ = ["Purger", "upload_key", "work_folder"]


def upload_key(update_id: str) -> str:
    return f"uploads/{update_id}"


def work_folder(settings: Settings, update_id: str) -> Path:
    """Checkpoints and other unfinished things of one update, on the worker's own disk."""
    return settings.home / "work" / update_id


class Purger:
    def __init__(self, updates: UpdateStore, versions: VersionStore, artifacts: Artifacts, settings: Settings) -> None:
        self._updates, self._versions, self._artifacts, self._settings = updates, versions, artifacts, settings

    def purge(self, update_id: str, ending: bool = False) -> None:
        """Whoever finds an ended update that is not purged may call this, any number of times. `ending`: it is about to
        end, and needs its images no more."""
        update = self._updates.get(update_id)
        if update.purged_at is not None or not (ending or update.state in ENDED):
            return
        receipt = update.receipt or self._receipt(update)
        with suppress(StorageFull):  # then it is noted when there is room again
            self._updates.note_receipt(update_id, receipt)
        self._artifacts.delete(upload_key(update_id))
        shutil.rmtree(work_folder(self._settings, update_id), ignore_errors=True)
        for key in self._artifacts.keys("versions/"):
            if key.startswith(f"versions/{update_id}-") and self._versions.by_bundle(key) is None:
                self._artifacts.delete(key)  # learnt, but never published
        self._updates.purged(update_id, receipt)

    def _receipt(self, update: Update) -> dict[str, Any]:
        """What is deleted, so that its owner can check: the sha256 of every image, and no image."""
        try:
            # Only the list: to fetch images, in order to delete them, would make copies of them on this machine.
            upload = read_upload.parse(self._artifacts.read(upload_key(update.id), read_upload.LIST))
        except (BadUpload, OSError):
            return {"images": update.images}  # damaged, or deleted on a full disk where nothing could be noted
        sent: list[UploadedImage | RejectedImage] = [*upload.images, *upload.rejected]  # those left out were here too
        return {
            "images": len(sent),
            "bytes": sum(image.bytes for image in sent),
            "sha256": sorted(image.sha256 for image in sent if image.sha256 is not None),
        }
