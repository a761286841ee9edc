"""Safetensors files written whole or not at all, and names with dots as nested groups."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

__all__ = ["digest", "flat", "nested", "under", "write"]


def write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """A crash leaves the old file or the new one, never half of either."""
    partial = path.with_name(f"{path.name}.partial")
    save_file(_apart(tensors), partial, metadata)
    with open(partial, "rb") as written:
        os.fsync(written.fileno())
    partial.replace(path)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors may share memory (a frozen net's old and new features are one); a file may not. Only those are copied:
    the means of a million classes are gigabytes."""
    seen: set[int] = set()
    found = {}
    for name, value in tensors.items():
        whole = value.detach().cpu().contiguous()
        place = whole.untyped_storage().data_ptr()
        found[name] = whole.clone() if place in seen else whole
        seen.add(place)
    return found


def digest(tensors: Mapping[str, Tensor]) -> str:
    """The sha256 of names and numbers."""
    found = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries named `prefix.<rest>`, by <rest>."""
    return {name[len(prefix) + 1 :]: value for name, value in tensors.items() if name.startswith(f"{prefix}.")}


def flat(groups: Mapping[str, Mapping[str, Tensor]], prefix: str) -> dict[str, Tensor]:
    """{kind: {name: value}} as {prefix.kind.name: value}."""
    return {f"{prefix}.{kind}.{name}": value for kind, group in groups.items() for name, value in group.items()}


def nested(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, dict[str, Tensor]]:
    """The inverse of `flat`; kinds have no dot in their name."""
    groups: dict[str, dict[str, Tensor]] = {}
    for path, value in under(tensors, prefix).items():
        kind, _, name = path.partition(".")
        groups.setdefault(kind, {})[name] = value
    return groups
