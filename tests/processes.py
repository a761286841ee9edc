"""Real processes: the `zstci` command that pip installed, on a home and a database of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import httpx

from service.storage.database import Database
from service.storage.versions import VersionStore
from tests.pictures import TINY
from zstci import Snapshot

__all__ = ["COMMAND", "LONG", "NET", "PATIENCE", "Api", "Program", "Service", "children", "wait_until"]

Program = Sequence[str | Path]
COMMAND = Path(sys.executable).with_name("zstci")
# Seconds, for a machine that has other things to do; nothing here measures time. PATIENCE=600 for a very busy one.
PATIENCE = float(os.environ.get("PATIENCE", "120"))
NET = {name: str(value) for name, value in TINY.items()}
LONG = {"regularizer": "finetune", "translator": "linear", "trainable": "all", "epochs": "40"}


def wait_until(condition: Callable[[], Any], what: str = "") -> Any:
    """What it answered at last."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain {what}"
        time.sleep(0.05)
    return found


def children(pid: int) -> dict[str, int]:
    """The processes below `zstci serve`, by their command."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue  # it ended meanwhile
        if parent == pid and "service.cli" in words:
            found[words[words.index("service.cli") + 1]] = int(entry.name)
    return found


class Api:
    """One API process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def version(self) -> int | None:
        return self.http.get("/readyz").json()["version"]

    def get(self, path: str, status: int = 200) -> Any:
        response = self.http.get(path)
        assert response.status_code == status, response.text
        return response.json()

    def post(self, path: str, status: int, **how: Any) -> Any:
        response = self.http.post(path, **how)
        assert response.status_code == status, response.text
        return response.json()

    def add(self, archive: bytes, **options: str) -> str:
        """The id of the accepted update."""
        accepted = self.post("/v1/updates", 202, files={"archive": ("classes.tar", archive)}, data=options)
        return str(accepted["id"])

    def ended(self, update: str) -> Any:
        def look() -> Any:
            entry = self.get(f"/v1/updates/{update}")
            return entry if entry["state"] in ("succeeded", "failed", "cancelled") and entry["purged_at"] else None

        return wait_until(look, f"for update {update}: {self.log}")

    def events(self, update: str) -> list[tuple[int, str, Any]]:
        """(id, kind, data) of an update that has ended, as they are streamed."""
        found: list[tuple[int, str, Any]] = []
        event: dict[str, str] = {}
        for line in self.http.get(f"/v1/updates/{update}/events").text.splitlines():
            if line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif event.get("data"):
                found.append((int(event["id"]), event["event"], json.loads(event["data"])))
                event = {}
        return found

    def learn(self, archive: bytes, **options: str) -> Any:
        """A successful update, answering here."""
        entry = self.ended(self.add(archive, **options))
        assert entry["state"] == "succeeded", entry
        if entry["options"]["activate"] == "auto":
            wait_until(lambda: self.version() == entry["version"])
        return entry


class Service:
    """Processes on one home and one database; one torch thread each, so that tests do not fight for cores."""

    def __init__(self, home: Path, database_url: str) -> None:
        self.home, self.database_url = home, database_url
        self.temporary = home.with_name(f"{home.name}-tmp")  # theirs alone, so that one sees what they leave there
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ZSTCI_")},
            "ZSTCI_HOME": str(home),
            "ZSTCI_DATABASE_URL": database_url,
            "ZSTCI_SERVE_THREADS": "2",
            "TMPDIR": str(self.temporary),
            "OMP_NUM_THREADS": "1",
        }
        self._started: list[subprocess.Popen[str]] = []
        self._apis: list[Api] = []
        self._logs = 0

    def start(
        self, *arguments: object, program: Program = (COMMAND,), log: IO[str] | int = subprocess.PIPE, **more: str
    ) -> subprocess.Popen[str]:
        """`program` is what runs instead of `zstci`; `more` are variables of its environment."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [*program, *map(str, arguments)],
            env=self._environment | more,
            stdout=log,
            stderr=log,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: object, code: int = 0, **more: str) -> tuple[str, str]:
        """What it printed and what it complained about."""
        process = self.start(*arguments, log=subprocess.PIPE, **more)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, err
        return out, err

    def serve(self, command: str = "serve", program: Program = (COMMAND,), **more: str) -> Api:
        """`zstci serve` or `zstci api` on a free port, up."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with self._log() as log:  # a file, because a pipe that nobody reads fills up and then blocks the server
            api = Api(self.start(command, "--port", port, program=program, log=log, **more), port, Path(log.name))
        self._apis.append(api)
        wait_until(api.answers, str(api.log))
        return api

    def worker(self, program: Program = (COMMAND,), **more: str) -> subprocess.Popen[str]:
        with self._log() as log:
            return self.start("worker", program=program, log=log, **more)

    def snapshot(self, version: int) -> Snapshot:
        database = Database(self.database_url)
        try:
            bundle = VersionStore(database).get(version).bundle
        finally:
            database.close()
        return Snapshot.load(self.home / "files" / bundle)

    def images_left(self) -> list[Path]:
        """Everything below the home that is an image, or that holds uploads or unfinished work."""
        folders = [self.home / "files" / "uploads", self.home / "work"]
        found = [path for folder in folders if folder.is_dir() for path in folder.rglob("*") if path.is_file()]
        return [path for path in found if path.suffix != ".lock"]  # which is empty, and goes with the next process

    def end(self) -> None:
        for api in self._apis:
            api.http.close()
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=30)
            if process.poll() is None:
                process.kill()
                process.communicate()

    def _log(self) -> IO[str]:
        self._logs += 1
        self.home.mkdir(parents=True, exist_ok=True)
        return (self.home / f"log-{self._logs}.txt").open("w")
