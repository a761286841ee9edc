"""SQLite has one lock for whoever writes, and no server that takes it back. A worker that stands still within a
transaction would keep it for ever, so one of the others ends that worker, as `kill -9` would.

Nobody else is ever ended: only a process that says of itself, in its sign of life, that it is a worker here; that runs
on this machine since the moment it says; that shows no more signs; and only while the lock is held.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import make_url

from service.config import Settings
from service.storage.database import database_url
from service.storage.jobs import jobs_url

__all__ = ["Process", "Watch", "watch"]

logger = logging.getLogger(__name__)

_LOOKS = 6  # in the time of a lease; signs of life come as often
_LONGEST_WAIT = 5.0  # seconds, for a lock that may be in use for a moment only


@dataclass(frozen=True)
class Process:
    """A process that no other can be mistaken for: numbers of processes are used again, times of birth are not."""

    machine: str
    pid: int
    started: int  # in ticks since the machine was
    lease_seconds: float

    @classmethod
    def this(cls, lease_seconds: float) -> Process | None:
        """None where the system does not tell, which is anywhere but on Linux."""
        try:
            return cls(_machine(), os.getpid(), _started(os.getpid()), lease_seconds)
        except OSError:
            return None

    @classmethod
    def read(cls, file: Path) -> Process | None:
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None  # being written, or of a system that does not tell

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def lives_here(self) -> bool:
        try:
            return self.machine == _machine() and self.started == _started(self.pid)
        except OSError:
            return False

    def kill(self) -> bool:
        """False if it has ended by itself."""
        try:
            # A handle on the process, not its number: that may be another one's a moment later.
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.lives_here():
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        finally:
            os.close(handle)


class Watch:
    def __init__(self, settings: Settings) -> None:
        self._home, self._lease = settings.home, settings.lease_seconds
        self._files = _files(settings)
        self._still: dict[Path, tuple[int, int]] = {}  # when it was touched, and at how many looks since then

    def look(self) -> None:
        """Counted in looks, not in time: all of us may have stood still together, as a laptop does that is shut."""
        for sign in self._home.glob("worker-*.lock"):
            touched = _touched(sign)
            before, looks = self._still.get(sign, (touched, 0))
            self._still[sign] = (touched, looks + 1 if touched == before else 0)
            worker = Process.read(sign)
            if worker is None or worker.pid == os.getpid() or not worker.lives_here():
                continue
            if self._still[sign][1] * self._lease / _LOOKS > max(self._lease, worker.lease_seconds):
                self._end_if_in_the_way(worker, sign)

    def _end_if_in_the_way(self, worker: Process, sign: Path) -> None:
        patience = min(self._lease / _LOOKS, _LONGEST_WAIT)
        held = [file.name for file in self._files if _is_held(file, patience) and _may_hold(worker.pid, file)]
        if not held or _touched(sign) != self._still[sign][0]:
            return
        about = {"action": "stopped_worker_killed", "pid": worker.pid, "held": held}
        try:
            if worker.kill():
                logger.error("A worker stood still and held the database; killed", extra=about)
        except PermissionError as error:
            about |= {"action": "stopped_worker_in_the_way", "reason": str(error)}
            logger.error("A worker stands still and holds the database; kill it", extra=about)  # noqa: TRY400


def watch(settings: Settings) -> None:
    """For as long as this process lives. From a thread of its own: the others may wait for that very lock."""
    if not database_url(settings).startswith("sqlite") or not hasattr(os, "pidfd_open"):
        return
    about = Watch(settings)

    def go_on() -> None:
        while True:
            time.sleep(settings.lease_seconds / _LOOKS)
            with suppress(OSError):  # a home that is away for a while
                about.look()

    threading.Thread(target=go_on, daemon=True, name="standstill").start()


def _files(settings: Settings) -> list[Path]:
    """Our tables' and the job queue's."""
    return [Path(str(make_url(url).database)) for url in (database_url(settings), jobs_url(settings))]


def _is_held(file: Path, patience: float) -> bool:
    try:
        uri = f"file:{quote(str(file))}?mode=rw"  # never made anew
        with closing(sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    except sqlite3.DatabaseError:
        return False
    return False


def _may_hold(pid: int, file: Path) -> bool:
    """Not where the system knows that it is another process that does: a backup, a shell, an API that stands still."""
    try:
        ours = {str(path.stat().st_ino) for path in (file, Path(f"{file}-shm")) if path.exists()}
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return True
    holders = {
        int(lock[4]) for lock in locks if lock[1] != "->" and lock[3] == "WRITE" and lock[5].rpartition(":")[2] in ours
    }
    # Nobody: it was let go of just now, or is held from another container; unless the system shows no lock at all.
    return not locks or pid in holders


def _touched(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _machine() -> str:
    """Since it was switched on, and which numbers of processes are meant: each container has its own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _started(pid: int) -> int:
    # The name of a program may hold anything, brackets and spaces too.
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])
