"""zstci keys create, list, rotate and revoke: on the database itself, so that there can be a first key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.output import AsJson, echo_json, echo_table, say

if TYPE_CHECKING:
    from service.domain import Actor, Key
    from service.storage.keys import KeyStore
    from service.usecases.manage_keys import KeyManager

__all__ = ["app"]

app = typer.Typer(
    help="Make, list, rotate and revoke keys, on the database that the service uses.", no_args_is_help=True
)

_MOST = 1000


class Scope(StrEnum):
    query = "query"
    update = "update"
    admin = "admin"


KeyId = Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as `zstci keys list` shows it")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="For whom or what it is")],
    scope: Annotated[
        Scope, typer.Option(help="query: ask; update: also add and change classes; admin: also versions and keys")
    ] = Scope.query,
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, help="Good for so many days (default: until revoked)")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, this once. As soon as there is one, the service wants a key from everybody."""
    with _managed() as (manager, _, actor):
        _echo_new(*manager.create(actor, name, scope.value, days), as_json)


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, newest first, also those that were revoked. No key itself is shown: none is stored."""
    with _managed() as (_, keys, _):
        found, _ = keys.list(_MOST)
    if as_json:
        echo_json({"data": [asdict(key) for key in found]})
        return
    rows = [
        (
            key.id,
            key.name,
            key.scope,
            key.created_at,
            key.last_used_at or "-",
            f"revoked {key.revoked_at}" if key.revoked_at else f"until {key.expires_at}" if key.expires_at else "good",
        )
        for key in found
    ]
    echo_table(("id", "name", "scope", "created", "last used", ""), rows)


@app.command()
def rotate(
    key_id: KeyId,
    grace: Annotated[int, typer.Option(min=0, help="Seconds that the secret before is good for, too")] = 0,
    as_json: AsJson = False,
) -> None:
    """Give a key another secret and print it, this once."""
    with _managed() as (manager, _, actor):
        _echo_new(*manager.rotate(actor, key_id, grace), as_json)


@app.command()
def revoke(key_id: KeyId, as_json: AsJson = False) -> None:
    """Take a key back, for good. The service refuses it within two seconds."""
    with _managed() as (manager, _, actor):
        key = manager.revoke(actor, key_id)
    if as_json:
        echo_json(asdict(key))
        return
    say(f"key {key.id} ({key.name}) is revoked")


@contextmanager
def _managed() -> Iterator[tuple[KeyManager, KeyStore, Actor]]:
    from service.config import load_settings
    from service.domain import Actor
    from service.storage.audit import AuditStore
    from service.storage.database import Database, database_url
    from service.storage.keys import KeyStore
    from service.storage.prepare import prepare_database
    from service.usecases.audit import Audit
    from service.usecases.manage_keys import KeyManager

    settings = load_settings()
    prepare_database(settings)
    database = Database(database_url(settings))
    try:
        keys = KeyStore(database)
        yield KeyManager(keys, Audit(AuditStore(database))), keys, Actor(None, "command line")
    finally:
        database.close()


def _echo_new(key: Key, token: str, as_json: bool) -> None:
    """The key alone on standard output, so that a script can take it."""
    if as_json:
        echo_json({**asdict(key), "key": token})
        return
    say(f"key {key.id} ({key.name}, {key.scope}); it is shown this once:", err=True)
    typer.echo(token)
