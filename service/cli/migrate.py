"""zstci migrate"""

from __future__ import annotations

import typer

__all__ = ["migrate"]


def migrate() -> None:
    """Bring the database's tables to what this program needs. `zstci serve` does it by itself on SQLite."""
    from service.config import load_settings
    from service.storage.database import Database, database_url
    from service.storage.migrate import head
    from service.storage.prepare import migrate as run

    settings = load_settings()
    run(settings)
    database = Database(database_url(settings))
    typer.echo(f"{database.engine.url.render_as_string(hide_password=True)} is at {head()}")
    database.close()
