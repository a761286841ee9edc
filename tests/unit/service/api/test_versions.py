import pytest

from tests.pictures import picture


def test_all_versions_newest_first(client):
    response = client.get("/v1/versions")

    body = response.json()
    assert [(entry["number"], entry["active"]) for entry in body["data"]] == [(2, True), (1, False)]
    assert (body["active"], response.headers["ETag"], body["next_cursor"]) == (2, '"2"', None)


def test_a_page_of_versions(client):
    first = client.get("/v1/versions", params={"limit": 1}).json()
    second = client.get("/v1/versions", params={"limit": 1, "cursor": first["next_cursor"]}).json()

    assert [page["data"][0]["number"] for page in (first, second)] == [2, 1]
    assert second["next_cursor"] is None


def test_one_version(client, facts):
    body = client.get("/v1/versions/1").json()

    assert body["parent"] is None
    assert body["regularizer"] == facts.regularizer
    assert len(body["sha256"]) == 64


@pytest.mark.parametrize("if_match", [None, "2", '"2"', "*"])
def test_roll_back_answers_from_the_old_version_at_once(client, if_match):
    response = client.post("/v1/versions/1/activate", headers={"If-Match": if_match} if if_match else {})

    assert (response.status_code, response.json()["active"], response.headers["ETag"]) == (200, True, '"1"')
    assert client.post("/v1/classify", content=picture(1)).headers["X-Model-Version"] == "1"
    assert client.get("/v1/versions").json()["active"] == 1


@pytest.mark.parametrize(
    ("path", "if_match", "status", "code"),
    [
        ("/v1/versions/1/activate", "1", 412, "version_changed"),
        ("/v1/versions/1/activate", "latest", 400, "invalid_if_match"),
        ("/v1/versions/7/activate", "2", 404, "unknown_version"),
        ("/v1/versions/zero/activate", "2", 422, "invalid_request"),
    ],
)
def test_what_cannot_be_activated_changes_nothing(client, path, if_match, status, code):
    response = client.post(path, headers={"If-Match": if_match})

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert client.get("/v1/versions").json()["active"] == 2
    assert client.get("/readyz").json()["version"] == 2


def test_a_version_that_is_not_there(client):
    response = client.get("/v1/versions/7")

    assert (response.status_code, response.json()["code"]) == (404, "unknown_version")
    assert response.json()["detail"] == "no version 7; there are 1 to 2"


def test_a_damaged_version_is_not_activated(client, store):
    (store.folder(1) / "serving.safetensors").write_bytes(b"short")
    response = client.post("/v1/versions/1/activate")

    assert (response.status_code, response.json()["code"]) == (500, "corrupt_snapshot")
    assert client.get("/v1/versions").json()["active"] == 2


def test_without_a_version_the_list_is_empty(empty_client):
    assert empty_client.get("/v1/versions").json() == {"data": [], "active": None, "next_cursor": None}
