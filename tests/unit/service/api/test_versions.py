import pytest

from tests.pictures import picture
from tests.unit.service.api.surface import refused


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


def test_one_version(client):
    first, second = client.get("/v1/versions/1").json(), client.get("/v1/versions/2").json()

    assert (first["parent"], second["parent"]) == (None, 1)
    assert (first["kind"], first["classes"], first["added"]) == ("update", 3, ["digit-0"])
    assert (first["regularizer"], first["classifier"], first["engine"]) == ("frozen", "whitened", "onnx")
    assert len(first["sha256"]) == 64
    assert first["sha256"] != second["sha256"]


@pytest.mark.parametrize("if_match", [None, "2", '"2"', "*"])
def test_roll_back_answers_from_the_old_version_at_once(client, if_match):
    response = client.post("/v1/versions/1/activate", headers={"If-Match": if_match} if if_match else {})

    assert (response.status_code, response.json()["active"], response.headers["ETag"]) == (200, True, '"1"')
    assert client.post("/v1/classify", content=picture(1)).headers["X-Model-Version"] == "1"
    assert client.get("/v1/versions").json()["active"] == 1


def test_rolled_back_and_forward_again_both_versions_are_loaded(client):
    client.post("/v1/versions/1/activate")
    client.post("/v1/versions/2/activate")

    assert client.get("/readyz").json()["loaded"] == [2, 1]
    for version in ("1", "2"):
        found = client.post("/v1/classify", params={"version": version}, content=picture(1))
        assert found.headers["X-Model-Version"] == version


def test_what_is_active_can_be_activated_again(client):
    assert client.post("/v1/versions/2/activate").json()["active"] is True


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("number", "if_match", "status", "code"),
    [
        ("1", "1", 412, "version_changed"),
        ("1", "0", 412, "version_changed"),
        ("1", "latest", 400, "invalid_if_match"),
        ("1", "", 400, "invalid_if_match"),
        ("1", "-2", 400, "invalid_if_match"),
        ("1", "2, 1", 400, "invalid_if_match"),
        ("1", "9" * 30, 400, "invalid_if_match"),
        ("7", "2", 404, "unknown_version"),
        ("7", None, 404, "unknown_version"),
        ("zero", "2", 422, "invalid_request"),
        ("0", None, 422, "invalid_request"),
        ("9" * 30, None, 422, "invalid_request"),
    ],
)
def test_what_cannot_be_activated_changes_nothing(client, number, if_match, status, code):
    headers = {} if if_match is None else {"If-Match": if_match}
    refused(client.post(f"/v1/versions/{number}/activate", headers=headers), status, code)


def test_a_version_that_is_not_there(client):
    assert refused(client.get("/v1/versions/7"), 404, "unknown_version")["detail"] == "no version 7; there are 1 to 2"


def test_a_damaged_version_is_not_activated(client, parts):
    (parts.settings.home / "files/versions/test-1/serving.safetensors").write_bytes(b"short")
    problem = refused(client.post("/v1/versions/1/activate"), 503, "corrupt_bundle")

    assert "serving.safetensors" in problem["detail"]
    assert client.get("/v1/versions").json()["active"] == 2
    assert client.get("/readyz").status_code == 200


def test_without_a_version_the_list_is_empty(empty_client):
    response = empty_client.get("/v1/versions")

    assert response.json() == {"data": [], "active": None, "next_cursor": None}
    assert response.headers["ETag"] == '"0"'
    problem = refused(empty_client.post("/v1/versions/1/activate"), 404, "unknown_version")
    assert problem["detail"] == "no version 1; there is none yet"
