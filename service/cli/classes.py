"""zstci classes, and zstci classes rename CLASS NAME and delete CLASS"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_json, echo_table, say

if TYPE_CHECKING:
    from service.client import Client

__all__ = ["app"]

app = typer.Typer(help="List the classes, rename or delete one.", invoke_without_command=True)

Class = Annotated[str, typer.Argument(metavar="CLASS", help="Id or name of the class, as `zstci classes` shows them")]


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
    one: Class,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Give a class another name. Its id stays."""
    with connect(url) as client:
        entry = client.rename(_id_of(client, one), name)
    if as_json:
        echo_json(entry.model_dump())
        return
    say(f"class {entry.id} is now called {entry.name}")


@app.command()
def delete(one: Class, as_json: AsJson = False, url: Url = None) -> None:
    """Make a new version without a class. `zstci versions activate` brings the class back."""
    with connect(url) as client:
        version = client.delete_class(_id_of(client, one))
    if as_json:
        echo_json(version.model_dump())
        return
    say(f"version {version.number} is without class {one}: {version.classes} classes")


def _id_of(client: Client, one: str) -> str:
    """An id never means two things, a name is what people know. What is neither is for the service to refuse."""
    known = {entry.id: entry.name for entry in client.classes()}
    return one if one in known else next((class_id for class_id, name in known.items() if name == one), one)
