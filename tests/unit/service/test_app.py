import asyncio
import threading
import time

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from service.api.updates import _taken
from service.api.upload_form import Form
from service.app import create_app, from_environment
from service.domain import Actor
from service.usecases.read_upload import ReceivedFile
from tests.local import local_client
from tests.pictures import picture


def until_ready(client: TestClient) -> None:
    deadline = time.monotonic() + 20
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline, client.get("/readyz").json()
        time.sleep(0.02)


def version_of(client: TestClient) -> int:
    found: int = client.post("/v1/classify", content=picture(0)).json()["data"][0]["version"]
    return found


def test_a_version_that_becomes_active_is_noticed_without_a_restart(settings, request):
    with local_client(create_app(settings.model_copy(update={"poll_seconds": 0.05}))) as client:
        assert client.get("/readyz").status_code == 503
        request.getfixturevalue("home")  # publishes both versions
        until_ready(client)
        while client.get("/readyz").json()["version"] != 2:
            time.sleep(0.02)
        assert version_of(client) == 2


def test_two_processes_on_one_database_follow_each_other(home):
    quick = home.model_copy(update={"poll_seconds": 0.05})
    with local_client(create_app(quick)) as one, local_client(create_app(quick)) as other:
        one.post("/v1/versions/1/activate")
        one.patch("/v1/classes/digit-0", json={"name": "zero"})
        deadline = time.monotonic() + 20
        while version_of(other) != 1 or other.get("/v1/classes/digit-0").json()["name"] != "zero":
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_restart_answers_from_the_version_that_was_active(home):
    with local_client(create_app(home)) as client:
        client.post("/v1/versions/1/activate")
    with local_client(create_app(home)) as client:
        assert version_of(client) == 1


def test_a_swap_is_noticed_although_every_upload_is_slow_to_check(home):
    settings = home.model_copy(update={"poll_seconds": 0.2, "max_uploads": 12, "upload_seconds": 600})
    with local_client(create_app(settings)) as client:
        parts, done = client.app.state.parts, threading.Event()  # type: ignore[attr-defined]
        slow = [parts.upload_pool.submit(done.wait) for _ in range(settings.max_uploads)]
        try:
            parts.versions.activate(1)
            deadline = time.monotonic() + 2
            while parts.slot.version != 1:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert client.post("/v1/classify", content=picture(1)).status_code == 200
            assert client.get("/v1/updates").status_code == 200
            assert not any(job.done() for job in slow)
        finally:
            done.set()


def test_an_upload_whose_request_is_given_up_has_ended_before_its_folder_goes(home, tmp_path):
    settings = home.model_copy(update={"max_image_bytes": 10**7, "max_pixels": 10**7})
    noise = Image.fromarray(np.random.default_rng(5).integers(0, 256, (1000, 1000, 3), np.uint8))
    noise.save(tmp_path / "noise.png")
    files = [ReceivedFile("files", f"{i}.png", tmp_path / "noise.png", 3_000_000) for i in range(40)]
    form, target = Form({"labels": ["noise"] * 40}, files), tmp_path / "target"

    async def given_up(parts) -> None:
        taking = asyncio.create_task(_taken(parts, Actor(None, "test"), form, target, False, None))
        while not list(target.glob("images/*")):
            await asyncio.sleep(0.01)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking

    with local_client(create_app(settings)) as client:
        parts = client.app.state.parts  # type: ignore[attr-defined]
        asyncio.run(given_up(parts))
        written = len(list(target.glob("images/*")))
        assert 0 < written < 40, "it stopped early"
        time.sleep(0.2)
        assert len(list(target.glob("images/*"))) == written, "and nobody writes there any more"
        assert client.get("/v1/updates").json()["data"] == []


def test_a_damaged_version_does_not_keep_the_server_from_answering(home, caplog):
    (home.home / "files/versions/test-2/serving.safetensors").write_bytes(b"short")
    with local_client(create_app(home)) as client:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["version"]) == (503, 1)
        detail = ready.json()["checks"]["model"]["detail"]
        assert "version 2 cannot be loaded" in detail
        assert "serving.safetensors" not in detail, "anybody may read it"
        assert "serving.safetensors" in caplog.text
        assert detail.endswith("version 1 answers instead")
        assert version_of(client) == 1
        assert "zstci_version_not_loaded 1.0" in client.get("/metrics").text
    assert "version_not_loaded" in [getattr(record, "action", None) for record in caplog.records]


def test_an_unreachable_database_does_not_keep_the_server_from_coming_up(settings, caplog):
    unreachable = settings.model_copy(update={"database_url": "postgresql://127.0.0.1:1/nobody"})
    with local_client(create_app(unreachable)) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
    assert "active_not_read" in [getattr(record, "action", None) for record in caplog.records]


@pytest.mark.filterwarnings("error")
def test_the_app_is_made_from_the_environment(settings, monkeypatch):
    monkeypatch.setenv("ZSTCI_HOME", str(settings.home))
    with local_client(from_environment()) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
