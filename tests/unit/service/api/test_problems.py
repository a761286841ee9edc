import pytest


def test_paths_and_methods_that_are_not_there(client):
    missing, wrong = client.get("/v2/classify"), client.delete("/v1/versions/1")

    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"], wrong.headers["Allow"]) == (405, "method_not_allowed", "GET")


def test_an_unexpected_error_is_a_problem_that_tells_nothing_but_where_to_look(client):
    async def broken() -> None:
        raise RuntimeError("secret")

    client.app.add_api_route("/broken", broken)
    response = client.get("/broken", headers={"X-Request-ID": "mine"})

    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert response.headers["X-Request-ID"] == response.json()["request_id"] == "mine"
    assert response.headers["Content-Type"] == "application/problem+json"
    assert "secret" not in response.text


@pytest.mark.parametrize("path", ["/healthz", "/v1/nothing", "/v1/classes"])
def test_every_response_carries_a_request_id_of_its_own(client, path):
    ids = {client.get(path).headers["X-Request-ID"] for _ in range(3)}

    assert len(ids) == 3


@pytest.mark.parametrize(("given", "kept"), [("order-66:a.b_c", True), ("a b", False), ("x" * 129, False)])
def test_the_callers_request_id_is_kept_if_it_is_harmless(client, given, kept):
    found = client.get("/healthz", headers={"X-Request-ID": given}).headers["X-Request-ID"]

    assert (found == given) is kept
