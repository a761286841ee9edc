"""Take an update in: everything that can be refused is refused here, before it is acknowledged."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from service.config import Settings
from service.domain import Update, UpdateOptions, Upload
from service.errors import Busy, ClassExists, IdempotencyMismatch, InvalidOption, ServiceError
from service.storage.artifacts import Artifacts
from service.storage.jobs import Jobs
from service.storage.times import now
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases import read_upload
from service.usecases.configure import choose_config
from service.usecases.deadline import Deadline
from service.usecases.known import known_classes, parent_config
from service.usecases.purge import upload_key
from service.usecases.read_upload import ReceivedFile
from zstci import Config
from zstci.errors import TooFewImages

__all__ = ["Preview", "Submitted", "Submitter"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Preview:
    """What an update would do."""

    upload: Upload
    known: frozenset[str]  # names of classes that exist already
    config: Config
    earlier: Update | None = None  # nothing new: this update was made when the same request came before


@dataclass(frozen=True)
class Submitted:
    update: Update
    new: bool  # False: this is an earlier request's update, found by its Idempotency-Key


class Submitter:
    def __init__(
        self, updates: UpdateStore, versions: VersionStore, artifacts: Artifacts, jobs: Jobs, settings: Settings
    ) -> None:
        self._updates, self._versions, self._artifacts = updates, versions, artifacts
        self._jobs, self._settings = jobs, settings

    def check_room(self) -> None:
        """Before a long body is read."""
        counts = self._updates.counts()
        waiting = counts.get("queued", 0)
        if waiting >= self._settings.max_waiting:
            busy = Busy(f"{waiting} updates wait already; send this one again later")
            busy.retry_after = 60
            raise busy

    def preview(
        self,
        archives: Sequence[ReceivedFile],
        files: Sequence[ReceivedFile],
        labels: Sequence[str],
        options: UpdateOptions,
        target: Path,
        key: str | None = None,
        deadline: Deadline | None = None,
    ) -> Preview:
        """All checks; the usable images are in `target` afterwards, and nothing else has happened."""
        config = self._config(options)  # first: it costs nothing, and a wrong name should not wait for images
        upload = read_upload.stage(
            archives, files, labels, target, self._settings, options.on_bad_image, config.net.input, deadline
        )
        known = frozenset(known_classes(self._versions, self._artifacts).values()) & set(upload.classes)
        fingerprint = _fingerprint(upload, options)
        earlier = self._earlier(key, fingerprint)
        if earlier is None:  # or its own classes, which wait or are known by now, would be in its way
            try:
                self._check_classes(upload, known, options)
            except ClassExists:
                earlier = self._earlier(key, fingerprint)  # the same request, a moment before
                if earlier is None:
                    raise
        return Preview(upload, known, config, earlier)

    def submit(self, preview: Preview, options: UpdateOptions, target: Path, key: str | None) -> Submitted:
        """Stored and queued. The upload is stored before its row is written, the row before the job: whichever of them
        a crash leaves alone is found and tidied or taken up by the worker."""
        if preview.earlier is not None:
            return Submitted(preview.earlier, new=False)
        fingerprint = _fingerprint(preview.upload, options)
        options = replace(options, instant=options.instant and preview.config.regularizer != "frozen")
        update = _new_update(preview.upload, options)
        self._artifacts.put(target, upload_key(update.id))
        try:
            stored = self._updates.add(update, key, fingerprint)
        except BaseException:
            self._artifacts.delete(upload_key(update.id))
            raise
        if stored.id != update.id:  # the same key, at the same moment
            self._artifacts.delete(upload_key(update.id))
            return Submitted(stored, new=False)
        self._enqueue(stored.id)
        return Submitted(stored, new=True)

    def _enqueue(self, update_id: str) -> None:
        try:
            self._jobs.enqueue(update_id)
        except ServiceError as error:
            # The row is there, so the update is safe: the worker enqueues what has no job.
            logger.warning(
                "Not enqueued yet", extra={"action": "not_enqueued", "update": update_id, "reason": str(error)}
            )

    def _config(self, options: UpdateOptions) -> Config:
        if options.instant and options.activate == "manual":
            raise InvalidOption("instant=true makes the new classes answer at once; that needs activate=auto")
        if not 0 <= options.holdout <= 0.5:
            raise InvalidOption(f"holdout must be from 0 to 0.5, got {options.holdout}")
        return choose_config(parent_config(self._versions, self._artifacts), options, self._settings.default_preset)

    def _check_classes(self, upload: Upload, known: frozenset[str], options: UpdateOptions) -> None:
        if options.on_existing_class == "reject":
            waiting = self._updates.pending_classes() & set(upload.classes)
            taken = sorted(known | waiting)
            if taken:
                raise ClassExists(
                    f"{', '.join(taken[:5])}: known already, or in an update that waits; send on_existing_class=merge "
                    "to add these images to what is known, or use another name"
                )
        counts = Counter(image.class_name for image in upload.images)
        few = sorted(name for name, count in counts.items() if count < 2 and name not in known)
        if few:
            raise TooFewImages(f"a new class needs at least 2 usable images; too few for: {', '.join(few[:10])}")

    def _earlier(self, key: str | None, fingerprint: str) -> Update | None:
        found = self._updates.by_key(key) if key is not None else None
        if found is None:
            return None
        update, of = found
        if of != fingerprint:
            raise IdempotencyMismatch(
                f"this key belongs to update {update.id}, which had other content; use a new key for a new update"
            )
        return update


def _fingerprint(upload: Upload, options: UpdateOptions) -> str:
    """The same for the same images and options, however the form was put together."""
    images = sorted((image.class_name, image.name, image.sha256) for image in upload.images)
    content: list[Any] = [images, asdict(options)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _new_update(upload: Upload, options: UpdateOptions) -> Update:
    return Update(
        id=uuid.uuid4().hex,
        state="queued",
        stage="queued",
        progress=0.0,
        eta_seconds=None,
        attempt=0,
        options=options,
        classes=upload.classes,
        images=len(upload.images),
        rejected=upload.rejected,
        created_at=now(),
    )
