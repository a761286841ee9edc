"""Rename a class, or end one. A name is only what is shown, so it changes everywhere at once; without a class the model
answers otherwise, so that makes a new version."""

from __future__ import annotations

import shutil
import time
import uuid
from typing import TYPE_CHECKING

from service.config import Settings
from service.domain import Facts, Version
from service.errors import LastClass, NameTaken, UnknownClass, VersionChanged
from service.serving import bundle
from service.serving.parent import Parent
from service.storage.artifacts import Artifacts
from service.storage.updates import UpdateStore
from service.storage.versions import NewVersion, VersionStore
from service.usecases.class_names import clean
from service.usecases.known import known_classes, missing_class

if TYPE_CHECKING:
    from zstci import Snapshot

__all__ = ["ClassChanger"]

_TRIES = 3


class ClassChanger:
    def __init__(self, updates: UpdateStore, versions: VersionStore, artifacts: Artifacts, settings: Settings) -> None:
        self._updates, self._versions, self._artifacts, self._settings = updates, versions, artifacts, settings

    def rename(self, class_id: str, name: str) -> None:
        """The id stays, and so does every answer but for the name in it."""
        name = clean(name)
        if name in self._updates.pending_classes() and self._versions.names().get(class_id) != name:
            raise NameTaken(f"an update that has not ended brings a class {name!r}; wait for it, or cancel it")
        try:
            self._versions.rename(class_id, name)
        except UnknownClass as error:
            raise missing_class(class_id, None, None, self._versions.called(class_id)) from error

    def delete(self, class_id: str, expected: int | None = None) -> Version:
        """A new version without the class, active at once. An update that is published at the same moment wins, and the
        class is taken out of that; unless the caller said which version it means."""
        for _ in range(_TRIES):
            try:
                return self._delete(class_id, expected)
            except VersionChanged:
                if expected is not None:
                    raise
        return self._delete(class_id, expected)

    def _delete(self, class_id: str, expected: int | None) -> Version:
        started = time.monotonic()
        active = self._versions.active().version
        if expected is not None and expected != (active or 0):
            raise VersionChanged(f"version {active or 0} is active by now, not {expected}")
        known = known_classes(self._versions, self._artifacts)
        if active is None or class_id not in known:
            name = self._versions.names([class_id]).get(class_id) if active is not None else None
            raise missing_class(class_id, active, name, self._versions.called(class_id))
        if len(known) == 1:
            raise LastClass(
                f"{known[class_id]!r} ({class_id}) is the only class, and a version needs one: first add another with "
                "POST /v1/updates, or activate a version that has others; to call it something else, rename it"
            )
        from zstci import Snapshot  # and torch with it, which a server that only answers never loads

        parent = self._versions.get(active)
        folder = self._artifacts.local(parent.bundle)
        manifest = bundle.verify(folder)
        whole = Parent.of(folder, Snapshot.load(folder, checked=True), manifest)
        version = self._store(parent, whole, whole.snapshot.without({class_id}), started)
        try:
            return self._versions.publish(version, expected=active, activate=True, names={})
        except VersionChanged:
            self._artifacts.delete(version.bundle)
            raise

    def _store(self, parent: Version, whole: Parent, snapshot: Snapshot, started: float) -> NewVersion:
        name = f"delete-{uuid.uuid4().hex}"
        staged = self._settings.home / "work" / name
        try:
            written = bundle.write(snapshot, staged, self._versions.names(), engine_of=whole.folder, parent=whole)
            self._artifacts.put(staged, f"versions/{name}")
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        facts = Facts(
            seconds=round(time.monotonic() - started, 3),
            task=snapshot.task,
            classes=len(snapshot.prototypes),
            added=(),
            images=0,
            backbone=parent.facts.backbone,
            regularizer=parent.facts.regularizer,
            translator=parent.facts.translator,
            classifier=parent.facts.classifier,
            engine=written.engine,
        )
        return NewVersion(parent.number, "delete", f"versions/{name}", written.sha256, written.bytes, facts, None)
