"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.cells import cell_len

from service.usecases.class_names import spelt_out

__all__ = ["AsJson", "bar", "echo_facts", "echo_json", "echo_table", "pad", "parse_settings", "say", "shown"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def echo_json(value: Any, err: bool = False) -> None:
    typer.echo(json.dumps(value, indent=2), err=err)


def say(line: str, err: bool = False) -> None:
    """A line that may hold names of strangers."""
    typer.echo(shown(line), err=err)


def shown(value: object) -> str:
    """As text that stays one line and does nothing to a terminal."""
    return spelt_out(str(value))


def pad(text: str, width: int) -> str:
    """To so many columns of a terminal: a Chinese character takes two."""
    return text + " " * (width - cell_len(text))


def echo_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[f"{cell:.4f}" if isinstance(cell, float) else shown(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(titles, *cells, strict=True)]
    numeric = [bool(rows) and isinstance(cell, int | float) for cell in (rows[0] if rows else titles)]
    for line in (titles, *cells):
        padded = [
            cell.rjust(width) if right else pad(cell, width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())


def echo_facts(facts: Mapping[str, object]) -> None:
    """Names on the left, values on the right; what is not known is left out."""
    known = {name: value for name, value in facts.items() if value is not None and value != ""}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        say(f"{name.ljust(width)}  {value}")


def bar(share: float) -> str:
    """0 to 1 as a bar of text, to an eighth of a character where the terminal has such."""
    eighths = round(min(max(share, 0.0), 1.0) * _WIDTH * 8)
    whole, rest = divmod(eighths, 8)
    if not _can_show(_EIGHTHS):
        return ("#" * round(eighths / 8)).ljust(_WIDTH)
    return (_EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")).ljust(_WIDTH)


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


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
