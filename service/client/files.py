"""Which files an update is made of, and what they are called in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from service.errors import BadClassName, WrongLayout

__all__ = ["files_of_folder", "files_of_mapping", "readable"]

_DEPTH = 3  # one level more than the layout has: enough for the service to see that there is one too many
_LITTER = ("__MACOSX", "Thumbs.db", "desktop.ini")  # what the service would ignore anyway


@contextmanager
def readable(root: Path) -> Iterator[None]:
    """What may not be looked at, in the words of a user."""
    try:
        yield
    except OSError as error:
        where, why = error.filename or root, error.strerror or error
        raise WrongLayout(f"{where} cannot be read ({why}); give this user the right to, or leave it out") from error


def files_of_folder(root: Path) -> list[tuple[str, Path]]:
    """`class-name/image.jpg` and where it lies, in a stable order."""
    with readable(root):
        found = list(_files(root, "", _DEPTH))
    if not any("/" in name for name, _ in found):
        raise WrongLayout(f"{root} holds no class folders with images; lay them out as {root}/class-name/image.jpg")
    return found


def _files(folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path]]:
    """Follows links: a folder of links to images is a usual way to choose some of them."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name in _LITTER:
            continue
        if entry.is_dir():
            if depth > 1:
                yield from _files(entry, f"{prefix}{entry.name}/", depth - 1)
        elif entry.is_file():
            yield prefix + entry.name, entry
        else:
            raise WrongLayout(f"{entry} is neither a file nor a folder; if it is a link, it leads nowhere")


def files_of_mapping(classes: Mapping[str, Sequence[str | os.PathLike[str]]]) -> Iterator[tuple[str, Path]]:
    """The same for classes whose images lie anywhere; those of one class may share a name."""
    for class_name, paths in classes.items():
        if not class_name or class_name.startswith(".") or set(class_name) & set("/\\"):
            raise BadClassName(f"a class cannot be named {class_name!r}; leave out slashes and a dot at the start")
        taken: set[str] = set()
        for number, path in enumerate(map(Path, paths)):
            if not path.is_file():
                raise WrongLayout(f"{path} of class {class_name!r} is no file")
            plain = not path.name.startswith(".") and path.name not in _LITTER and path.name not in taken
            taken.add(name := path.name if plain else f"{number}-{path.name}")
            yield f"{class_name}/{name}", path
