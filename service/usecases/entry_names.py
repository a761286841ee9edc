"""From the name of an archive's entry to a class and an image: class-name/image.jpg, and nothing else."""

from __future__ import annotations

import re

from service.errors import BadArchive, WrongLayout
from service.usecases.archive_entry import shown

__all__ = ["class_and_image"]

_LONGEST = 1000
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LEFT_BY_SYSTEMS = ("thumbs.db", "desktop.ini", "icon\r")


def class_and_image(name: str) -> tuple[str, str] | None:
    """None for folders and for what operating systems leave in them."""
    if len(name) > _LONGEST:
        raise BadArchive(f"{shown(name)} has {len(name)} characters; shorten it")
    if _ABSOLUTE.match(name) or ".." in re.split(r"[/\\]", name):
        raise BadArchive(f"{shown(name)} points outside of the archive; pack it with names like class-name/image.jpg")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or name.endswith("/") or _is_left_by_a_system(parts):
        return None
    if _CONTROL.search(name):
        raise BadArchive(f"{shown(name)} holds control characters; rename it")
    if len(parts) == 1:
        raise WrongLayout(
            f"{shown(name)} lies in no folder; put each image into a folder named after its class: class-name/image.jpg"
        )
    if len(parts) > 2:
        raise WrongLayout(
            f"{shown(name)} lies {len(parts) - 1} folders deep, not one; pack from inside the folder that holds the "
            "classes: cd FOLDER && zip -r ../upload.zip ."
        )
    return parts[0], parts[1]


def _is_left_by_a_system(parts: list[str]) -> bool:
    hidden = any(part.startswith(".") for part in parts)
    return hidden or parts[0] == "__MACOSX" or parts[-1].lower() in _LEFT_BY_SYSTEMS
