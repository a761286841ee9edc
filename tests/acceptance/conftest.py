"""A service of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Service


@pytest.fixture
def service(tmp_path: Path, tables_url: str) -> Iterator[Service]:
    """On SQLite and on Postgres; nothing runs yet, and our tables are there."""
    service = Service(tmp_path / "home", tables_url)
    yield service
    service.end()


@pytest.fixture
def sqlite_service(tmp_path: Path, sqlite_url: str) -> Iterator[Service]:
    service = Service(tmp_path / "home", sqlite_url)
    yield service
    service.end()
