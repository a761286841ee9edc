"""Settings by environment: `ZSTCI_PORT=9000 zstci serve`. The README lists them all, and a test sees to it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from zstci.errors import InvalidConfig

__all__ = ["Settings", "load_settings"]

PREFIX = "ZSTCI_"
_MEBIBYTE = 2**20


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    home: Path = Field(default=Path("zstci-data"), description="Folder of the versions and of unfinished work")
    host: str = Field(default="127.0.0.1", description="Address that `zstci serve` listens on")
    port: int = Field(default=8000, ge=0, le=65535, description="Port that `zstci serve` listens on; 0: a free one")
    max_image_bytes: int = Field(default=20 * _MEBIBYTE, gt=0, description="Largest image in a query, in bytes")
    # Pillow refuses anything above about 179 million pixels by itself.
    max_pixels: int = Field(default=50_000_000, gt=0, le=178_000_000, description="Most pixels of an image in a query")
    max_images: int = Field(default=64, gt=0, description="Most images in one query")
    max_request_bytes: int = Field(default=100 * _MEBIBYTE, gt=0, description="Largest body of a query, in bytes")
    poll_seconds: float = Field(default=1.0, gt=0, description="How often a server looks for a newly activated version")
    threads: int = Field(default=0, ge=0, description="Queries computed at the same time; 0: one for each core")


def load_settings() -> Settings:
    """The environment's settings; a value that cannot work is named instead of traced."""
    try:
        return Settings()
    except ValidationError as error:
        problems = [
            f"{PREFIX}{'.'.join(map(str, problem['loc'])).upper()}={problem['input']!r}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise InvalidConfig("; ".join(problems)) from error
