"""Watching an update to its end."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from service.cli.output import echo_facts, echo_json, say
from service.cli.progress import StageBars

if TYPE_CHECKING:
    from service.client import Client, Update, UpdateEntry

__all__ = ["STOPPED", "summary", "watch"]

_SWAP_SECONDS = 60.0  # to load a version; whoever takes longer says why in its log
STOPPED = 130  # what a shell expects of a program that Ctrl-C ended


def watch(client: Client, update: Update, as_json: bool) -> None:
    """Bars while it runs and a small table at its end, when the new version answers. Ctrl-C ends the watching, not the
    update."""
    from service.client import UpdateCancelled, UpdateFailed

    try:
        with closing(StageBars()) as bars:
            entry = update.wait(on_progress=bars)
            _until_it_answers(client, entry)
    except KeyboardInterrupt:
        say(
            f"zstci: the update goes on in the service; watch it again with: zstci updates watch {update.id}, "
            f"or cancel it with: zstci updates cancel {update.id}",
            err=True,
        )
        raise typer.Exit(STOPPED) from None
    except (UpdateFailed, UpdateCancelled) as error:
        if as_json:
            echo_json(error.entry.model_dump(mode="json"))
        raise
    if as_json:
        echo_json(entry.model_dump(mode="json"))
    else:
        echo_facts(summary(entry))


def _until_it_answers(client: Client, entry: UpdateEntry) -> None:
    """Published is not loaded yet: who asks in the next line of a script means the new version."""
    deadline = time.monotonic() + _SWAP_SECONDS
    while entry.version is not None and client.version(entry.version).active and time.monotonic() < deadline:
        ready = client.ready()
        if ready is not None and ready.version == entry.version:
            return
        time.sleep(0.1)


def summary(entry: UpdateEntry) -> dict[str, object]:
    """What somebody wants to know when it is over."""
    accuracy, held_out = entry.metrics.get("accuracy"), entry.metrics.get("held_out_images")
    waits = f", not active: zstci versions activate {entry.version}" if entry.options.activate == "manual" else ""
    return {
        "classes" if entry.options.on_existing_class == "merge" else "new classes": _names(entry.classes),
        "images": f"{entry.images}, {len(entry.rejected)} more left out" if entry.rejected else entry.images,
        "accuracy": f"{accuracy:.1f} % of {held_out} held-out images" if accuracy is not None else None,
        "seconds": _seconds(entry),
        "version": None if entry.version is None else f"{entry.version}{waits}",
    }


def _names(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)}: {', '.join(names[:most])}{more}"


def _seconds(entry: UpdateEntry) -> str | None:
    if entry.started_at is None or entry.ended_at is None:
        return None
    took = datetime.fromisoformat(entry.ended_at) - datetime.fromisoformat(entry.started_at)
    return f"{took.total_seconds():.1f}"
