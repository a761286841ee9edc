"""Settings by environment: `ZSTCI_PORT=9000 zstci serve`. The README lists them all, and a test sees to it."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from zstci.errors import InvalidConfig

__all__ = ["Settings", "load_settings"]

PREFIX = "ZSTCI_"
_MEBIBYTE = 2**20
_SHORTEST_KEY = 32


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    home: Path = Field(default=Path("zstci-data"), description="Folder of the database, of all files and of work")
    database_url: str = Field(default="", description="SQLAlchemy URL; empty: SQLite in the home")
    artifacts_url: str = Field(default="", description="Versions and uploads: folder or fsspec URL; empty: in the home")
    host: str = Field(default="127.0.0.1", description="Address that the API listens on")
    port: int = Field(default=8000, ge=0, le=65535, description="Port that the API listens on; 0: a free one")
    url: str = Field(default="http://127.0.0.1:8000", description="The service that commands such as `zstci add` ask")
    # repr=False: secrets, which are shown nowhere.
    key: str = Field(default="", repr=False, description="The key that such commands send")
    admin_key: str = Field(
        default="", repr=False, description="A key of scope admin, at least 32 characters, that is stored nowhere"
    )
    insecure: bool = Field(default=False, description="Answer anybody, without keys, on any address")
    open_metrics: bool = Field(default=False, description="Answer `/metrics` without a key")
    cors_origins: str = Field(
        default="", description="Web pages of others that may call, such as https://a.example,https://b.example"
    )
    rate_limit: float = Field(default=0.0, ge=0, description="Requests a second of one key, in each process; 0: any")
    rate_burst: int = Field(default=20, gt=0, description="Requests of one key at once, before that limit holds")
    max_image_bytes: int = Field(default=20 * _MEBIBYTE, gt=0, description="Largest single image, in bytes")
    # Pillow refuses anything above about 179 million pixels by itself.
    max_pixels: int = Field(default=50_000_000, gt=0, le=178_000_000, description="Most pixels of a single image")
    max_images: int = Field(default=64, gt=0, description="Most images in one query")
    max_request_bytes: int = Field(default=100 * _MEBIBYTE, gt=0, description="Largest body of a query, in bytes")
    max_upload_bytes: int = Field(default=4096 * _MEBIBYTE, gt=0, description="Largest update, in bytes")
    max_upload_images: int = Field(default=200_000, gt=0, description="Most images in one update")
    max_classes: int = Field(default=10_000, gt=0, description="Most classes in one update")
    max_ratio: float = Field(
        default=100.0, ge=1, description="How many times its size an archive above 256 MiB may unpack to"
    )
    max_connections: int = Field(default=900, gt=0, description="Connections at once; one more is answered 503")
    header_seconds: float = Field(default=15.0, gt=0, description="Longest time that the headers of a request may take")
    body_seconds: float = Field(default=30.0, gt=0, description="Longest pause within a body before it is given up")
    query_body_seconds: float = Field(
        default=60.0, gt=0, description="Longest time that the whole body of a query may take"
    )
    upload_seconds: float = Field(
        default=3600.0, gt=0, description="Longest time that an update may take to arrive, and again to be checked"
    )
    max_queue: int = Field(default=128, gt=0, description="Queries that wait or run; one more is answered 503")
    query_seconds: float = Field(
        default=10.0, gt=0, description="Longest wait of a query for its turn before it is answered 503"
    )
    max_queue_bytes: int = Field(
        default=512 * _MEBIBYTE, gt=0, description="Bodies of the queries that wait or run, together; beyond that 503"
    )
    max_uploads: int = Field(default=4, gt=0, description="Uploads received at once; one more is answered 503")
    max_streams: int = Field(default=100, gt=0, description="Streams of events at once; one more is answered 503")
    max_waiting: int = Field(
        default=100, gt=0, description="Updates that wait for the worker; one more is answered 503"
    )
    max_attempts: int = Field(default=3, gt=0, description="How often an update that broke down is begun anew")
    lease_seconds: float = Field(
        default=60.0, gt=0, description="Without a sign of life for so long a worker is taken for dead, and replaced"
    )
    stall_seconds: float = Field(
        default=1800.0, gt=0, description="Without progress for so long an update's worker ends itself, to begin anew"
    )
    poll_seconds: float = Field(default=1.0, gt=0, le=60, description="How often a server looks for a new version")
    serve_threads: int = Field(default=0, ge=0, description="Queries computed at the same time; 0: one for each core")
    train_threads: int = Field(default=0, ge=0, description="Threads of the worker; 0: half of the cores")
    train_processes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Processes that learn an update together: one a GPU, or sharing the threads; 0: the worker alone",
    )
    precision: Literal["fp32", "int8"] = Field(
        default="fp32",
        description="Of the net that answers on a CPU; int8 is used where it agrees on 99 % of an update's images",
    )
    worker_id: str = Field(
        default="worker-1", description="Name of a worker; each of several needs its own; empty: the machine's name"
    )
    default_preset: str = Field(default="default", description="Preset of the first update, unless it names one")

    @field_validator("admin_key")
    @classmethod
    def _hard_to_guess(cls, key: str) -> str:
        if key and (len(key) < _SHORTEST_KEY or not all("!" <= letter <= "~" for letter in key)):
            raise ValueError(f"needs at least {_SHORTEST_KEY} characters, of ASCII and without spaces")
        return key

    @field_validator("cors_origins")
    @classmethod
    def _origins_by_name(cls, origins: str) -> str:
        for origin in filter(None, origins.split(",")):
            if not re.fullmatch(r"https?://[^/*\s]+", origin.strip()):
                raise ValueError("needs origins by name, such as https://a.example,https://b.example")
        return origins

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(origin.strip() for origin in self.cors_origins.split(",") if origin.strip())

    @property
    def worker_name(self) -> str:
        """Containers of one service share their settings, but each is a machine with a name of its own."""
        return self.worker_id or socket.gethostname()


def load_settings() -> Settings:
    """The environment's settings; a value that cannot work is named instead of traced."""
    try:
        return Settings()
    except ValidationError as error:
        problems = [
            f"{PREFIX}{name.upper()}={problem['input'] if _may_be_shown(name) else '...'!r}: {problem['msg']}"
            for problem in error.errors()
            for name in [".".join(map(str, problem["loc"]))]
        ]
        # Not `from error`: a trace would show what was given, and that may be a secret.
        raise InvalidConfig("; ".join(problems)) from None


def _may_be_shown(name: str) -> bool:
    return name not in Settings.model_fields or Settings.model_fields[name].repr
