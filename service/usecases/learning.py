"""Learn the classes of a folder on top of the active version, and make the result the active one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.domain import Facts, Version
from service.errors import VersionChanged
from service.storage.versions import VersionStore
from zstci import Config, Progress, Snapshot, TaskData, learn, preset

__all__ = ["choose_config", "learn_folder"]


def learn_folder(
    store: VersionStore,
    folder: Path,
    *,
    preset_name: str | None = None,
    overrides: dict[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Version:
    """A stopped or killed call goes on where it was when it is repeated."""
    data = TaskData.from_folder(folder)
    with store.learning() as checkpoints:
        number = store.active()
        parent = Snapshot.load(store.folder(number)) if number is not None else None
        config = choose_config(parent, preset_name, overrides or {})
        started = time.monotonic()
        snapshot = learn(parent, data, config, on_progress, should_stop, checkpoints)
        facts = _facts(number or 0, parent, snapshot, len(data.labels), time.monotonic() - started)
        version = store.add(snapshot, facts)
        try:
            store.activate(version.number, expected=number or 0)
        except VersionChanged as error:
            raise VersionChanged(
                f"version {version.number} is stored but not active, because {error}: "
                f"zstci versions activate {version.number} makes it active"
            ) from error
        return version


def choose_config(parent: Snapshot | None, preset_name: str | None, overrides: dict[str, Any]) -> Config:
    """Without a preset an update goes on as its parent was learnt. The net is always the parent's: its prototypes live
    in that net's space."""
    if parent is None:
        config = preset(preset_name or "default")
    elif preset_name is None:
        config = parent.config
    else:
        config = replace(preset(preset_name), net=parent.config.net)
    return config.override(**overrides)


def _facts(number: int, parent: Snapshot | None, snapshot: Snapshot, images: int, seconds: float) -> Facts:
    known = set(parent.prototypes.ids) if parent else set()
    config = snapshot.config
    return Facts(
        parent=number,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 3),
        task=snapshot.task,
        classes=len(snapshot.prototypes),
        added=tuple(name for name in snapshot.prototypes.ids if name not in known),
        images=images,
        backbone=config.net.backbone,
        regularizer=config.regularizer,
        translator=config.translator,
        classifier=config.classifier,
        translation=snapshot.memory.translation,
    )
