"""From an upload to the files of a new version: learn, ask about the held-out part, write the bundle."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service.config import Settings
from service.domain import Facts, Update, Upload, VersionKind
from service.errors import ClassExists, UnknownClass
from service.serving import bundle
from service.serving.decode import decode_all
from service.serving.engine import Pixels
from service.serving.parent import Parent
from service.storage.artifacts import Artifacts
from service.storage.updates import UpdateStore
from service.storage.versions import NewVersion, VersionStore
from service.usecases import hold_out, read_upload
from service.usecases.configure import choose_config
from service.usecases.instant import builds_on
from service.usecases.learn_together import Job, learn_together
from service.usecases.progress import Reporter
from service.usecases.purge import upload_key, work_folder
from zstci import Config, ImageFiles, Snapshot, TaskData, learn
from zstci.errors import SnapshotError
from zstci.hearing import aside
from zstci.manifest import read_serving_facts

__all__ = ["Base", "Made", "Maker", "class_id"]

_SAMPLE = 256  # images


def class_id(update_id: str, name: str) -> str:
    """Of a new class. Drawn from the update and the name, so that every attempt finds the same, and no two classes of
    one name, an old and a new one, share it."""
    return "c" + hashlib.sha256(f"{update_id}/{name}".encode()).hexdigest()[:15]


@dataclass(frozen=True)
class Base:
    """What an update builds on: the version, its snapshot, and what must still be active when it is published."""

    version: int | None
    snapshot: Snapshot | None
    expected: int | None
    deleted: frozenset[str] = frozenset()  # classes, while the instant part of the update answered
    parent: Parent | None = None  # whose files the next ones are made from


@dataclass(frozen=True)
class Made:
    """A bundle that is stored and not yet published."""

    version: NewVersion
    expected: int | None
    names: dict[str, str]  # of the new classes, by id


class Maker:
    def __init__(self, updates: UpdateStore, versions: VersionStore, artifacts: Artifacts, settings: Settings) -> None:
        self._updates, self._versions, self._artifacts, self._settings = updates, versions, artifacts, settings

    def make(self, update: Update, reporter: Reporter, instant: bool = False) -> Made:
        """`instant`: the same classes under the net as it is, which takes seconds."""
        started = time.monotonic()
        reporter.stage("validating", 0.0)
        folder = self._artifacts.local(upload_key(update.id))
        upload = read_upload.load(folder, reporter.look)
        reporter.stop_if_asked()
        base = self._base(update)
        config = self._config(update, base, instant)
        reporter.expect(training=config.regularizer != "frozen")
        ids, upload = self._without_deleted(self._kept_ids(update, upload, base), upload, base)
        reporter.stage("validating", 1.0)

        learnt, held = hold_out.split(upload, update.options.holdout, config.seed)
        data = TaskData(ImageFiles([folder / i.file for i in learnt]), tuple(ids[i.class_name] for i in learnt))
        snapshot = self._learn(update, base, data, config, reporter)
        reporter.stage("evaluating", 0.0)
        metrics = hold_out.measure(
            snapshot, folder, held, ids, lambda done: reporter.stage("evaluating", done), reporter.look
        )
        metrics["seconds"] = round(time.monotonic() - started, 3)
        if not instant:
            self._updates.metric(update.id, update.attempt, metrics | {"translation": snapshot.memory.translation})
        reporter.stage("publishing", 0.0)
        eight_bits = self._settings.precision == "int8"
        sample = aside(lambda: self._sample(folder, upload, config), reporter.look) if eight_bits else None
        reporter.stop_if_asked()
        return self._store(update, base, snapshot, ids, len(learnt), metrics, instant, sample, reporter.stop_if_asked)

    def _sample(self, folder: Path, upload: Upload, config: Config) -> Pixels:
        """Images of the update, of all its classes, that 8 bits are tried on."""
        chosen = upload.images[:: max(1, len(upload.images) // _SAMPLE)][:_SAMPLE]
        contents = [(folder / image.file).read_bytes() for image in chosen]
        return decode_all(contents, config.net.input, self._settings.max_pixels)

    def _base(self, update: Update) -> Base:
        """The active version. Where it is the update's instant part, or built on that, what was below is learnt from:
        with the instant part every image would count twice."""
        active, instant = self._versions.active().version, update.instant_version
        if active is None:
            return Base(None, None, None)
        if instant is None or not builds_on(self._versions, active, instant):
            whole = self._load(active)
            return Base(active, whole.snapshot, active, parent=whole)
        below = self._versions.get(instant).parent
        parent = self._load(below) if below is not None else None
        snapshot = parent.snapshot if parent is not None else None
        if active == instant:
            return Base(below, snapshot, active, parent=parent)
        # Updates come one at a time, so deletions are all that can have come on top: they hold.
        deleted = self._ids(instant) - self._ids(active)
        if snapshot is not None and (gone := deleted & set(snapshot.prototypes.ids)):
            snapshot = snapshot.without(set(gone)) if len(gone) < len(snapshot.prototypes) else None
        return Base(active, snapshot, active, deleted, parent)

    def _without_deleted(self, ids: dict[str, str], upload: Upload, base: Base) -> tuple[dict[str, str], Upload]:
        """Also where more images came for a class that was known: it would be a new one of the same name."""
        names = self._versions.names() if base.deleted else {}
        gone = base.deleted | {names.get(i, i) for i in base.deleted}
        ids = {name: i for name, i in ids.items() if name not in gone and i not in gone}
        if not ids:
            raise UnknownClass("all of its classes were deleted meanwhile; send them again if you want them")
        return ids, replace(upload, images=tuple(image for image in upload.images if image.class_name in ids))

    def _ids(self, number: int) -> frozenset[str]:
        return frozenset(read_serving_facts(self._artifacts.local(self._versions.get(number).bundle)).ids)

    def _load(self, number: int) -> Parent:
        folder = self._artifacts.local(self._versions.get(number).bundle)
        manifest = bundle.verify(folder)
        return Parent.of(folder, Snapshot.load(folder, checked=True), manifest)

    def _config(self, update: Update, base: Base, instant: bool) -> Config:
        parent = base.snapshot.config if base.snapshot is not None else None
        config = choose_config(parent, update.options, self._settings.default_preset)
        return replace(config, regularizer="frozen") if instant else config

    def _class_ids(self, update: Update, upload: Upload, base: Base) -> dict[str, str]:
        known = self._known(upload, base)
        again = [name for name in upload.classes if name in known]
        if again and update.options.on_existing_class == "reject":
            raise ClassExists(
                f"{', '.join(again[:5])} {'is' if len(again) == 1 else 'are'} known by now; send the images again "
                "with on_existing_class=merge to add to what is known, or under another name"
            )
        return {name: known.get(name) or class_id(update.id, name) for name in upload.classes}

    def _known(self, upload: Upload, base: Base) -> dict[str, str]:
        """Of the upload's classes those that the base knows: ids by name."""
        ids = set(base.snapshot.prototypes.ids) if base.snapshot else set()
        named = self._versions.ids_of(upload.classes)
        known = {name: i for name, found in named.items() for i in found if i in ids}
        # A class without a row is called by its id.
        nameless = ids.intersection(upload.classes) - known.keys()
        return known | {i: i for i in nameless if i not in self._versions.names([i])}

    def _kept_ids(self, update: Update, upload: Upload, base: Base) -> dict[str, str]:
        """Decided once for a base: a class that is renamed between two attempts must not become another one."""
        path = work_folder(self._settings, update.id) / f"ids-{base.version or 0}.json"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(self._class_ids(update, upload, base)), encoding="utf-8")
            partial.replace(path)
        return {str(name): str(i) for name, i in json.loads(path.read_text(encoding="utf-8")).items()}

    def _learn(self, update: Update, base: Base, data: TaskData, config: Config, reporter: Reporter) -> Snapshot:
        """Kept until the version is published: a worker that dies after learning does not learn again."""
        kept = self._kept(update, base, config)
        if kept.is_dir():
            try:
                return Snapshot.load(kept)
            except SnapshotError:
                shutil.rmtree(kept)  # it costs the time to learn it again, nothing else
        checkpoints = work_folder(self._settings, update.id) / "checkpoints"
        if self._settings.train_processes > 1:
            job = Job(base.snapshot, data, config, checkpoints, kept)
            folder = work_folder(self._settings, update.id) / "together"
            return learn_together(job, self._settings.train_processes, folder, reporter, reporter.should_stop)
        snapshot = learn(base.snapshot, data, config, reporter, reporter.should_stop, checkpoints)
        snapshot.save(kept)
        return snapshot

    def _kept(self, update: Update, base: Base, config: Config) -> Path:
        return work_folder(self._settings, update.id) / f"snapshot-{base.version or 0}-{config.regularizer}"

    def _store(
        self,
        update: Update,
        base: Base,
        snapshot: Snapshot,
        ids: dict[str, str],
        images: int,
        metrics: dict[str, Any],
        instant: bool,
        sample: Pixels | None,
        between: Callable[[], None],
    ) -> Made:
        # A worker that was taken for dead and goes on must not write over what its successor has published.
        key = f"versions/{update.id}-{'instant' if instant else base.version or 0}-{update.attempt}"
        staged = work_folder(self._settings, update.id) / "bundle"
        shutil.rmtree(staged, ignore_errors=True)
        names = self._versions.names() | {i: name for name, i in ids.items()}
        written = bundle.write(
            snapshot,
            staged,
            names,
            parent=base.parent,
            saved=self._kept(update, base, snapshot.config),
            eight_bits_for=sample,
            between=between,
        )
        if written.agreement is not None:
            metrics["int8_agreement"] = round(100.0 * written.agreement, 2)
        between()
        self._artifacts.put(staged, key)
        known = set(base.snapshot.prototypes.ids) if base.snapshot else set()
        facts = Facts(
            seconds=metrics["seconds"],
            task=snapshot.task,
            classes=len(snapshot.prototypes),
            added=tuple(name for name, i in ids.items() if i not in known),
            images=images,
            backbone=snapshot.config.net.backbone,
            regularizer=snapshot.config.regularizer,
            translator=snapshot.config.translator,
            classifier=snapshot.config.classifier,
            engine=written.engine,
            translation=snapshot.memory.translation,
            metrics=metrics,
        )
        kind: VersionKind = "instant" if instant else "update"
        version = NewVersion(base.version, kind, key, written.sha256, written.bytes, facts, update.id, update.attempt)
        return Made(version, base.expected, {i: name for name, i in ids.items() if i not in known})
