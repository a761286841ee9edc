"""zstci versions, and zstci versions activate N"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.output import AsJson, echo_json, echo_table

if TYPE_CHECKING:
    from service.domain import Version
    from service.storage.versions import VersionStore

__all__ = ["app"]

app = typer.Typer(help="List the versions, or choose the one that answers.", invoke_without_command=True)


@app.callback()
def versions(context: typer.Context, as_json: AsJson = False) -> None:
    """List the versions, newest first. The active one is marked with *."""
    if context.invoked_subcommand is not None:
        return
    store = _store()
    active = store.active()
    found = [store.get(number) for number in reversed(store.numbers())]
    if as_json:
        echo_json({"active": active, "data": [_entry(version) for version in found]})
        return
    rows = [
        (
            "*" if version.number == active else "",
            version.number,
            version.facts.parent or "-",
            version.facts.created_at,
            version.facts.classes,
            f"{version.facts.regularizer}, {version.facts.translator}, {version.facts.classifier}",
        )
        for version in found
    ]
    echo_table(("", "version", "parent", "created", "classes", "strategy"), rows)


@app.command()
def activate(
    number: Annotated[int, typer.Argument(metavar="N", help="Number of the version")], as_json: AsJson = False
) -> None:
    """Roll back or forward: make a version the active one. A server on the same home follows within a second."""
    from service.serving.live import LiveModel

    store = _store()
    # Loaded first: a damaged version must not become the active one.
    live = LiveModel.load(store.folder(number), number)
    store.activate(number)
    if as_json:
        echo_json({"active": number})
        return
    typer.echo(f"version {number} is active: {len(live.index)} classes")


def _entry(version: Version) -> dict[str, Any]:
    return {"number": version.number, **asdict(version.facts), "sha256": version.sha256, "bytes": version.bytes}


def _store() -> VersionStore:
    from service.config import load_settings
    from service.storage.versions import VersionStore

    return VersionStore(load_settings().home)
