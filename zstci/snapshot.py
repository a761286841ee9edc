"""Snapshot: all that a version is. On disk a folder of safetensors, ids and one JSON manifest; never pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from zstci.classifiers import Scatter, nearest
from zstci.config import Config
from zstci.data import Inputs
from zstci.devices import on, resolve
from zstci.errors import CorruptSnapshot, InvalidConfig, SnapshotError
from zstci.manifest import CLASSES, FORMAT, MANIFEST, SERVING, TRAINING, digest, ids_as_lines, read, read_ids
from zstci.memory import Memory
from zstci.nets import EmbeddingNet, build_net
from zstci.prototypes import Prototypes
from zstci.tensors import flat, nested, under, write
from zstci.trainer import embed_all
from zstci.translators import Residual

__all__ = ["Snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """Frozen: learning makes a new one. `importance` and the scatter matrix are needed to learn on, not to serve."""

    net: EmbeddingNet
    memory: Memory
    config: Config
    task: int
    importance: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def prototypes(self) -> Prototypes:
        return self.memory.prototypes

    @property
    def whole(self) -> bool:
        """False where it was loaded for serving only. Every class brings two images, so a whole one knows a spread."""
        return self.memory.scatter.freedom > 0 or not len(self.prototypes)

    def tensors(self) -> dict[str, Tensor]:
        """Every number that the snapshot holds, by name."""
        return self._serving() | self._training()

    def embed(self, inputs: Inputs) -> Tensor:
        """Embeddings in the common space, [N, D]."""
        device = resolve(self.config.device)
        return self.memory.common(embed_all(on(self.net, device), inputs, self.config.net.input, device))

    def classify(self, inputs: Inputs, k: int = 1) -> tuple[Tensor, list[list[str]]]:
        """The k nearest classes of every input: distances [N, k] and class ids, nearest first."""
        queries = self.embed(inputs)
        if self.memory.metric is not None:
            queries = queries @ self.memory.metric
        distances, positions = nearest(queries, self.memory.projected, None, k)
        return distances, [[self.prototypes.ids[i] for i in row] for row in positions.tolist()]

    def without(self, ids: set[str]) -> Snapshot:
        """The same snapshot that never heard of these classes; the shared spread of all classes stays as it is."""
        return replace(self, memory=replace(self.memory, prototypes=self.prototypes.without(ids)))

    def save(self, folder: Path | str) -> None:
        """Write the folder as a whole or not at all; an existing one is refused, because a snapshot never changes."""
        target = Path(folder)
        if not self.whole:
            raise SnapshotError(
                "this snapshot came without its training state, so a copy could not be learnt on; load it with "
                "training=True to save it"
            )
        if target.exists():
            raise InvalidConfig(f"{target} exists already; a snapshot is never overwritten, choose another folder")
        partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            write(partial / SERVING, self._serving())
            write(partial / TRAINING, self._training())
            (partial / CLASSES).write_text(ids_as_lines(self.prototypes.ids), encoding="utf-8")
            manifest = self._manifest()
            manifest["files"] = {name: _file_facts(partial / name) for name in (SERVING, TRAINING, CLASSES)}
            manifest["sha256"] = digest(manifest)
            (partial / MANIFEST).write_text(json.dumps(manifest))  # with an indent it would be ten times slower
            _flush(partial)
            partial.rename(target)
            _sync(target.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    @classmethod
    def load(cls, folder: Path | str, training: bool = True, checked: bool = False) -> Snapshot:
        """Every byte is checked before it is used, unless it was `checked` just before. `training=False` leaves out
        what serving does not need."""
        root = Path(folder)
        manifest = read(root)
        serving = _read_tensors(root, SERVING, manifest, checked)
        config = _at_home(Config.from_dict(manifest["config"]))
        net = _restore_net(config, serving)
        dim = net.dim
        prototypes = Prototypes(
            read_ids(root, manifest),
            serving["prototypes.means"],
            serving["prototypes.counts"],
            serving["prototypes.hops"],
        )
        if len(prototypes.ids) != len(prototypes.means):
            raise CorruptSnapshot(f"{root}: {len(prototypes.ids)} classes but {len(prototypes.means)} prototypes")
        state = _read_tensors(root, TRAINING, manifest, checked) if training else {}
        scatter = Scatter(state["scatter"], manifest["freedom"]) if training else Scatter.empty(dim)
        query = _restore_query(config, dim, serving)
        memory = Memory(prototypes, scatter, query, serving.get("metric"), manifest["translation"])
        return cls(net, memory, config, manifest["task"], nested(state, "importance"))

    def _serving(self) -> dict[str, Tensor]:
        tensors = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        prototypes = self.memory.prototypes
        tensors |= {f"prototypes.{name}": getattr(prototypes, name) for name in ("means", "counts", "hops")}
        if self.memory.query is not None:
            tensors |= {f"query.{name}": value for name, value in self.memory.query.state_dict().items()}
        if self.memory.metric is not None:
            tensors["metric"] = self.memory.metric
        return tensors

    def _training(self) -> dict[str, Tensor]:
        return flat(self.importance, "importance") | {"scatter": self.memory.scatter.matrix}

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "task": self.task,
            "freedom": self.memory.scatter.freedom,
            "translation": self.memory.translation,
            "config": self.config.to_dict(),
        }


def _file_facts(path: Path) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}


def _flush(folder: Path) -> None:
    for path in [*folder.iterdir(), folder]:
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_tensors(root: Path, name: str, manifest: dict[str, Any], checked: bool) -> dict[str, Tensor]:
    facts = manifest["files"][name]
    try:
        content = (root / name).read_bytes()
    except FileNotFoundError as error:
        raise CorruptSnapshot(f"{root / name} is missing; restore it from a copy") from error
    if len(content) != facts["bytes"]:
        raise CorruptSnapshot(
            f"{root / name} has {len(content)} bytes instead of {facts['bytes']}; restore it from a copy"
        )
    if not checked and hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise CorruptSnapshot(f"{root / name} was altered (its sha256 does not match); restore it from a copy")
    try:
        return load_tensors(content)
    except SafetensorError as error:
        raise CorruptSnapshot(f"{root / name} is no safetensors file ({error})") from error


def _at_home(config: Config) -> Config:
    """A version that was learnt on a GPU serves on a machine without one."""
    try:
        resolve(config.device)
    except InvalidConfig:
        return config.override(device="auto")
    return config


def _restore_net(config: Config, tensors: dict[str, Tensor]) -> EmbeddingNet:
    blank = Config.from_dict(config.to_dict() | {"net": config.to_dict()["net"] | {"weights": "none"}})
    net = build_net(blank.net, config.seed)
    try:
        net.load_state_dict(under(tensors, "net"))
    except RuntimeError as error:
        raise CorruptSnapshot(f"the stored weights do not fit the backbone {config.net.backbone!r}: {error}") from error
    return net


def _restore_query(config: Config, dim: int, tensors: dict[str, Tensor]) -> Residual | None:
    stored = under(tensors, "query")
    if not stored:
        return None
    query = Residual(dim, len(stored["g.0.weight"]))
    query.load_state_dict(stored)
    return query.eval().requires_grad_(False)
