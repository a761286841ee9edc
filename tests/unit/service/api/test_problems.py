import pytest

from tests.unit.service.api.surface import refused


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v2/classify", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v1/updates/some/thing", 404, "not_found"),
        ("DELETE", "/v1/versions/1", 405, "method_not_allowed"),
        ("GET", "/v1/classify", 405, "method_not_allowed"),
        ("PUT", "/v1/updates", 405, "method_not_allowed"),
        ("GET", "/v1/updates/some", 404, "unknown_update"),
        ("POST", "/v1/updates/some/cancel", 404, "unknown_update"),
        ("GET", "/v1/updates/some/events", 404, "unknown_update"),
        ("GET", "/v1/updates/%00", 404, "unknown_update"),
        ("GET", "/v1/updates/%FF%FE", 404, "unknown_update"),
        ("GET", "/v1/updates/\U0001f426/events", 404, "unknown_update"),
        ("POST", "/v1/updates/Küken/cancel", 404, "unknown_update"),
        ("GET", "/v1/updates/" + "x" * 5000, 422, "invalid_request"),
        ("GET", "/v1/updates/" + "x" * 65 + "/events", 422, "invalid_request"),
        ("GET", "/v1/classes/%00", 404, "unknown_class"),
        ("GET", "/v1/classes/%FF", 404, "unknown_class"),
        ("GET", "/v1/classes/Küken", 404, "unknown_class"),
        ("DELETE", "/v1/classes/%ED%A0%80", 404, "unknown_class"),
        ("GET", "/v1/classes/" + "x" * 5000, 422, "invalid_request"),
        ("DELETE", "/v1/classes/" + "x" * 201, 422, "invalid_request"),
        ("GET", "/v1/versions/7", 404, "unknown_version"),
        ("GET", "/v1/versions/0", 422, "invalid_request"),
        ("GET", "/v1/versions/\u0663", 422, "invalid_request"),
        ("GET", "/v1/versions/99999999999999999999", 422, "invalid_request"),
        ("GET", "/v1/updates?cursor=%FF", 422, "invalid_request"),
        ("GET", "/v1/updates?cursor=-1", 422, "invalid_request"),
        ("GET", "/v1/updates?cursor=1%0A", 422, "invalid_request"),
        ("GET", "/v1/updates?state=asleep", 422, "invalid_request"),
        ("GET", "/v1/updates?limit=0", 422, "invalid_request"),
        ("GET", "/v1/updates?limit=1001", 422, "invalid_request"),
        ("GET", "/v1/classes?cursor=-1", 422, "invalid_request"),
        ("GET", "/v1/classes?limit=%FF%FE", 422, "invalid_request"),
        ("GET", "/v1/versions?cursor=abc", 422, "invalid_request"),
        ("GET", "/v1/versions?cursor=%D9%A3", 422, "invalid_request"),
        ("POST", "/v1/updates?dry_run=maybe", 422, "invalid_request"),
        ("POST", "/v1/classify?version=%FF", 422, "invalid_request"),
    ],
)
def test_an_address_that_cannot_be_answered_is_a_problem(client, method, path, status, code):
    refused(client.request(method, path), status, code)


def test_a_wrong_method_is_told_the_right_ones(client):
    assert client.delete("/v1/versions/1").headers["Allow"] == "GET"
    assert client.put("/v1/classes/some").headers["Allow"] == "DELETE, GET, PATCH"
    assert client.put("/v1/updates").headers["Allow"] == "GET, POST"


def test_what_is_wrong_with_a_request_is_pointed_at(client):
    problem = refused(client.get("/v1/classes?cursor=x&limit=x"), 422, "invalid_request")

    assert [fault["pointer"] for fault in problem["errors"]] == ["/query/limit", "/query/cursor"]


@pytest.mark.parametrize("path", ["/v1/updates", "/v1/classes", "/v1/versions"])
def test_a_cursor_beyond_the_end_is_no_error(client, path):
    assert client.get(path, params={"cursor": "9" * 18}).status_code == 200


@pytest.mark.parametrize("host", ["[", "a b", "K\u00fcken", ":99999999", ""])
def test_a_strange_host_does_not_disturb_a_problem(client, host):
    response = client.get("/v1/updates/some", headers={"Host": host.encode("latin-1")})

    assert refused(response, 403, "foreign_host")["instance"] == "/v1/updates/some"


def test_an_unexpected_error_is_a_problem_that_tells_nothing_but_where_to_look(client):
    async def broken() -> None:
        raise RuntimeError("secret")

    client.app.add_api_route("/broken", broken)
    response = client.get("/broken", headers={"X-Request-ID": "mine"})

    assert refused(response, 500, "internal_error")["request_id"] == "mine"
    assert "secret" not in response.text


@pytest.mark.parametrize("path", ["/healthz", "/v1/nothing", "/v1/classes", "/metrics", "/docs"])
def test_every_response_carries_a_request_id_of_its_own(client, path):
    ids = {client.get(path).headers["X-Request-ID"] for _ in range(3)}

    assert len(ids) == 3


@pytest.mark.parametrize(("given", "kept"), [("order-66:a.b_c", True), ("a b", False), ("x" * 129, False)])
def test_the_callers_request_id_is_kept_if_it_is_harmless(client, given, kept):
    found = client.get("/healthz", headers={"X-Request-ID": given}).headers["X-Request-ID"]

    assert (found == given) is kept
