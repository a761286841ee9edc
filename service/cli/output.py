"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

__all__ = ["AsJson", "echo_json", "echo_table", "parse_settings"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def echo_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def echo_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    numeric = [bool(rows) and isinstance(cell, int | float) for cell in (rows[0] if rows else titles)]
    for line in (titles, *cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())


def parse_settings(assignments: Sequence[str]) -> dict[str, Any]:
    """`train.epochs=5` -> {"train.epochs": 5}. A value is JSON where it can be, else text."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"{assignment!r} must look like train.epochs=5", param_hint="--set")
        try:
            settings[name] = json.loads(text)
        except ValueError:
            settings[name] = text
    return settings
