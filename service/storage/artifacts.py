"""Folders of files that all machines must reach: versions and uploads, in a local folder or behind an fsspec URL.

versions/<id>/    an immutable bundle, with its version.json
uploads/<id>/     the images of an update until it has ended, with their upload.json

A folder is there whole or not at all: locally it is renamed into place, elsewhere its .json is written last.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsspec.core import url_to_fs  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from service.config import Settings
from service.errors import BadUpload, CorruptBundle, ServiceError, StorageFull, StorageUnreachable
from service.storage.folders import (
    clear_leftovers,
    files_in,
    move_into_place,
    one_at_a_time,
    remove,
    sibling,
    unfinished,
)
from zstci.errors import InvalidConfig

__all__ = ["Artifacts", "artifacts_url"]

_KEY = re.compile(r"(versions|uploads)/[A-Za-z0-9][A-Za-z0-9_-]*")
_LAST = {"versions": "version.json", "uploads": "upload.json"}  # written last: with it a remote folder is complete
_FULL = {errno.ENOSPC, errno.EDQUOT}
_OURS = (ServiceError, TypeError, ValueError)  # not the storage's fault
# s3fs tries five times by itself; botocore below it would make twenty-five of that, and of a pause an hour.
_S3 = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 10, "retries": {"total_max_attempts": 1}}}
_COPIES = 4  # of remote versions that stay on this disk: more than answer at the same time
_UNUSED_SECONDS = 600.0


class Artifacts:
    """Nothing is made before the first put. `cache` is for copies of remote folders, and may be deleted at any time."""

    def __init__(self, url: str, cache: Path) -> None:
        self.url = url
        self._cache = cache
        try:
            # Other processes write there too, so a remembered listing would be wrong.
            self._fs, self._root = url_to_fs(url, use_listings_cache=False, **(_S3 if url.startswith("s3:") else {}))
        except (ImportError, ValueError) as error:
            raise InvalidConfig(f"ZSTCI_ARTIFACTS_URL={url!r} cannot be used: {error}") from error
        self._is_local = isinstance(self._fs, LocalFileSystem)

    def put(self, folder: Path, key: str) -> None:
        """Move a folder there. It is gone from where it was; what an earlier put of this key left is replaced."""
        last = _LAST[_checked(key).partition("/")[0]]
        if not (folder / last).is_file():
            raise ValueError(f"{folder} has no {last}, so nobody could tell that it is complete")
        with self._explained(f"no room for {key}"):
            if self._is_local:
                clear_leftovers(self._folder(key))
                move_into_place(folder, self._folder(key))
            else:
                self.delete(key)
                self._upload(folder, key, last)
                shutil.rmtree(folder)

    def local(self, key: str) -> Path:
        """A folder on this machine with these files. Do not change them: it may be the only copy."""
        if self._is_local:
            folder = self._folder(_checked(key))
            if not folder.is_dir():
                raise self._missing(key)
            return folder
        folder = self._cache / _checked(key)
        if not folder.is_dir():
            with self._explained(f"no room for a copy of {key}"), one_at_a_time(folder.parent):
                self._download(key, folder)
                self._forget_unused()
        os.utime(folder)  # used
        return folder

    def read(self, key: str, name: str) -> bytes:
        """One file of it, without a copy of all the others."""
        try:
            with self._explained():
                content: bytes = self._fs.cat_file(f"{self._path(key)}/{name}")
        except FileNotFoundError as error:
            raise self._missing(key) from error
        return content

    def exists(self, key: str) -> bool:
        """Whether it is there as a whole."""
        if self._is_local:
            return self._folder(_checked(key)).is_dir()
        with self._explained():
            return self._is_complete(key)

    def delete(self, key: str) -> None:
        """Also what a killed put, copy or delete left of it. No error if it is not there."""
        if self._is_local:
            remove(self._folder(_checked(key)))
        else:
            with self._explained():
                self._delete_remote(key)
            self.forget(key)

    def forget(self, key: str) -> None:
        """Only this machine's copy, whole or begun; what it is a copy of stays."""
        if not self._is_local:
            remove(self._cache / _checked(key))

    def copies(self, kind: str) -> list[str]:
        """The keys that this machine has copies of, whole or begun."""
        if self._is_local:
            return []
        # A hidden one is unfinished: .<id>.<anything>
        names = {path.name.lstrip(".").partition(".")[0] for path in (self._cache / kind).glob("*") if path.is_dir()}
        return sorted(f"{kind}/{name}" for name in names)

    def keys(self, prefix: str) -> list[str]:
        """All that begin with `versions/` or `uploads/`; a remote one may be incomplete, which `exists` tells."""
        kind = prefix.strip("/")
        if kind not in _LAST:
            raise ValueError(f"no keys begin with {prefix!r}; choose one of: {', '.join(f'{name}/' for name in _LAST)}")
        try:
            with self._explained():
                found = self._fs.ls(f"{self._root}/{kind}", detail=False)
        except FileNotFoundError:
            return []
        keys = [f"{kind}/{str(path).rstrip('/').rpartition('/')[2]}" for path in found]
        return sorted(key for key in keys if _KEY.fullmatch(key))

    def unfinished(self, kind: str) -> list[Path]:
        """Hidden folders of this machine: a put, copy or delete that goes on, or that a killed process left."""
        return unfinished((Path(self._root) if self._is_local else self._cache) / kind)

    def probe(self) -> None:
        """Write, read and delete a few bytes; raises what the store raises, of any kind, if that does not work."""
        path, content = f"{self._root}/probe-{uuid.uuid4().hex}", b"zstci"
        self._fs.pipe_file(path, content)
        try:
            if self._fs.cat_file(path) != content:
                raise CorruptBundle(f"{self.url} gives back other bytes than were written")
        finally:
            self._fs.rm_file(path)

    def _folder(self, key: str) -> Path:
        return Path(self._root, key)

    def _path(self, key: str) -> str:
        return f"{self._root}/{_checked(key)}"

    def _is_complete(self, key: str) -> bool:
        return bool(self._fs.exists(f"{self._path(key)}/{_LAST[key.partition('/')[0]]}"))

    def _upload(self, folder: Path, key: str, last: str) -> None:
        names = [name for name in files_in(folder) if name != last]
        for parent in sorted({f"{self._path(key)}/{name}".rpartition("/")[0] for name in [*names, last]}):
            self._fs.makedirs(parent, exist_ok=True)
        for batch in (names, [last]):
            if batch:  # all at once, so that a bucket receives many small images at the same time
                self._fs.put([str(folder / name) for name in batch], [f"{self._path(key)}/{name}" for name in batch])

    def _download(self, key: str, target: Path) -> None:
        if target.is_dir():  # another process was faster
            return
        if not self._is_complete(key):
            raise self._missing(key)
        clear_leftovers(target)
        partial = sibling(target)
        try:
            paths = [str(path) for path in self._fs.find(self._path(key))]
            copies = [partial / path.removeprefix(f"{self._path(key)}/") for path in paths]
            for copy in copies:
                copy.parent.mkdir(parents=True, exist_ok=True)
            self._fs.get(paths, [str(copy) for copy in copies])
            move_into_place(partial, target)
        except FileNotFoundError as error:  # deleted meanwhile
            raise self._missing(key) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _forget_unused(self) -> None:
        """Every version brings a copy, and none of them would ever go."""
        copies = [path for path in (self._cache / "versions").glob("[!.]*") if path.is_dir()]
        last_use = {path: path.stat().st_mtime for path in copies}
        for path in sorted(last_use, key=lambda path: -last_use[path])[_COPIES:]:
            if time.time() - last_use[path] > _UNUSED_SECONDS:
                remove(path)

    def _delete_remote(self, key: str) -> None:
        last = f"{self._path(key)}/{_LAST[key.partition('/')[0]]}"
        # The sign of completeness goes first: nobody may take a half deleted folder for a whole one.
        if self._fs.exists(last):
            self._fs.rm_file(last)
        if self._fs.exists(self._path(key)):
            self._fs.rm(self._path(key), recursive=True)

    def _missing(self, key: str) -> ServiceError:
        if key.startswith("uploads/"):
            return BadUpload(f"the images of this update ({key}) are not in {self.url} any more; send them again")
        return CorruptBundle(f"{key} is not in {self.url}; restore it from a copy, or activate another version")

    @contextmanager
    def _explained(self, no_room: str = "no room") -> Iterator[None]:
        """Every storage has errors of its own kind, which need not even be OSErrors."""
        try:
            yield
        except (*_OURS, FileNotFoundError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise StorageFull(f"{no_room} in {self.url} ({error.strerror}); free some and try again") from error
            if self._is_local:
                raise
            said = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
            raise StorageUnreachable(
                f"{self.url} does not answer or refuses us ({said}); see that it runs, and that ZSTCI_ARTIFACTS_URL "
                "and the keys in the environment are right"
            ) from error


def artifacts_url(settings: Settings) -> str:
    return settings.artifacts_url or str(settings.home.absolute() / "files")


def _checked(key: str) -> str:
    """Deleting must never reach outside."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key; write versions/ID or uploads/ID")
    return key
