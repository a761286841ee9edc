"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from service.usecases.class_names import is_hidden

__all__ = ["AsJson", "bar", "echo", "echo_facts", "echo_json", "echo_table", "parse_settings", "visible"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def visible(text: str) -> str:
    """Names come from strangers, also those that no service has cleaned: what would move a cursor, change a colour or
    turn the direction of the text is spelt out."""
    return "".join(_spelt_out(character) if is_hidden(character) else character for character in text)


def echo(text: str, err: bool = False) -> None:
    """One line, whatever is in it."""
    typer.echo(visible(text), err=err)


def echo_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def echo_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[f"{cell:.4f}" if isinstance(cell, float) else visible(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    numeric = [bool(rows) and isinstance(cell, int | float) for cell in (rows[0] if rows else titles)]
    for line in (titles, *cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        typer.echo("  ".join(padded).rstrip())


def echo_facts(facts: Mapping[str, object]) -> None:
    """Names on the left, values on the right; what is not known is left out."""
    known = {name: value for name, value in facts.items() if value is not None and value != ""}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        echo(f"{name.ljust(width)}  {value}")


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


def _spelt_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
