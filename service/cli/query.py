"""zstci classify, classes and evaluate: on the active version, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.output import AsJson, echo_json, echo_table

if TYPE_CHECKING:
    from service.serving.live import LiveModel

__all__ = ["classes", "classify", "evaluate"]


def classify(
    images: Annotated[list[Path], typer.Argument(metavar="IMG...", help="Image files", exists=True, dir_okay=False)],
    top_k: Annotated[int, typer.Option(min=1, help="How many classes to name")] = 5,
    as_json: AsJson = False,
) -> None:
    """Name the nearest classes of image files."""
    from service.bootstrap import load_active
    from service.config import load_settings
    from service.serving.decode import decode_all
    from service.usecases.query import answer

    settings = load_settings()
    live = load_active(settings)
    contents = [path.read_bytes() for path in images]
    pixels = decode_all(contents, live.snapshot.config.net.input, settings.max_pixels)
    entries: list[dict[str, Any]] = [
        {"image": str(path), "rank": rank, **vars(prediction)}
        for path, found in zip(images, answer(live, live.embed(pixels), top_k), strict=True)
        for rank, prediction in enumerate(found.predictions, start=1)
    ]
    if as_json:
        echo_json({"version": live.version, "data": entries})
        return
    columns = ("image", "rank", "name", "distance", "score")
    echo_table(columns, [[entry[column] for column in columns] for entry in entries])


def classes(as_json: AsJson = False) -> None:
    """List the classes of the active version."""
    live = _live()
    prototypes = live.snapshot.prototypes
    rows = list(zip(prototypes.ids, prototypes.counts.tolist(), prototypes.hops.tolist(), strict=True))
    if as_json:
        data = [{"id": name, "name": name, "images": images, "hops": hops} for name, images, hops in rows]
        echo_json({"version": live.version, "data": data})
        return
    echo_table(("class", "images", "hops"), rows)


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of folders: class-name/image.jpg")],
    as_json: AsJson = False,
) -> None:
    """Measure how often the active version is right on labelled images."""
    from service.usecases.evaluate import evaluate as measure
    from zstci import TaskData

    data = TaskData.from_folder(folder)
    found = measure(_live(), data)
    if as_json:
        per_class = [{**vars(part), "accuracy": part.accuracy} for part in found.classes]
        summary = {"version": found.version, "accuracy": found.accuracy, "images": found.images}
        echo_json(summary | {"classes": per_class, "unknown": list(found.unknown)})
        return
    rows = [(part.class_id, part.images, part.correct, f"{part.accuracy:.1f} %") for part in found.classes]
    echo_table(("class", "images", "correct", "accuracy"), rows)
    typer.echo(f"overall {found.accuracy:.1f} % of {found.images} images, version {found.version}")
    if found.unknown:
        typer.echo(f"not counted, because unknown: {', '.join(found.unknown)}", err=True)


def _live() -> LiveModel:
    from service.bootstrap import load_active
    from service.config import load_settings

    return load_active(load_settings())
