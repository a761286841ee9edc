"""A real service with one version, for strangers to be rude to: whatever they do, the next one finds it as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pictures import archive
from tests.processes import NET, PATIENCE, Api, Service

SMALL = {
    "ZSTCI_MAX_UPLOAD_BYTES": str(2**22),
    "ZSTCI_MAX_REQUEST_BYTES": str(2**20),
    "ZSTCI_MAX_IMAGE_BYTES": str(2**18),
    "ZSTCI_MAX_PIXELS": str(10**6),
    "ZSTCI_MAX_UPLOAD_IMAGES": "200",
    "ZSTCI_MAX_CLASSES": "20",
    "ZSTCI_MAX_WAITING": "20",
}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    service = Service(home, f"sqlite:///{home.parent / 'zstci.db'}")
    yield service
    service.end()


def with_three_classes(service: Service, **more: str) -> Api:
    """Its worker has learnt digits 0 to 2 and is gone: an accepted update waits, and costs nothing."""
    api = service.serve("api", **SMALL, **more)
    if key := more.get("ZSTCI_ADMIN_KEY"):
        api.http.headers["Authorization"] = f"Bearer {key}"
    worker = service.worker()
    api.learn(archive([0, 1, 2], count=4), **NET)
    worker.send_signal(signal.SIGTERM)
    worker.wait(PATIENCE)
    return api


@pytest.fixture(scope="session")
def api(service: Service) -> Api:
    return with_three_classes(service)


def left_behind(service: Service, api: Api) -> list[Path]:
    """What is on disk after every update that waits was cancelled."""
    for update in api.get("/v1/updates?state=queued&limit=1000")["data"]:
        api.post(f"/v1/updates/{update['id']}/cancel", 202)
    return service.images_left()
