"""What a stored snapshot says of itself, and what serving needs of it beside the net. Without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from zstci.config import Config, InputConfig
from zstci.errors import CorruptSnapshot, UnsupportedSnapshot

__all__ = [
    "CLASSES",
    "FORMAT",
    "MANIFEST",
    "SERVING",
    "TRAINING",
    "ServingFacts",
    "digest",
    "ids_as_lines",
    "read",
    "read_facts",
    "read_ids",
    "read_serving_facts",
]

FORMAT = 2
_READ = (1, 2)  # in 1 the ids of the classes were part of the manifest
# Lines of JSON, each a list of ids. In one piece, to parse and to check the ids of 100,000 classes would keep every
# other thread waiting for a tenth of a second.
CLASSES = "classes.jsonl"
_IDS_OF_A_LINE = 1024
SERVING, TRAINING, MANIFEST = "serving.safetensors", "training.safetensors", "snapshot.json"


@dataclass(frozen=True)
class ServingFacts:
    """What answering needs beside something that embeds and something that searches."""

    ids: tuple[str, ...]
    counts: NDArray[np.int64]
    hops: NDArray[np.int64]
    metric: NDArray[np.float32] | None
    input: InputConfig


def read_serving_facts(folder: Path | str) -> ServingFacts:
    """Without building the net. Only the manifest is checked here: whoever calls has checked the other bytes."""
    root = Path(folder)
    manifest = read(root)
    with safe_open(root / SERVING, framework="np") as stored:
        counts, hops = (stored.get_tensor(f"prototypes.{name}") for name in ("counts", "hops"))
        metric = stored.get_tensor("metric") if "metric" in stored.keys() else None  # noqa: SIM118
    return ServingFacts(read_ids(root, manifest), counts, hops, metric, Config.from_dict(manifest["config"]).net.input)


def read_facts(folder: Path | str) -> tuple[Config, tuple[str, ...]]:
    """How a stored snapshot was learnt, and its classes: no tensor is read."""
    manifest = read(Path(folder))
    return Config.from_dict(manifest["config"]), read_ids(Path(folder), manifest)


def ids_as_lines(ids: Sequence[str]) -> str:
    parts = (ids[begin : begin + _IDS_OF_A_LINE] for begin in range(0, len(ids), _IDS_OF_A_LINE))
    return "".join(f"{json.dumps(part)}\n" for part in parts)


def read_ids(root: Path, manifest: dict[str, Any]) -> tuple[str, ...]:
    """Of the classes, by row."""
    if "classes" in manifest:
        return tuple(manifest["classes"])
    try:
        content = (root / CLASSES).read_bytes()
    except FileNotFoundError as error:
        raise CorruptSnapshot(f"{root / CLASSES} is missing; restore it from a copy") from error
    if hashlib.sha256(content).hexdigest() != manifest["files"][CLASSES]["sha256"]:
        raise CorruptSnapshot(f"{root / CLASSES} was altered (its sha256 does not match); restore it from a copy")
    return tuple(name for line in content.splitlines() for name in json.loads(line))


def read(root: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((root / MANIFEST).read_bytes())
        version = manifest["format"]
        if version not in _READ:
            raise UnsupportedSnapshot(
                f"{root} has format {version}, this program reads {FORMAT}; use the version that wrote it"
            )
        if manifest["sha256"] != digest(manifest):
            raise CorruptSnapshot(f"{root / MANIFEST} was altered; restore it from a copy")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptSnapshot(f"{root} has no {MANIFEST}: no snapshot, or an incomplete one") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptSnapshot(f"{root / MANIFEST} cannot be read ({error}); restore it from a copy") from error
    return manifest


def digest(manifest: dict[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
