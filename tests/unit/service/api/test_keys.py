import pytest

from tests.pictures import picture
from tests.unit.service.api.surface import refused


@pytest.fixture
def admin(make_key):
    return make_key("admin", "Chefin")


def bearer(made):
    return {"Authorization": f"Bearer {made['key']}"}


def test_a_key_is_shown_once_and_works_at_once(client, admin):
    response = client.post("/v1/keys", json={"name": "camera 7", "scope": "query", "days": 30}, headers=admin)

    made = response.json()
    assert (response.status_code, made["name"], made["scope"], made["state"]) == (201, "camera 7", "query", "good")
    assert response.headers["Cache-Control"] == "no-store"
    assert made["expires_at"] > made["created_at"]
    assert client.post("/v1/classify", content=picture(1), headers=bearer(made)).status_code == 200
    listed = client.get("/v1/keys", headers=admin)
    assert [entry["name"] for entry in listed.json()["data"]] == ["camera 7", "Chefin"]
    assert made["key"].rpartition("_")[2] not in listed.text


def test_the_first_key_is_made_without_one(client):
    made = client.post("/v1/keys", json={"name": "first", "scope": "admin"}).json()

    refused(client.get("/v1/keys"), 401, "unauthenticated")
    assert client.get("/v1/keys", headers=bearer(made)).status_code == 200


def test_a_rotated_key_has_another_secret_and_the_old_one_a_grace(client, admin):
    made = client.post("/v1/keys", json={"name": "camera"}, headers=admin).json()
    second = client.post(f"/v1/keys/{made['id']}/rotate?grace_seconds=60", headers=admin).json()
    assert (second["id"], second["rotated_at"] is not None) == (made["id"], True)
    for one in (made, second):
        assert client.get("/v1/classes", headers=bearer(one)).status_code == 200
    third = client.post(f"/v1/keys/{made['id']}/rotate", headers=admin).json()

    assert client.get("/v1/classes", headers=bearer(third)).status_code == 200
    for one in (made, second):
        refused(client.get("/v1/classes", headers=bearer(one)), 401, "unauthenticated")


def test_a_revoked_key_is_refused_at_once_and_cannot_be_rotated(client, admin):
    made = client.post("/v1/keys", json={"name": "camera"}, headers=admin).json()
    assert client.delete(f"/v1/keys/{made['id']}", headers=admin).json()["state"] == "revoked"

    refused(client.get("/v1/classes", headers=bearer(made)), 401, "unauthenticated")
    refused(client.post(f"/v1/keys/{made['id']}/rotate", headers=admin), 409, "key_revoked")
    assert client.delete(f"/v1/keys/{made['id']}", headers=admin).status_code == 200


def test_keys_are_listed_in_pages(client, admin):
    for number in range(3):
        client.post("/v1/keys", json={"name": str(number)}, headers=admin)
    first = client.get("/v1/keys?limit=3", headers=admin).json()
    second = client.get("/v1/keys", params={"limit": 3, "cursor": first["next_cursor"]}, headers=admin).json()

    assert [entry["name"] for entry in first["data"] + second["data"]] == ["2", "1", "0", "Chefin"]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_request"),
        ({"name": ""}, "invalid_request"),
        ({"name": "x" * 101}, "invalid_request"),
        ({"name": "a\nb"}, "invalid_option"),
        ({"name": "  "}, "invalid_option"),
        ({"name": "a", "scope": "root"}, "invalid_request"),
        ({"name": "a", "days": 0}, "invalid_request"),
        ({"name": "a", "days": 10**9}, "invalid_request"),
    ],
)
def test_a_key_that_cannot_be_made(client, admin, body, code):
    refused(client.post("/v1/keys", json=body, headers=admin), 422, code)
    assert len(client.get("/v1/keys", headers=admin).json()["data"]) == 1


@pytest.mark.parametrize("key_id", ["nobody", "%00", "%FF", "K\u00fcken"])
def test_a_key_that_is_not_there(client, admin, key_id):
    refused(client.delete(f"/v1/keys/{key_id}", headers=admin), 404, "unknown_key")
    refused(client.post(f"/v1/keys/{key_id}/rotate", headers=admin), 404, "unknown_key")
    refused(client.post("/v1/keys/x/rotate?grace_seconds=-1", headers=admin), 422, "invalid_request")
