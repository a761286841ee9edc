"""The service that a command asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from service.client import Client

__all__ = ["Url", "connect", "service_of"]

Url = Annotated[
    str | None,
    typer.Option(help="Address of the service (default: ZSTCI_URL, then port 8000 here)", show_default=False),
]


def connect(url: str | None) -> Client:
    from service.client import Client

    return Client(*service_of(url))


def service_of(url: str | None) -> tuple[str, str | None]:
    """Its address, and the key to show there."""
    from service.config import load_settings

    settings = load_settings()
    # By environment alone: others on this machine can read what stands on a command line.
    return url if url is not None else settings.url, settings.key or None
