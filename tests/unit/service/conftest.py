"""Two real versions of a tiny net, learnt once, published in a database, and clients on them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.bootstrap import Parts
from service.config import Settings
from service.domain import Facts
from service.serving import bundle
from service.storage.artifacts import Artifacts, artifacts_url
from service.storage.database import Database, database_url
from service.storage.prepare import migrate
from service.storage.versions import NewVersion, VersionStore
from tests.local import local_client
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


@pytest.fixture(scope="session")
def bundles(snapshots: tuple[Snapshot, Snapshot], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of both versions, written once: exporting an engine takes a second."""
    folder = tmp_path_factory.mktemp("bundles")
    for number, snapshot in enumerate(snapshots, start=1):
        bundle.write(snapshot, folder / str(number), {})
    return folder


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with empty databases, migrated once: that takes longer than most tests."""
    home = tmp_path_factory.mktemp("tables")
    migrate(Settings(home=home))
    return home


@pytest.fixture
def settings(tmp_path: Path, tables: Path) -> Settings:
    """Small limits, so that tests can go beyond them, and a database with tables."""
    settings = Settings(
        home=tmp_path / "home",
        max_image_bytes=2000,
        max_request_bytes=6000,
        max_images=4,
        max_pixels=1_000_000,
        max_upload_bytes=200_000,
        max_upload_images=50,
        max_classes=8,
        serve_threads=1,
    )
    shutil.copytree(tables, settings.home)
    return settings


@pytest.fixture
def home(settings: Settings, bundles: Path) -> Settings:
    """Version 1 with three classes and version 2 with five, which is active."""
    database = Database(database_url(settings))
    versions, artifacts = VersionStore(database), Artifacts(artifacts_url(settings), settings.home / "cache")
    names = {f"digit-{digit}": f"digit-{digit}" for digit in range(5)}
    for number, classes in ((1, 3), (2, 5)):
        shutil.copytree(bundles / str(number), settings.home / "work" / "copy")
        sha256 = bundle.verify(settings.home / "work" / "copy").sha256
        artifacts.put(settings.home / "work" / "copy", f"versions/test-{number}")
        new = NewVersion(number - 1 or None, "update", f"versions/test-{number}", sha256, 1000, _facts(classes), None)
        versions.publish(new, expected=number - 1 or None, activate=True, names=names)
    database.close()
    return settings


def _facts(classes: int) -> Facts:
    return Facts(0.5, 1, classes, ("digit-0",), 18, "resnet32", "frozen", "none", "whitened", "onnx")


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    """The API on both versions. No worker runs: updates wait."""
    with local_client(create_app(home), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def parts(client: TestClient) -> Parts:
    """What is behind `client`."""
    return client.app.state.parts  # type: ignore[attr-defined]


@pytest.fixture
def empty_client(settings: Settings) -> Iterator[TestClient]:
    with local_client(create_app(settings), raise_server_exceptions=False) as client:
        yield client
