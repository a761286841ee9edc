"""Ports of this machine."""

from __future__ import annotations

import socket

__all__ = ["answers", "free_port", "in_the_way"]

_SECONDS = 5.0  # a service that is busy may take a while


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def in_the_way(host: str, port: int) -> OSError | None:
    """Why a server could not listen there, tried as uvicorn would: a connection that has just ended is no reason."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def answers(host: str, port: int) -> str | None:
    """What a zstci service there says of itself; None where it is something else."""
    from service.client import ApiError, Client
    from service.errors import ServiceUnreachable

    here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    with Client(f"http://{here}:{port}", timeout=_SECONDS, tries=1) as client:
        try:
            ready = client.ready()
        except (ApiError, ServiceUnreachable, ValueError):  # ValueError: JSON of somebody else
            return None
    return f"version {ready.version}, {ready.classes} classes" if ready else "it cannot answer queries yet"
