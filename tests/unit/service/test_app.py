import time

import pytest
from starlette.testclient import TestClient

from service.app import create_app, from_environment
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
