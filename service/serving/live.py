"""The versions that answer, and the slot they are read from."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.errors import CorruptBundle, NoClassesYet, VersionNotLoaded
from service.serving.bundle import ENGINE, INDEX, Manifest, verify
from service.serving.engine import Engine, OnnxEngine, Pixels, Vectors
from service.serving.index import PrototypeIndex
from zstci.config import InputConfig
from zstci.manifest import read_serving_facts

__all__ = ["LiveModel", "ModelSlot"]

_KEPT = 2  # versions: the current one, and the one before it for who asks for it by number


@dataclass(frozen=True)
class LiveModel:
    """Net, translator, prototypes and index of one version: they are only ever replaced together."""

    version: int
    ids: tuple[str, ...]  # of the classes, by position in the index
    counts: NDArray[np.int64]  # [C]
    hops: NDArray[np.int64]  # [C]
    input: InputConfig
    engine: Engine
    index: PrototypeIndex
    engine_sha256: str | None = None

    @classmethod
    def load(cls, folder: Path, version: int, sha256: str | None = None) -> LiveModel:
        """Checked byte by byte, and warm."""
        return cls.read(folder, version, verify(folder, sha256, keep_index=True))

    @classmethod
    def read(cls, folder: Path, version: int, manifest: Manifest, others: Iterable[LiveModel] = ()) -> LiveModel:
        """What was checked just before. An engine that one of the `others` has is shared: without training the net
        stays as it is, and to open it anew keeps every query waiting."""
        facts = read_serving_facts(folder)
        index = PrototypeIndex.read(folder / INDEX, facts.metric, manifest.index, manifest.content)
        if len(index) != len(facts.ids):
            raise CorruptBundle(f"{folder} has {len(facts.ids)} classes but {len(index)} of them in {INDEX}")
        digest = manifest.engine_sha256
        shared = (other.engine for other in others if digest is not None and other.engine_sha256 == digest)
        engine = next(shared, None) or _engine(folder, manifest)
        live = cls(version, facts.ids, facts.counts, facts.hops, facts.input, engine, index, manifest.engine_sha256)
        live.warm_up()
        return live

    def embed(self, pixels: Pixels) -> Vectors:
        return self.engine.embed(pixels)

    def warm_up(self) -> None:
        """The first pass through a net costs several times the later ones; no query should pay for it."""
        channels, size = len(self.input.mean), self.input.size
        self.index.search(self.engine.embed_alone(np.zeros((1, channels, size, size), dtype=np.uint8)), 1)


def _engine(folder: Path, manifest: Manifest) -> Engine:
    """With ONNX the torch net is never built: that would double memory and the seconds until a new version answers."""
    if manifest.engine != "torch":
        return OnnxEngine(folder / ENGINE)
    from service.serving.torch_engine import load  # seconds and 200 MB that most servers never need

    return load(folder)


class ModelSlot:
    """Read once per request, which then stays with what it got. Readers need no lock, because one reference is
    assigned; a model that is replaced lives until its last request lets go of it."""

    def __init__(self) -> None:
        self._models: tuple[LiveModel, ...] = ()  # the current one first
        self._swapping = threading.Lock()
        self.names: dict[str, str] = {}  # class id -> shown name; replaced whole, never changed in place

    @property
    def current(self) -> LiveModel:
        models = self._models
        if not models:
            raise NoClassesYet
        return models[0]

    @property
    def version(self) -> int | None:
        models = self._models
        return models[0].version if models else None

    @property
    def loaded(self) -> tuple[int, ...]:
        """The versions that can be asked, the current one first."""
        return tuple(live.version for live in self._models)

    def get(self, version: int) -> LiveModel:
        models = self._models
        if not models:
            raise NoClassesYet
        for live in models:
            if live.version == version:
                return live
        loaded = " and ".join(str(live.version) for live in models)
        raise VersionNotLoaded(
            f"version {version} is not loaded; loaded: {loaded}. Ask one of those, ask without a version, or activate "
            f"version {version} first"
        )

    def swap(self, live: LiveModel) -> None:
        """Make a warm model the current one. The one that was stays loaded, older ones do not."""
        with self._swapping:
            others = tuple(other for other in self._models if other.version != live.version)
            self._models = (live, *others)[:_KEPT]

    @property
    def models(self) -> tuple[LiveModel, ...]:
        return self._models

    @property
    def has_room(self) -> bool:
        """For one more, without letting go of another."""
        return len(self._models) < _KEPT

    def make_room(self) -> None:
        """Before another one is loaded: with it there are two in memory, never three, however large they are."""
        with self._swapping:
            self._models = self._models[: _KEPT - 1]

    def name_of(self, class_id: str) -> str:
        return self.names.get(class_id, class_id)
