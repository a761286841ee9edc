"""zstci classes, and zstci classes rename CLASS NAME and delete CLASS"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_json, echo_table, say

if TYPE_CHECKING:
    from service.client import Client

__all__ = ["app"]

app = typer.Typer(help="List the classes, rename or delete one.", invoke_without_command=True)

Class = Annotated[str, typer.Argument(metavar="CLASS", help="Id or name of the class, as `zstci classes` shows them")]

T = TypeVar("T")


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
        entry = _on(client, one, lambda class_id: client.rename(class_id, name))
    if as_json:
        echo_json(entry.model_dump())
        return
    say(f"class {entry.id} is now called {entry.name}")


@app.command()
def delete(one: Class, as_json: AsJson = False, url: Url = None) -> None:
    """Make a new version without a class. `zstci versions activate` brings the class back."""
    with connect(url) as client:
        version = _on(client, one, client.delete_class)
    if as_json:
        echo_json(version.model_dump())
        return
    say(f"version {version.number} is without class {one}: {version.classes} classes")


def _on(client: Client, one: str, act: Callable[[str], T]) -> T:
    """By its id, which never means two things; else by its name, which is what people know."""
    from service.errors import UnknownClass

    try:
        return act(one)
    except UnknownClass:
        found = next((entry.id for entry in client.classes() if entry.name == one), None)
        if found is None:
            raise
    return act(found)
