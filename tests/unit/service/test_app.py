import time

from starlette.testclient import TestClient

from service.app import create_app
from service.config import Settings
from tests.pictures import picture


def test_a_version_that_becomes_active_is_noticed_without_a_restart(store):
    (store.home / "active").unlink()
    settings = Settings(home=store.home, poll_seconds=0.05, threads=1)
    with TestClient(create_app(settings)) as client:
        assert client.get("/readyz").status_code == 503
        store.activate(1)
        while client.get("/readyz").status_code != 200:
            time.sleep(0.05)
        assert client.post("/v1/classify", content=picture(0)).json()["data"][0]["version"] == 1


def test_an_unreadable_home_does_not_keep_the_server_from_coming_up(store, caplog):
    (store.home / "active").write_text("two")
    with TestClient(create_app(Settings(home=store.home, threads=1))) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        assert client.get("/v1/versions").json()["code"] == "damaged_home"
    assert "Active version not read" in [record.message for record in caplog.records]
