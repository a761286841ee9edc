"""What the active version says of itself, read from its files without loading its net."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from service.errors import UnknownClass
from service.storage.artifacts import Artifacts
from service.storage.versions import VersionStore
from zstci import Config
from zstci.manifest import read_facts

__all__ = ["by_name", "known_classes", "missing_class", "parent_config"]

_IDS = re.compile(r"'?\b(c[0-9a-f]{15})\b'?")


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


def missing_class(asked: str, version: int | None, name: str | None, called: Sequence[str]) -> UnknownClass:
    """For who has an id of the past (`name` is its class's), or a name where an id belongs (`called` so are these)."""
    if name is not None:
        return UnknownClass(
            f"the active version {version} does not have class {name!r} ({asked}) any more; activate a version that "
            "does, or see GET /v1/classes for what there is"
        )
    if called:
        return UnknownClass(f"{asked!r} is the name of a class, whose id is {' or '.join(called[:3])}; use the id")
    return UnknownClass(f"no class has the id {asked!r}; GET /v1/classes lists all")


def by_name(text: str, names: Mapping[str, str]) -> str:
    """The library knows classes by their ids; whoever reads its errors by their names."""
    return _IDS.sub(lambda found: f"{names[found[1]]!r} ({found[1]})" if found[1] in names else found[0], text)
