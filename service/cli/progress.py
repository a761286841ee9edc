"""Progress on a terminal; nothing where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tqdm import tqdm

if TYPE_CHECKING:
    from service.client import Progress

__all__ = ["CountBar", "StageBars", "UploadBar"]


class StageBars:
    """One line a stage, which stays when the next begins. The bar itself is that of the whole update, so it never goes
    back, unless the update is begun anew."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._at: tuple[str, int] = ("", 0)

    def __call__(self, progress: Progress) -> None:
        done = 100 * progress.progress
        if self._bar is None or self._at != (progress.stage, progress.attempt):
            self.close()
            self._at = (progress.stage, progress.attempt)
            self._bar = tqdm(
                total=100,
                initial=done,
                desc=_title(progress),
                disable=None,
                bar_format="{desc:<13} {percentage:3.0f}% |{bar}| {elapsed}{postfix}",
            )
        self._bar.set_postfix_str(details(progress), refresh=False)
        self._bar.update(done - self._bar.n)
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class UploadBar:
    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, sent: int, total: int) -> None:
        if self._bar is None:
            self._bar = tqdm(
                total=total,
                desc="upload",
                disable=None,
                unit="B",
                unit_scale=True,
                bar_format="{desc:<13} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}, {rate_fmt}{postfix}",
            )
        self._bar.update(sent - self._bar.n)  # goes back when the upload is sent again
        if sent == total:
            self._bar.set_postfix_str("the service looks at every image")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class CountBar:
    """So many of so many."""

    def __init__(self, title: str, total: int) -> None:
        self._bar: Any = tqdm(total=total, desc=title, disable=None, leave=False)

    def __call__(self, count: int) -> None:
        self._bar.update(count)

    def close(self) -> None:
        self._bar.close()


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
