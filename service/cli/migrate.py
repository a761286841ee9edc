"""zstci migrate"""

from __future__ import annotations

from service.cli.output import AsJson, echo_json, say

__all__ = ["migrate"]


def migrate(as_json: AsJson = False) -> None:
    """Bring the database's tables to what this program needs. `zstci serve` does it by itself on SQLite."""
    from service.config import load_settings
    from service.storage.database import Database, database_url
    from service.storage.migrate import head
    from service.storage.prepare import migrate as run

    settings = load_settings()
    run(settings)
    database = Database(database_url(settings))
    if as_json:
        echo_json({"database": database.shown_url, "revision": head()})
    else:
        say(f"{database.shown_url} is at {head()}")
    database.close()
