"""zstci versions, and zstci versions activate N"""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_json, echo_table, say

__all__ = ["app"]

app = typer.Typer(help="List the versions, or choose the one that answers.", invoke_without_command=True)


@app.callback()
def versions(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List the versions, newest first. The active one is marked with *."""
    if context.invoked_subcommand is not None:
        return
    with connect(url) as client:
        found = client.versions()
    if as_json:
        active = next((entry.number for entry in found if entry.active), None)
        echo_json({"active": active, "data": [entry.model_dump() for entry in found]})
        return
    rows = [
        (
            "*" if entry.active else "",
            entry.number,
            entry.parent or "-",
            entry.kind,
            entry.created_at,
            entry.classes,
            f"{entry.regularizer}, {entry.translator}, {entry.classifier}",
        )
        for entry in found
    ]
    echo_table(("", "version", "parent", "made by", "created", "classes", "strategy"), rows)


@app.command()
def activate(
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Number of the version")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Roll back or forward: make a version the one that answers."""
    with connect(url) as client:
        entry = client.activate(number)
    if as_json:
        echo_json(entry.model_dump())
        return
    say(f"version {entry.number} is active: {entry.classes} classes")
