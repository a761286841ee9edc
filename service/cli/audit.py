"""zstci audit"""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_json, echo_table

__all__ = ["audit"]


def audit(
    limit: Annotated[int, typer.Option(min=1, help="Most entries to list")] = 20,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Who changed what, newest first. Needs a key of scope admin, where keys are needed."""
    with connect(url) as client:
        found = client.audit(limit)
    if as_json:
        echo_json({"data": [entry.model_dump() for entry in found]})
        return
    rows = [
        (entry.at, entry.actor, entry.key_id or "-", entry.action, entry.object or "-", entry.outcome)
        for entry in found
    ]
    echo_table(("when", "who", "key", "what", "of", "outcome"), rows)
