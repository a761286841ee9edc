"""zstci serve"""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: ZSTCI_HOST, 127.0.0.1)")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (default: ZSTCI_PORT, 8000)")] = None,
) -> None:
    """Answer queries over HTTP, from the active version, and follow it when another one becomes active."""
    import uvicorn

    from service.config import load_settings

    settings = load_settings()
    typer.echo(f"versions in {settings.home.resolve()}; API description at /docs", err=True)
    uvicorn.run(
        # By name: the command line and the app stand side by side, neither imports the other.
        "service.app:from_environment",
        factory=True,
        host=host if host is not None else settings.host,
        port=port if port is not None else settings.port,
        log_config=None,
    )
