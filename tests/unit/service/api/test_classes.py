import pytest

from tests.pictures import picture
from tests.unit.service.api.surface import refused


def test_all_classes_in_the_order_they_were_learnt(client):
    response = client.get("/v1/classes")

    body = response.json()
    assert [entry["id"] for entry in body["data"]] == [f"digit-{i}" for i in range(5)]
    assert [entry["hops"] for entry in body["data"]] == [1, 1, 1, 0, 0]
    assert body["next_cursor"] is None
    assert response.headers["X-Model-Version"] == "2"


def test_pages_put_together_are_the_whole_list(client):
    found, cursor = [], None
    while True:
        body = client.get("/v1/classes", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        found += [entry["id"] for entry in body["data"]]
        cursor = body["next_cursor"]
        if cursor is None:
            break

    assert found == [f"digit-{i}" for i in range(5)]


def test_one_class(client):
    assert client.get("/v1/classes/digit-1").json() == {"id": "digit-1", "name": "digit-1", "images": 6, "hops": 1}


def test_a_class_that_is_not_known(client):
    refused(client.get("/v1/classes/zebra"), 404, "unknown_class")


def test_without_a_version_there_are_no_classes(empty_client):
    refused(empty_client.get("/v1/classes"), 503, "no_classes_yet")
    refused(empty_client.patch("/v1/classes/digit-1", json={"name": "one"}), 404, "unknown_class")
    refused(empty_client.delete("/v1/classes/digit-1"), 404, "unknown_class")


def test_a_new_name_is_shown_at_once_and_the_id_stays(client):
    response = client.patch("/v1/classes/digit-3", json={"name": " trois \u0065\u0301 "})

    assert response.json() == {"id": "digit-3", "name": "trois \u00e9", "images": 6, "hops": 0}
    predictions = client.post("/v1/classify", content=picture(3)).json()["data"][0]["predictions"]
    assert {one["class_id"]: one["name"] for one in predictions}["digit-3"] == "trois \u00e9"
    assert client.get("/v1/versions").json()["active"] == 2


def test_a_name_is_free_again_once_its_class_is_called_otherwise(client):
    client.patch("/v1/classes/digit-3", json={"name": "three"})
    response = client.patch("/v1/classes/digit-4", json={"name": "digit-3"})

    assert (response.status_code, response.json()["id"]) == (200, "digit-4")


def test_the_name_that_it_has_already_is_fine(client):
    assert client.patch("/v1/classes/digit-3", json={"name": "digit-3"}).status_code == 200


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("class_id", "name", "status", "code"),
    [
        ("digit-0", "digit-1", 409, "name_taken"),
        ("digit-0", " digit-1 ", 409, "name_taken"),
        ("zebra", "horse", 404, "unknown_class"),
        ("digit-0", "a/b", 422, "bad_class_name"),
        ("digit-0", "..", 422, "bad_class_name"),
        ("digit-0", " ", 422, "bad_class_name"),
        ("digit-0", "tab\there", 422, "bad_class_name"),
        ("digit-0", "left\u202eright", 422, "bad_class_name"),
        ("digit-0", "x" * 201, 422, "bad_class_name"),
        ("digit-0", "x" * 1001, 422, "invalid_request"),
        ("digit-0", "", 422, "invalid_request"),
        ("digit-0", 5, 422, "invalid_request"),
        ("digit-0", None, 422, "invalid_request"),
    ],
)
def test_a_name_that_cannot_be_is_refused(client, class_id, name, status, code):
    refused(client.patch(f"/v1/classes/{class_id}", json={"name": name}), status, code)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 422, "invalid_request"),
        (b"[]", 422, "invalid_request"),
        (b"", 422, "invalid_request"),
        (b'{"name": "\\ud800"}', 422, "invalid_request"),
        (b'{"name": "\xff"}', 400, "bad_request"),
        (b"[" * 60_000, 400, "bad_request"),
        (b'{"name": "' + b"x" * 70_000 + b'"}', 413, "too_large"),
    ],
)
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_cannot_be_read_is_refused(client, body, status, code, announced):
    headers = {"Content-Type": "application/json"}
    content = body if announced else iter([body[:9], body[9:]])
    refused(client.patch("/v1/classes/digit-0", content=content, headers=headers), status, code)


@pytest.mark.parametrize("if_match", [None, "2"])
def test_without_a_deleted_class_a_new_version_answers_at_once(client, parts, if_match):
    response = client.delete("/v1/classes/digit-1", headers={"If-Match": if_match} if if_match else {})

    body = response.json()
    assert response.status_code == 200
    assert (body["number"], body["active"], body["parent"], body["kind"]) == (3, True, 2, "delete")
    assert (body["classes"], body["added"], body["images"], body["update_id"]) == (4, [], 0, None)
    found = client.post("/v1/classify", content=picture(1), params={"top_k": 9})
    assert found.headers["X-Model-Version"] == "3"
    assert {one["class_id"] for one in found.json()["data"][0]["predictions"]} == {f"digit-{i}" for i in (0, 2, 3, 4)}
    refused(client.get("/v1/classes/digit-1"), 404, "unknown_class")
    assert list((parts.settings.home / "work").iterdir()) == []


def test_a_deletion_can_be_rolled_back(client):
    client.delete("/v1/classes/digit-1")
    client.post("/v1/versions/2/activate")

    assert client.get("/v1/classes/digit-1").status_code == 200


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("class_id", "if_match", "status", "code"),
    [
        ("zebra", None, 404, "unknown_class"),
        ("digit-1", "1", 412, "version_changed"),
        ("digit-1", "0", 412, "version_changed"),
        ("digit-1", "latest", 400, "invalid_if_match"),
    ],
)
def test_what_cannot_be_deleted_changes_nothing(client, class_id, if_match, status, code):
    response = client.delete(f"/v1/classes/{class_id}", headers={"If-Match": if_match} if if_match else {})
    refused(response, status, code)


def test_the_last_class_stays(client):
    client.post("/v1/versions/1/activate")
    for digit in (0, 1):
        assert client.delete(f"/v1/classes/digit-{digit}").status_code == 200

    refused(client.delete("/v1/classes/digit-2"), 409, "last_class")
    assert client.get("/v1/classes/digit-2").status_code == 200
