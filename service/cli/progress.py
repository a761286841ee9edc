"""Progress on a terminal; nothing where there is none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import TaskID

    from service.client import Progress

__all__ = ["CountBar", "StageBars", "UploadBar", "bars_of", "details"]


def bars_of(*columns: ProgressColumn, width: int = 13, transient: bool = False) -> Bars:
    """Lines of a title, a bar, the time and what is `said`; nothing is markup, because names of strangers are shown."""
    console = Console(file=sys.stderr)
    return Bars(
        TextColumn(f"{{task.description:<{width}}}", markup=False),
        TaskProgressColumn(),
        BarColumn(bar_width=24),
        *columns,
        TimeElapsedColumn(),
        _Said(),
        console=console,
        disable=not console.is_terminal,
        transient=transient,
    )


class _Said(ProgressColumn):
    """Gives way where a terminal is narrow, so that the others need not."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=False))

    def render(self, task: Task) -> Text:
        return Text(task.fields["said"], no_wrap=True, overflow="ellipsis")


class StageBars:
    """One line a stage, which stays when the next begins. The bar itself is that of the whole update, so it never goes
    back, unless the update is begun anew."""

    def __init__(self) -> None:
        self._bars = bars_of()
        self._line: TaskID | None = None
        self._at: tuple[str, int] = ("", 0)

    def __call__(self, progress: Progress) -> None:
        if self._line is None or self._at != (progress.stage, progress.attempt):
            if self._line is None:
                self._bars.start()
            else:
                self._bars.stop_task(self._line)
            self._at = (progress.stage, progress.attempt)
            self._line = self._bars.add_task(_title(progress), total=1.0, said="")
        self._bars.update(self._line, completed=progress.progress, said=details(progress))

    def close(self) -> None:
        self._bars.stop()


class UploadBar:
    def __init__(self) -> None:
        self._bars = bars_of(DownloadColumn(), TransferSpeedColumn())
        self._line: TaskID | None = None

    def __call__(self, sent: int, total: int) -> None:
        if self._line is None:
            self._bars.start()
            self._line = self._bars.add_task("upload", total=total, said="")
        said = "the service looks at every image" if sent == total else ""
        self._bars.update(self._line, completed=sent, said=said)  # goes back when the upload is sent again

    def close(self) -> None:
        self._bars.stop()


class CountBar:
    """So many of so many. It leaves no trace."""

    def __init__(self, title: str, total: int) -> None:
        self._bars = bars_of(transient=True)
        self._line = self._bars.add_task(title, total=total, said="")
        self._bars.start()

    def __call__(self, count: int) -> None:
        self._bars.advance(self._line, count)

    def close(self) -> None:
        self._bars.stop()


def details(progress: Progress) -> str:
    """`epoch 3/10, loss 0.4123, 12 s to go`, as far as it is known."""
    parts = []
    if progress.epochs:
        parts.append(f"epoch {progress.epoch or 0}/{progress.epochs}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.eta_seconds is not None:
        parts.append(f"{_duration(progress.eta_seconds)} to go")
    return ", ".join(parts)


def _title(progress: Progress) -> str:
    title = progress.stage.replace("_", " ")
    return title if progress.attempt <= 1 else f"{title}, attempt {progress.attempt}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
