"""Keeps an API process and a worker running."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from service.signals import stop_event

__all__ = ["end_with_parent", "supervise"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 9.5
_CANNOT_START = (2, 3)  # our own refusal, and uvicorn's: a port that is taken, say
_HEALTHY_SECONDS = 10.0  # who lived this long did not die of its own start


class _Life:
    """Whether a file is touched again and again. Who never began to touch it is not missed."""

    def __init__(self, file: Path, patience: float) -> None:
        self._file, self._patience = file, patience
        self.begin()

    def begin(self) -> None:
        self._touched, self._signs, self._since = self._last_touch(), 0, time.monotonic()

    def has_stopped(self, now: float) -> bool:
        touched = self._last_touch()
        if touched != self._touched:
            self._touched, self._signs, self._since = touched, self._signs + 1, now
        return self._signs > 1 and now - self._since > self._patience

    def _last_touch(self) -> int:
        try:
            return self._file.stat().st_mtime_ns
        except OSError:
            return 0


class _Child:
    def __init__(self, name: str, *arguments: str, life: _Life | None = None) -> None:
        self.name, self._arguments, self._life = name, arguments, life
        self._pause, self._not_before = 0.5, 0.0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "service.cli", self.name, "--with-parent", *self._arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)  # never written to: it ends when we do
        self.started = time.monotonic()
        if self._life is not None:
            self._life.begin()

    def mind(self) -> None:
        """Start it again if it died, with longer and longer pauses if it keeps dying. End it if it stands still."""
        code, now = self.process.poll(), time.monotonic()
        if code is None:
            if self._life is not None and self._life.has_stopped(now):
                logger.error("Process stands still", extra={"action": "process_hangs", "which": self.name})
                self.process.kill()
                self.process.wait()
            return
        if not self._not_before:
            self._pause = 0.5 if now - self.started > _HEALTHY_SECONDS else min(2 * self._pause, 30.0)
            self._not_before = now + self._pause
            about = {"action": "process_ended", "which": self.name, "code": code, "again_in": self._pause}
            logger.log(logging.ERROR if code else logging.INFO, "Process ended", extra=about)
        elif now >= self._not_before:
            self._not_before = 0.0
            self.start()


def supervise(host: str, port: int, life: Path, patience: float, insecure: bool = False) -> int:
    """Until SIGTERM or SIGINT, or until the API cannot even start: waiting does not free a port that is taken.

    `life` is what the worker touches, `patience` the seconds without that after which it is replaced."""
    stop = stop_event()
    api = _Child("api", "--host", host, "--port", str(port), *(["--insecure"] if insecure else []))
    worker = _Child("worker", life=_Life(life, patience))
    first = api.process
    try:
        while not stop.wait(_LOOK_SECONDS):
            if api.process is first and first.poll() in _CANNOT_START:
                return first.returncode
            api.mind()
            worker.mind()
        return 0
    finally:
        _end([api, worker])


def end_with_parent() -> None:
    """In a child: stop in an orderly way when the supervisor is gone, even if it was killed. Otherwise its successor
    would find the port taken and the worker's name in use."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # not through sys.stdin, whose lock would be in the way of an orderly exit
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="parent").start()


def _end(children: list[_Child]) -> None:
    for child in children:
        if child.process.poll() is None:
            child.process.terminate()
    deadline = time.monotonic() + _GRACE_SECONDS
    for child in children:
        try:
            child.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
