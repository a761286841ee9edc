"""Immutable versions in a local folder, and one small file that says which of them is active.

home/versions/1/    a snapshot (see zstci.snapshot) and version.json, the facts about it
home/versions/2/
home/active         "2"
home/work/          unfinished work; may be deleted when nothing runs
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from service.domain import Facts, Version
from service.errors import AlreadyLearning, DamagedHome, NoClassesYet, UnknownVersion, VersionChanged
from zstci import Snapshot
from zstci.snapshot import MANIFEST

__all__ = ["VersionStore"]

_FACTS = "version.json"


class VersionStore:
    """Any number of processes may read and write at the same time. Nothing is made before the first write."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work = home / "work"
        self._versions = home / "versions"
        self._active = home / "active"

    def numbers(self) -> list[int]:
        """All versions, oldest first."""
        if not self._versions.is_dir():
            return []
        return sorted(int(path.name) for path in self._versions.iterdir() if path.name.isdecimal())

    def folder(self, number: int) -> Path:
        folder = self._versions / str(number)
        if not folder.is_dir():
            known = self.numbers()
            there = f"there are {known[0]} to {known[-1]}" if known else "there is none yet"
            raise UnknownVersion(f"no version {number}; {there}")
        return folder

    def get(self, number: int) -> Version:
        folder = self.folder(number)
        try:
            stored = json.loads((folder / _FACTS).read_bytes())
            facts = Facts(**stored | {"added": tuple(stored["added"])})
            manifest = json.loads((folder / MANIFEST).read_bytes())
            size = sum(file["bytes"] for file in manifest["files"].values())
            return Version(number, facts, manifest["sha256"], size)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedHome(f"{folder} is no complete version ({error}); restore it from a copy") from error

    def active(self) -> int | None:
        """The active version's number; None where nothing has been activated yet."""
        try:
            content = self._active.read_text()
        except FileNotFoundError:
            return None
        try:
            return int(content)
        except ValueError as error:
            raise DamagedHome(
                f"{self._active} holds {content[:20]!r} instead of a version; run zstci versions activate N"
            ) from error

    def require_active(self) -> int:
        number = self.active()
        if number is None:
            raise NoClassesYet
        return number

    def add(self, snapshot: Snapshot, facts: Facts) -> Version:
        """Store as the next version, whole or not at all. It is not active yet."""
        staged = self.work / f"version-{uuid.uuid4().hex}"
        snapshot.save(staged)
        _write(staged / _FACTS, json.dumps(asdict(facts), indent=1))
        self._versions.mkdir(parents=True, exist_ok=True)
        number = (self.numbers() or [0])[-1] + 1
        while True:
            try:
                # Of two writers that choose the same number only one can rename: a folder with files is never replaced.
                staged.rename(self._versions / str(number))
            except OSError:
                if not (self._versions / str(number)).exists():
                    raise
                number += 1
            else:
                _flush(self._versions)
                return self.get(number)

    def activate(self, number: int, expected: int | None = None) -> None:
        """Make a version the active one. With `expected` only if that one is active still; 0 means none is."""
        self.folder(number)
        with self._locked(self.home / "active.lock"):
            self.check_active(expected)
            _write(self._active, f"{number}\n")

    def check_active(self, expected: int | None) -> None:
        if expected is None:
            return
        active = self.active() or 0
        if active != expected:
            raise VersionChanged(f"version {active} is active by now, not {expected}")

    @contextmanager
    def learning(self) -> Iterator[Path]:
        """The folder for checkpoints, for one learner at a time: each update builds on the last."""
        with self._locked(self.work / "learn.lock", wait=False):
            self._clear_leftovers()
            yield self.work / "checkpoints"

    def _clear_leftovers(self) -> None:
        """Versions that a killed process was writing."""
        for path in [*self.work.glob("version-*"), *self.work.glob(".version-*")]:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _locked(self, path: Path, wait: bool = True) -> Iterator[None]:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The system lets go of the lock when the process ends, however it ends; so a lock file never goes stale.
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise AlreadyLearning(f"another process is learning in {self.home}; wait until it has ended") from error
            yield


def _write(path: Path, content: str) -> None:
    """A reader sees the old content or the new, never a part of it."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with partial.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    _flush(path.parent)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
