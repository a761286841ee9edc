"""zstci classify"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, bar, echo, echo_json, visible

if TYPE_CHECKING:
    from service.client import ApiError, Classification

__all__ = ["classify", "name_images"]


def classify(
    images: Annotated[list[Path], typer.Argument(metavar="IMG...", help="Image files", exists=True, dir_okay=False)],
    top_k: Annotated[int, typer.Option(min=1, max=1000, help="How many classes to name")] = 5,
    version: Annotated[int | None, typer.Option(min=1, help="Ask an older version that is still loaded")] = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Name the nearest classes of image files."""
    from service.client import ApiError

    with connect(url) as client:
        try:
            found = client.classify(images, top_k, version)
        except ApiError as error:
            raise name_images(error, images) from None
    if as_json:
        data = [{"image": str(path), **answer.model_dump()} for path, answer in zip(images, found, strict=True)]
        echo_json({"data": data})
        return
    for path, answer in zip(images, found, strict=True):
        _echo(path, answer)


def name_images(error: ApiError, images: list[Path]) -> ApiError:
    """The service knows images by their position, a user by their name."""
    from service.client import ApiError

    faults = [f"{images[fault.image]}: {fault.detail}" for fault in error.errors if fault.image is not None]
    if not faults:
        return error
    return ApiError("; ".join(faults), code=error.code, status=error.status, request_id=error.request_id)


def _echo(path: Path, answer: Classification) -> None:
    margin = "" if answer.margin is None else f", margin {answer.margin:.4f}"
    echo(f"{path}  (version {answer.version}{margin})")
    names = [visible(guess.name) for guess in answer.predictions]
    width = max(map(len, names))
    for name, guess in zip(names, answer.predictions, strict=True):
        echo(f"  {name.ljust(width)}  {bar(guess.score)}  {guess.score:.3f}  distance {guess.distance:.4f}")
