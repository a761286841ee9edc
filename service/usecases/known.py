"""What the active version says of itself, read from its files without loading its net."""

from __future__ import annotations

from service.storage.artifacts import Artifacts
from service.storage.versions import VersionStore
from zstci import Config
from zstci.manifest import read_facts

__all__ = ["known_classes", "parent_config"]


def parent_config(versions: VersionStore, artifacts: Artifacts) -> Config | None:
    """How the active version was learnt; None where nothing was yet."""
    active = versions.active().version
    if active is None:
        return None
    config, _ = read_facts(artifacts.local(versions.get(active).bundle))
    return config


def known_classes(versions: VersionStore, artifacts: Artifacts) -> dict[str, str]:
    """Names by id."""
    active = versions.active().version
    if active is None:
        return {}
    _, ids = read_facts(artifacts.local(versions.get(active).bundle))
    names = versions.names()
    return {i: names.get(i, i) for i in ids}
