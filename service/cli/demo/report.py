"""The demo's numbers as a table, and while they are being made a bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.cli.demo.story import Measured
from service.cli.output import say
from service.cli.progress import bars_of, details
from service.client import Progress

__all__ = ["StoryBar", "echo_results"]


class StoryBar:
    """One line for the whole story and one for what is being done."""

    def __init__(self, steps: int) -> None:
        self._bars = bars_of(width=44)
        self._whole = self._bars.add_task("demo", total=steps, said="")
        self._now = self._bars.add_task("starting the service", total=1, said="")
        self._done = -1  # the first call begins the first step
        self._bars.start()

    def __call__(self, what: str, progress: Progress | None) -> None:
        if progress is None:
            self._done += 1
            self._bars.update(self._whole, completed=self._done)
            self._bars.reset(self._now, description=what, total=1, said="")
            return
        said = f"{progress.stage.replace('_', ' ')} {details(progress)}"
        self._bars.update(self._now, completed=progress.progress, said=said)

    def close(self) -> None:
        self._bars.update(self._whole, completed=self._bars.tasks[0].total or 0)
        self._bars.update(self._now, visible=False)
        self._bars.stop()


def echo_results(rows: Sequence[dict[str, Any]]) -> None:
    """Rows as in the JSON."""
    found = [Measured(**row) for row in rows]
    for update, names in {row.update: row.classes for row in found}.items():
        say(f"  update {update}: {', '.join(names)}")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in ("update", "translation", "version"):
        table.add_column(title)
    for title in ("old classes", "new classes", "all", "seconds"):
        table.add_column(title, justify="right")
    best = _best(found)
    for row in sorted(found, key=lambda row: row.update):
        table.add_row(
            Text(str(row.update)),
            Text(_translation(row)),
            Text(str(row.version)),
            Text("-" if row.old is None else f"{row.old:.1f} %", style="bold green" if row is best else ""),
            Text(f"{row.new:.1f} %"),
            Text(f"{row.all:.1f} %"),
            Text(f"{row.seconds:.1f}"),
        )
    Console().print(table)


def _translation(row: Measured) -> str:
    if row.update == 1:
        return "-"
    return "without" if row.translator == "none" else row.translator


def _best(found: Sequence[Measured]) -> Measured:
    """Of those after the last update."""
    last = max(row.update for row in found)
    return max((row for row in found if row.update == last), key=lambda row: row.old or 0.0)
