import pytest

from service.app import create_app
from tests.local import local_client


def test_ready_with_a_version(client):
    response = client.get("/readyz")

    assert client.get("/healthz").json() == {"status": "ok"}
    assert (response.status_code, response.headers["X-Model-Version"]) == (200, "2")
    assert response.json() == {
        "status": "ready",
        "version": 2,
        "loaded": [2],
        "classes": 5,
        "checks": {
            "database": {"ok": True, "detail": "reachable"},
            "model": {"ok": True, "detail": "version 2 answers"},
        },
    }


def test_alive_but_not_ready_without_a_version(empty_client):
    assert empty_client.get("/healthz").status_code == 200
    response = empty_client.get("/readyz")

    body = response.json()
    assert (response.status_code, body["status"], body["version"], body["loaded"]) == (503, "not ready", None, [])
    assert body["checks"]["database"]["ok"] is True
    assert body["checks"]["model"] == {"ok": False, "detail": "no classes yet: POST /v1/updates"}


@pytest.fixture
def cut_off(settings):
    """A service whose database does not answer: nobody listens on port 1."""
    unreachable = settings.model_copy(update={"database_url": "postgresql://127.0.0.1:1/nobody", "open_metrics": True})
    with local_client(create_app(unreachable), raise_server_exceptions=False) as client:
        yield client


def test_alive_but_not_ready_without_a_database(cut_off):
    assert cut_off.get("/healthz").status_code == 200
    response = cut_off.get("/readyz")

    assert response.status_code == 503
    assert response.json()["checks"]["database"] == {"ok": False, "detail": "The database does not answer"}


@pytest.mark.parametrize("path", ["/v1/updates", "/v1/updates/some/events", "/v1/versions", "/v1/versions/1"])
def test_without_a_database_a_caller_is_told_to_come_back(cut_off, path):
    response = cut_off.get(path)

    assert (response.status_code, response.json()["code"]) == (503, "database_unreachable")
    assert response.headers["Retry-After"] == "5"


def test_metrics_are_there_without_a_database_and_say_so(cut_off):
    response = cut_off.get("/metrics")

    assert response.status_code == 200
    assert "zstci_database_up 0.0" in response.text.splitlines()
