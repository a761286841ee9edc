"""zstci classes, and zstci classes rename ID NAME and delete ID"""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo, echo_json, echo_table

__all__ = ["app"]

app = typer.Typer(help="List the classes, rename or delete one.", invoke_without_command=True)

ClassId = Annotated[str, typer.Argument(metavar="ID", help="Id of the class, as `zstci classes` shows it")]


@app.callback()
def classes(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List the classes that the service knows."""
    if context.invoked_subcommand is not None:
        return
    with connect(url) as client:
        found = client.classes()
    if as_json:
        echo_json({"data": [entry.model_dump() for entry in found]})
        return
    echo_table(("id", "class", "images", "hops"), [(entry.id, entry.name, entry.images, entry.hops) for entry in found])


@app.command()
def rename(
    class_id: ClassId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Give a class another name. Its id stays."""
    with connect(url) as client:
        entry = client.rename(class_id, name)
    if as_json:
        echo_json(entry.model_dump())
        return
    echo(f"class {entry.id} is now called {entry.name}")


@app.command()
def delete(class_id: ClassId, as_json: AsJson = False, url: Url = None) -> None:
    """Make a new version without a class. `zstci versions activate` brings the class back."""
    with connect(url) as client:
        version = client.delete_class(class_id)
    if as_json:
        echo_json(version.model_dump())
        return
    echo(f"version {version.number} is without class {class_id}: {version.classes} classes")
