"""zstci updates, and zstci updates show, watch and cancel ID"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_facts, echo_json, echo_table, say
from service.cli.watch import summary, watch

if TYPE_CHECKING:
    from service.client import Client, Update, UpdateEntry

__all__ = ["app"]

app = typer.Typer(help="List the updates, or look at, watch or cancel one.", invoke_without_command=True)

UpdateId = Annotated[str, typer.Argument(metavar="ID", help="Id of the update, as `zstci updates` shows it")]
UpdateIdOrNewest = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="Id of the update (default: the newest)", show_default=False)
]


@app.callback()
def updates(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="Most updates to list")] = 20,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """List the updates, newest first."""
    if context.invoked_subcommand is not None:
        return
    with connect(url) as client:
        found = [update.entry for update in client.updates(limit=limit)]
    if as_json:
        echo_json({"data": [entry.model_dump() for entry in found]})
        return
    rows = [
        (
            entry.id,
            entry.state,
            entry.stage.replace("_", " "),
            f"{100 * entry.progress:.0f} %",
            len(entry.classes),
            entry.images,
            entry.version or "-",
            entry.created_at,
        )
        for entry in found
    ]
    echo_table(("id", "state", "stage", "done", "classes", "images", "version", "created"), rows)


@app.command()
def show(update_id: UpdateIdOrNewest = None, as_json: AsJson = False, url: Url = None) -> None:
    """All that is known about an update."""
    with connect(url) as client:
        entry = _found(client, update_id).entry
    if as_json:
        echo_json(entry.model_dump())
        return
    echo_facts(_facts(entry))
    for image in entry.rejected:
        say(f"left out: {image.name}: {image.detail}", err=True)


@app.command("watch")
def watch_update(update_id: UpdateIdOrNewest = None, as_json: AsJson = False, url: Url = None) -> None:
    """Stay with an update until it has ended."""
    with connect(url) as client:
        watch(client, _found(client, update_id), as_json)


@app.command()
def cancel(update_id: UpdateId, as_json: AsJson = False, url: Url = None) -> None:
    """Stop an update. Nothing that answers changes."""
    with connect(url) as client:
        entry = client.update(update_id).cancel()
    if as_json:
        echo_json(entry.model_dump())
        return
    say(f"update {entry.id} is {entry.state}" + ("" if entry.ended else ", and ends within seconds"))


def _found(client: Client, update_id: str | None) -> Update:
    from service.errors import UnknownUpdate

    if update_id is not None:
        return client.update(update_id)
    newest = client.updates(limit=1)
    if not newest:
        raise UnknownUpdate("there is no update yet; begin one with: zstci add DIR")
    return newest[0]


def _facts(entry: UpdateEntry) -> dict[str, object]:
    chosen = entry.options.model_dump(exclude_none=True)
    options = chosen.pop("overrides") | chosen
    return {
        "update": entry.id,
        "state": entry.state,
        "stage": None if entry.ended else f"{entry.stage.replace('_', ' ')}, {100 * entry.progress:.0f} %",
        "error": entry.error and f"{entry.error.detail} ({entry.error.code})",
        **summary(entry),
        "instant version": entry.instant_version,
        "options": ", ".join(f"{name}={value}" for name, value in options.items()),
        "attempt": entry.attempt,
        "created": entry.created_at,
        "ended": entry.ended_at,
        "images deleted": entry.purged_at,
    }
