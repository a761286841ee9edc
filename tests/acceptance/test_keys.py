"""Keys with real processes: who may start, who is let in, and what a revocation or a lost database changes."""

from __future__ import annotations

import time
from typing import Any

import httpx
import psycopg
import pytest

from tests.pictures import archive, picture
from tests.processes import NET, Api, Service, wait_until

pytestmark = pytest.mark.slow


def create(service: Service, scope: str) -> tuple[str, dict[str, str]]:
    """The key's id, and the header to send."""
    token = service.run("keys", "create", f"{scope} key", "--scope", scope)[0].strip()
    return token.split("_")[1], {"Authorization": f"Bearer {token}"}


def ask(api: Api, headers: dict[str, str]) -> httpx.Response:
    return api.http.post("/v1/classify", content=picture(1, 50), headers=headers)


def within(seconds: float, condition: Any) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_service_that_others_can_reach_does_not_start_without_a_key(sqlite_service: Service) -> None:
    for command in ("serve", "api"):
        _, complaint = sqlite_service.run(command, "--host", "0.0.0.0", "--port", "0", code=3)
        assert "zstci keys create NAME --scope admin" in complaint
        assert "Traceback" not in complaint
    _, complaint = sqlite_service.run("api", code=2, ZSTCI_HOST="::", ZSTCI_ADMIN_KEY="too short")
    assert "too short" not in complaint

    insecure = sqlite_service.serve("api", ZSTCI_HOST="0.0.0.0", ZSTCI_INSECURE="true")
    assert insecure.get("/v1/updates")["data"] == []
    given = sqlite_service.serve("api", ZSTCI_HOST="0.0.0.0", ZSTCI_ADMIN_KEY="k" * 40)
    given.get("/v1/updates", 401)
    given.http.headers["Authorization"] = f"Bearer {'k' * 40}"
    assert given.get("/v1/updates")["data"] == []


def test_the_whole_way_with_keys(service: Service) -> None:
    admin_id, admin = create(service, "admin")
    query_id, query = create(service, "query")
    api = service.serve("serve", ZSTCI_HOST="0.0.0.0")
    api.get("/v1/classes", 401)
    api.http.headers.update(admin)
    api.learn(archive([0, 1], count=6), **NET)

    assert ask(api, query).json()["data"][0]["version"] == 1
    refused = api.http.post("/v1/versions/1/activate", headers=query)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    service.run("keys", "revoke", query_id)
    within(10, lambda: ask(api, query).status_code == 401)
    assert ask(api, admin).status_code == 200

    done = api.get("/v1/audit")["data"]
    assert [(entry["action"], entry["actor"]) for entry in done] == [
        ("key_revoked", "command line"),
        ("update_submitted", "admin key"),
        ("key_created", "command line"),
        ("key_created", "command line"),
    ]
    assert done[1]["key_id"] == admin_id
    url, key = str(api.http.base_url), admin["Authorization"].removeprefix("Bearer ")
    assert "update_submitted" in service.run("audit", ZSTCI_URL=url, ZSTCI_KEY=key)[0]
    assert "a key is needed" in service.run("audit", code=2, ZSTCI_URL=url)[1]
    for headers in (admin, query):
        assert headers["Authorization"].rpartition("_")[2] not in api.log.read_text()


def test_without_keys_the_machine_itself_is_answered_until_there_is_one(sqlite_service: Service) -> None:
    api = sqlite_service.serve("api")
    assert api.get("/v1/updates")["data"] == []
    foreign = api.http.get("/v1/updates", headers={"Host": f"evil.example:{api.port}"})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "foreign_host")
    _, query = create(sqlite_service, "query")

    within(10, lambda: api.http.get("/v1/updates").status_code == 401)
    assert api.http.get("/v1/updates", headers=query).status_code == 200


def test_queries_go_on_with_keys_while_the_database_is_away(tmp_path: Any, postgres: Any, postgres_url: str) -> None:
    service = Service(tmp_path / "home", postgres_url)
    service.run("migrate")
    (_, admin), (_, query) = create(service, "admin"), create(service, "query")
    api = service.serve()
    api.http.headers.update(admin)
    api.learn(archive([0, 1], count=6), **NET)
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        wait_until(lambda: not api.http.get("/readyz").json()["checks"]["database"]["ok"])
        assert ask(api, query).status_code == 200
        assert ask(api, {"Authorization": "Bearer wrong"}).status_code == 401
        assert ask(api, {"Authorization": ""}).status_code == 401
        assert api.http.patch("/v1/classes/x", json={"name": "y"}).json()["code"] == "database_unreachable"
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    wait_until(lambda: api.http.get("/v1/keys").status_code == 200)
    service.end()
