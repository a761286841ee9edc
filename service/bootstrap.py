"""Puts the parts together from the settings. Nothing here runs at import."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from service.config import Settings
from service.serving.live import LiveModel, ModelSlot
from service.serving.pool import make_pool
from service.storage.versions import VersionStore
from service.usecases.publish import Publisher

__all__ = ["Parts", "assemble", "load_active"]


@dataclass(frozen=True)
class Parts:
    """What one API process is made of."""

    settings: Settings
    store: VersionStore
    slot: ModelSlot
    publisher: Publisher
    pool: ThreadPoolExecutor


def assemble(settings: Settings) -> Parts:
    store, slot = VersionStore(settings.home), ModelSlot()
    return Parts(settings, store, slot, Publisher(store, slot), make_pool(settings.threads))


def load_active(settings: Settings) -> LiveModel:
    """The active version, in this process."""
    store = VersionStore(settings.home)
    number = store.require_active()
    return LiveModel.load(store.folder(number), number)
