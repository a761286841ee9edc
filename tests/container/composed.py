"""The containers that docker-compose.yml describes: its commands, settings, volumes, limits and health checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.container.engines import Run

__all__ = ["composed", "health_check"]

_FILE = Path(__file__).parents[2] / "docker-compose.yml"
_UNITS = {"m": 2**20, "g": 2**30}


def composed(service: str, name: str, *arguments: str, **environment: str) -> Run:
    """One container of the service; what is given here goes before what the file says."""
    about = _service(service)
    settings = {name: value for name, value in about["environment"].items() if value is not None}
    shared = {place: volume for volume, place in (entry.split(":") for entry in about["volumes"])}
    memory = str(about["deploy"]["resources"]["limits"]["memory"])
    return Run(
        name,
        arguments or about["command"],
        environment=settings | environment,
        volumes=shared | {"/data": f"data-of-{name}"},
        memory=int(memory[:-1]) * _UNITS[memory[-1]],
    )


def health_check(service: str) -> list[str]:
    kind, *command = _service(service)["healthcheck"]["test"]
    assert kind == "CMD", "a health check in a shell's words needs a shell"
    return list(command)


def _service(name: str) -> dict[str, Any]:
    """With the defaults of all variables."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", _FILE.read_text())
    found: dict[str, Any] = yaml.safe_load(text)["services"][name]
    return found
