"""Local folders that appear and vanish as a whole, and survive a power cut once they are there.

Unfinished work is a hidden sibling, `.<name>.<anything>`. Whoever works on the same name next clears it; what nobody
works on any more is for the sweeper to find.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "clear",
    "clear_leftovers",
    "files_in",
    "last_change",
    "move_into_place",
    "one_at_a_time",
    "remove",
    "sibling",
    "unfinished",
]

_MANY = 64  # files; to flush the whole disk once is faster then than to wait for each of them
_THERE = {errno.EEXIST, errno.ENOTEMPTY}


def files_in(folder: Path) -> list[str]:
    """Paths of all files, relative to it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def sibling(target: Path) -> Path:
    """A name for unfinished work on the target."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}")


def move_into_place(folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _flush(folder)
    try:
        _rename_over(folder, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_into_place(folder, target)
    _flush_entry(target.parent)


def remove(target: Path) -> None:
    """The name is free at once, so that a killed process leaves no half folder under it."""
    clear_leftovers(target)
    doomed = sibling(target)
    try:
        target.rename(doomed)
    except FileNotFoundError:
        return  # it was never there, or another process was faster
    clear(doomed)
    _flush_entry(target.parent)


def clear_leftovers(target: Path) -> None:
    for path in target.parent.glob(f".{target.name}.*"):
        clear(path)


def unfinished(parent: Path) -> list[Path]:
    """Hidden folders: of work that goes on, or that a killed process left."""
    return sorted(path for path in parent.glob(".*.*") if path.is_dir())


def last_change(folder: Path) -> float:
    """When anything in it last came, went or grew, in seconds since 1970. Not by mtime, which a copy takes over."""
    newest = 0.0
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):  # it is being deleted
            newest = max(newest, path.lstat().st_ctime)
    return newest


def clear(folder: Path) -> None:
    """Another process may be at the same: what is gone already is as good as deleted."""

    def ignore(function: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
        if not isinstance(error[1], FileNotFoundError):
            raise error[1]

    shutil.rmtree(folder, onerror=ignore)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Of all threads and processes. The system lets go of the lock when a process ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _rename_over(folder: Path, target: Path) -> None:
    """A folder with files is never replaced by a rename, so the old one has to go first."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in _THERE:
            raise
        old = sibling(target)
        target.rename(old)
        folder.rename(target)
        shutil.rmtree(old)


def _copy_into_place(folder: Path, target: Path) -> None:
    """From another disk. The original stays until the copy is there."""
    copy = sibling(target)
    try:
        shutil.copytree(folder, copy)
        _flush(copy)
        _rename_over(copy, target)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    shutil.rmtree(folder)


def _flush(folder: Path) -> None:
    paths = list(folder.rglob("*"))
    if len(paths) > _MANY:
        os.sync()
        return
    for path in [*paths, folder]:
        _flush_entry(path)


def _flush_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
