"""Every change leaves an entry that says who, what, when and with which request."""

from service.errors import DatabaseUnreachable
from tests.unit.service.api.sending import send
from tests.unit.service.api.surface import refused


def entries(client, **params):
    return client.get("/v1/audit", params=params).json()["data"]


def test_every_change_is_there_newest_first(client):
    update = send(client).json()["id"]
    client.post(f"/v1/updates/{update}/cancel")
    client.patch("/v1/classes/digit-0", json={"name": "zero"})
    client.delete("/v1/classes/digit-1")
    client.post("/v1/versions/1/activate", headers={"X-Request-ID": "mine"})
    made = client.post("/v1/keys", json={"name": "first", "scope": "admin"}).json()
    key = {"Authorization": f"Bearer {made['key']}"}
    rotated = client.post(f"/v1/keys/{made['id']}/rotate", headers=key).json()
    key = {"Authorization": f"Bearer {rotated['key']}"}

    found = client.get("/v1/audit", headers=key).json()["data"]
    assert [(entry["action"], entry["object"], entry["actor"]) for entry in found] == [
        ("key_rotated", made["id"], "first"),
        ("key_created", made["id"], "loopback"),
        ("version_activated", "1", "loopback"),
        ("class_deleted", "digit-1", "loopback"),
        ("class_renamed", "digit-0", "loopback"),
        ("update_cancelled", update, "loopback"),
        ("update_submitted", update, "loopback"),
    ]
    assert {entry["outcome"] for entry in found} == {"done"}
    assert found[2]["request_id"] == "mine"
    assert (found[0]["key_id"], found[1]["key_id"]) == (made["id"], None)
    assert [entry["at"] for entry in found] == sorted((entry["at"] for entry in found), reverse=True)


def test_a_change_that_was_refused_on_the_way_says_why(client):
    client.patch("/v1/classes/nobody", json={"name": "zero"})
    client.post("/v1/versions/1/activate", headers={"If-Match": "1"})

    assert [(entry["action"], entry["outcome"]) for entry in entries(client)] == [
        ("version_activated", "version_changed"),
        ("class_renamed", "unknown_class"),
    ]


def test_what_changes_nothing_leaves_no_entry(client):
    send(client, dry_run=True)
    send(client, {"digit-7/0.png": b"no image"})
    client.get("/v1/classes")
    assert entries(client) == []
    send(client, key="again")
    send(client, key="again")

    assert [entry["action"] for entry in entries(client)] == ["update_submitted"]


def test_the_log_is_read_in_pages(client):
    for name in ("a", "b", "c"):
        client.patch("/v1/classes/digit-0", json={"name": name})
    first = client.get("/v1/audit?limit=2").json()
    second = client.get("/v1/audit", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    assert (len(first["data"]), len(second["data"]), second["next_cursor"]) == (2, 1, None)


def test_where_no_entry_can_be_written_nothing_is_changed(client, parts, monkeypatch):
    def away(*_):
        raise DatabaseUnreachable("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(parts.audit_log, "begin", away)
        refused(client.patch("/v1/classes/digit-0", json={"name": "zero"}), 503, "database_unreachable")

    assert client.get("/v1/classes/digit-0").json()["name"] == "digit-0"


def test_what_was_done_stays_done_if_its_entry_cannot_be_ended(client, parts, monkeypatch, caplog):
    def away(*_):
        raise DatabaseUnreachable("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(parts.audit_log, "end", away)
        assert client.patch("/v1/classes/digit-0", json={"name": "zero"}).status_code == 200

    assert [entry["outcome"] for entry in entries(client)] == ["begun"]
    assert "audit_not_ended" in [getattr(record, "action", None) for record in caplog.records]
