"""A version's folder: all that a server needs to answer, and all that the next update builds on. Never changed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.errors import CorruptBundle, StorageFull
from service.serving.engine import EngineName, Pixels
from service.serving.index import PrototypeIndex
from service.serving.index_choice import IndexFacts, threads
from service.serving.parent import Parent, index_of
from zstci.errors import InvalidConfig
from zstci.manifest import read as read_manifest

if TYPE_CHECKING:
    from zstci import Snapshot

__all__ = ["ENGINE", "FORMAT", "INDEX", "NAMES", "VERSION", "Manifest", "Written", "verify", "write"]

FORMAT = 1
ENGINE, INDEX, VERSION = "engine.onnx", "index.faiss", "version.json"
# Class id -> name when the version was made, for who finds the folder without its database, which knows of renames. Not
# for servers: to parse a million names keeps every query of the process waiting for a second.
NAMES = "names.json"
_CURE = "restore the folder from a copy, or activate another version"


@dataclass(frozen=True)
class Written:
    sha256: str  # of version.json, which holds those of the files
    bytes: int
    engine: EngineName
    index: IndexFacts
    agreement: float | None = None  # of 8 bits with 32, where 8 were asked for


@dataclass(frozen=True)
class Manifest:
    engine: EngineName
    sha256: str
    index: IndexFacts | None  # None in versions from before it was recorded, which are all searched exactly
    engine_sha256: str | None = None  # None where torch answers, which has no file
    content: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)  # of the index, where it is kept


def write(
    snapshot: Snapshot,
    folder: Path,
    class_names: dict[str, str],
    *,
    engine_of: Path | None = None,
    parent: Parent | None = None,
    saved: Path | None = None,
    eight_bits_for: Pixels | None = None,
    between: Callable[[], None] = lambda: None,
) -> Written:
    """The whole folder, on disk for good, or none of it. One that exists is refused: it may be answering queries.

    `engine_of` is the folder of a version with the same net, whose engine is taken over. `parent` is what the snapshot
    was made from: most of its index is taken over. `saved` is where this snapshot is on the same disk already. With
    `eight_bits_for` the engine is one in 8 bits, if that gives these images the same classes. `between` is called
    between two pieces of the work, and may raise to stop it."""
    if folder.exists():
        raise InvalidConfig(f"{folder} exists already; a version is never overwritten, choose another folder")
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    for leftover in folder.parent.glob(f"*.{folder.name}.partial-*"):  # of a writer that was killed
        shutil.rmtree(leftover)
    try:
        with _full_disk_named(folder):
            _place(snapshot, partial, saved)
            written = _fill(snapshot, partial, class_names, engine_of, parent, eight_bits_for, between)
        partial.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return written


def verify(folder: Path, sha256: str | None = None, keep_index: bool = False) -> Manifest:
    """Read every byte once, before any of it is used. `sha256` is what the folder's `Written` said. With `keep_index`
    the largest file stays in memory, for who has the room and reads it next."""
    content = _read_version(folder)
    if sha256 not in (None, content["sha256"]):
        raise CorruptBundle(f"{folder} is whole, but another version than the one that was published here; {_CURE}")
    # Hidden files are those of file systems and file managers.
    present = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {VERSION}
    for name in sorted(present - set(content["files"])):
        raise CorruptBundle(f"{folder / name} is none of this version's files; remove it, or {_CURE}")
    for name, facts in content["files"].items():
        if not (keep_index and name == INDEX and name in present):
            _check_file(folder / name, facts, name in present)
    kept = _checked_content(folder / INDEX, content["files"][INDEX]) if keep_index else None
    index = IndexFacts(**content["index"]) if "index" in content else None
    engine = content["files"].get(ENGINE, {}).get("sha256")
    return Manifest(content["engine"], content["sha256"], index, engine, kept)


def _fill(
    snapshot: Snapshot,
    folder: Path,
    class_names: dict[str, str],
    engine_of: Path | None,
    parent: Parent | None,
    eight_bits_for: Pixels | None,
    between: Callable[[], None],
) -> Written:
    engine = _write_engine(snapshot, folder / ENGINE, engine_of, parent, between)
    between()
    found = _write_index(snapshot, folder / INDEX, parent, between)
    index, agreement = found.facts, None
    between()
    if eight_bits_for is not None and engine == "onnx":
        engine, agreement = _in_eight_bits(folder / ENGINE, eight_bits_for, found, between)
    names = {name: class_names.get(name, name) for name in snapshot.prototypes.ids}
    (folder / NAMES).write_text(json.dumps(names), encoding="utf-8")
    content: dict[str, Any] = {
        "format": FORMAT,
        "engine": engine,
        "index": asdict(index),
        "files": _all_facts(folder),
    }
    content["sha256"] = _digest(content)
    (folder / VERSION).write_text(json.dumps(content, indent=1), encoding="utf-8")
    for path in [*folder.iterdir(), folder]:
        _sync(path)
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Written(content["sha256"], size, engine, index, agreement)


def _place(snapshot: Snapshot, folder: Path, saved: Path | None) -> None:
    """Files never change once they are written, so two folders may share them."""
    if saved is None:
        snapshot.save(folder)
        return
    folder.mkdir(parents=True)
    for path in saved.iterdir():
        try:
            os.link(path, folder / path.name)
        except OSError:  # a file system without links
            shutil.copyfile(path, folder / path.name)


def _all_facts(folder: Path) -> dict[str, Any]:
    """What the snapshot says of its own files was computed when they were written."""
    known = read_manifest(folder)["files"]
    return {path.name: known.get(path.name) or _facts(path) for path in sorted(folder.iterdir())}


def _write_engine(
    snapshot: Snapshot, path: Path, engine_of: Path | None, parent: Parent | None, between: Callable[[], None]
) -> EngineName:
    if engine_of is not None:
        engine = verify(engine_of).engine
        if engine != "torch":
            shutil.copyfile(engine_of / ENGINE, path)
        return engine
    from service.serving.export import export, still_right  # torch, which only who writes needs

    if parent is not None and parent.engine == "onnx" and parent.has_net_of(snapshot):
        with suppress(FileNotFoundError):  # a copy of a bucket's, which may be cleared away at any time
            shutil.copyfile(parent.folder / ENGINE, path)
            if _facts(path)["sha256"] == parent.engine_sha256 and still_right(snapshot, path, between):
                return parent.engine
    return export(snapshot, path, between)


def _in_eight_bits(
    path: Path, pixels: Pixels, index: PrototypeIndex, between: Callable[[], None]
) -> tuple[EngineName, float]:
    from service.serving.quantize import LEAST_AGREEMENT, quantize  # onnx's own tools, a second to import

    agreement = quantize(path, pixels, index, between)
    return ("onnx-int8" if agreement >= LEAST_AGREEMENT else "onnx"), agreement


def _write_index(snapshot: Snapshot, path: Path, parent: Parent | None, between: Callable[[], None]) -> PrototypeIndex:
    """Built here, in the process that learns, with as many threads as that may use; servers only read it."""
    import torch

    from zstci.hearing import aside

    def build() -> PrototypeIndex:
        with threads(torch.get_num_threads()):
            return index_of(snapshot, parent)

    index = aside(build, between)  # lists of a million classes take a minute
    index.write(path)
    return index


@contextmanager
def _full_disk_named(folder: Path) -> Iterator[None]:
    """By its text: safetensors and FAISS raise errors of their own, without the system's number."""
    try:
        yield
    except Exception as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise StorageFull(f"no room left on the disk of {folder}; free some and try again") from error


def _read_version(folder: Path) -> dict[str, Any]:
    path = folder / VERSION
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise CorruptBundle(
                f"{folder} has format {content['format']}, this program reads {FORMAT}; use the one that wrote it"
            )
        if content["sha256"] != _digest(content):
            raise CorruptBundle(f"{path} was altered; {_CURE}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorruptBundle(f"{folder} has no {VERSION}: no version, or an incomplete one; {_CURE}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptBundle(f"{path} cannot be read ({error}); {_CURE}") from error
    return content


def _check_file(path: Path, expected: dict[str, Any], present: bool) -> None:
    if not present:
        raise CorruptBundle(f"{path} is missing; {_CURE}")
    _compare(path, expected, _facts(path))


def _checked_content(path: Path, expected: dict[str, Any]) -> NDArray[np.uint8]:
    content = np.fromfile(path, dtype=np.uint8)
    _compare(path, expected, {"sha256": hashlib.sha256(content.data).hexdigest(), "bytes": content.nbytes})
    return content


def _compare(path: Path, expected: dict[str, Any], found: dict[str, Any]) -> None:
    if found["bytes"] != expected["bytes"]:
        raise CorruptBundle(f"{path} has {found['bytes']} bytes instead of {expected['bytes']}; {_CURE}")
    if found["sha256"] != expected["sha256"]:
        raise CorruptBundle(f"{path} was altered (its sha256 does not match); {_CURE}")


def _facts(path: Path) -> dict[str, Any]:
    with open(path, "rb") as content:
        return {"sha256": hashlib.file_digest(content, "sha256").hexdigest(), "bytes": path.stat().st_size}


def _digest(content: dict[str, Any]) -> str:
    signed = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
