"""zstci evaluate"""

from __future__ import annotations

import unicodedata
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo, echo_json, echo_table
from service.cli.progress import CountBar
from service.cli.query import name_images

if TYPE_CHECKING:
    from service.client import Client

__all__ = ["ClassAccuracy", "Evaluation", "evaluate"]

_AT_ONCE = 16


@dataclass(frozen=True)
class ClassAccuracy:
    name: str
    images: int
    correct: int

    @property
    def accuracy(self) -> float:
        return 100.0 * self.correct / self.images


@dataclass(frozen=True)
class Evaluation:
    """In percent, over the images of classes that the version knows; `unknown` are the others."""

    version: int
    classes: tuple[ClassAccuracy, ...]
    unknown: tuple[str, ...]

    @property
    def images(self) -> int:
        return sum(part.images for part in self.classes)

    @property
    def accuracy(self) -> float:
        return 100.0 * sum(part.correct for part in self.classes) / self.images


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of folders: class-name/image.jpg")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Measure how often the service is right on labelled images."""
    with connect(url) as client:
        found = _measure(client, folder)
    if as_json:
        per_class = [{**vars(part), "accuracy": part.accuracy} for part in found.classes]
        summary = {"version": found.version, "accuracy": found.accuracy, "images": found.images}
        echo_json(summary | {"classes": per_class, "unknown": list(found.unknown)})
        return
    rows = [(part.name, part.images, part.correct, f"{part.accuracy:.1f} %") for part in found.classes]
    echo_table(("class", "images", "correct", "accuracy"), rows)
    echo(f"overall {found.accuracy:.1f} % of {found.images} images, version {found.version}")
    if found.unknown:
        echo(f"not counted, because unknown: {', '.join(found.unknown)}", err=True)


def _measure(client: Client, folder: Path) -> Evaluation:
    from zstci.errors import InvalidData

    labelled = _labelled(folder)
    names = list(dict.fromkeys(name for name, _ in labelled))
    known = {entry.name for entry in client.classes()}
    unknown = tuple(name for name in names if name not in known)
    if len(unknown) == len(names):
        raise InvalidData("the service knows none of these classes; the folders must be named like them: zstci classes")
    counted = [(name, path) for name, path in labelled if name in known]
    version, guesses = _guesses(client, [path for _, path in counted])
    images = Counter(name for name, _ in counted)
    correct = Counter(name for (name, _), guess in zip(counted, guesses, strict=True) if name == guess)
    parts = tuple(ClassAccuracy(name, images[name], correct[name]) for name in images)
    return Evaluation(version, parts, unknown)


def _labelled(folder: Path) -> list[tuple[str, Path]]:
    """Every image with the name of its class, in the form in which the service stores names."""
    from service.client.files import files_of_folder
    from service.errors import WrongLayout

    if not folder.is_dir():
        raise WrongLayout(f"{folder} is no folder; give one of class-name/image.jpg")
    labelled = []
    for name, path in files_of_folder(folder):
        if name.count("/") != 1:
            raise WrongLayout(f"{path} does not lie in {folder}/class-name/; move it there, or give another folder")
        labelled.append((unicodedata.normalize("NFC", path.parent.name).strip(), path))
    return labelled


def _guesses(client: Client, paths: list[Path]) -> tuple[int, list[str]]:
    """The version of the first answer gives all of them: an update that ends meanwhile must not mix in."""
    from service.client import ApiError

    version: int | None = None
    guesses: list[str] = []
    with closing(CountBar("images", len(paths))) as bar:
        for start in range(0, len(paths), _AT_ONCE):
            batch = paths[start : start + _AT_ONCE]
            try:
                answers = client.classify(batch, 1, version)
            except ApiError as error:
                raise name_images(error, batch) from None
            version = answers[0].version
            guesses += [answer.predictions[0].name for answer in answers]
            bar(len(batch))
    assert version is not None
    return version, guesses
