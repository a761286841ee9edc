"""Two real versions of a tiny net, learnt once, and a store and a client on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.config import Settings
from service.domain import Facts
from service.storage.versions import VersionStore
from tests.pictures import TINY, save_digits
from zstci import Snapshot, TaskData, learn, preset


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Snapshot]:
    folder = tmp_path_factory.mktemp("digits")
    config = preset("default").override(**TINY)
    first = learn(None, TaskData.from_folder(save_digits(folder / "first", [0, 1, 2])), config)
    moved = config.override(**{"regularizer": "finetune", "translator": "linear", "train.epochs": 2})
    second = learn(first, TaskData.from_folder(save_digits(folder / "second", [3, 4])), moved)
    return first, second


@pytest.fixture
def facts() -> Facts:
    return Facts(0, "2026-11-18T03:00:00+00:00", 0.5, 1, 3, ("digit-0",), 18, "resnet32", "frozen", "none", "whitened")


@pytest.fixture
def store(tmp_path: Path, snapshots: tuple[Snapshot, Snapshot], facts: Facts) -> VersionStore:
    """Version 1 with three classes and version 2 with five, which is active."""
    store = VersionStore(tmp_path / "home")
    for snapshot in snapshots:
        store.add(snapshot, facts)
    store.activate(2)
    return store


@pytest.fixture
def client(store: VersionStore) -> Iterator[TestClient]:
    settings = Settings(
        home=store.home, max_image_bytes=2000, max_request_bytes=6000, max_images=4, max_pixels=1_000_000, threads=1
    )
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def empty_client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(home=tmp_path / "nothing", threads=1))) as client:
        yield client
