import pytest


@pytest.fixture
def schema(empty_client):
    return empty_client.get("/openapi.json").json()


def operations(schema):
    return {f"{method} {path}": op for path, methods in schema["paths"].items() for method, op in methods.items()}


def test_every_call_is_described_and_says_which_request_it_was(schema):
    for name, operation in operations(schema).items():
        assert operation["summary"], name
        assert all("X-Request-ID" in response["headers"] for response in operation["responses"].values()), name


def test_every_error_is_a_problem(schema):
    for name, operation in operations(schema).items():
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                reference = response["content"]["application/problem+json"]["schema"]["$ref"]
                assert reference == "#/components/schemas/Problem", name
    assert "example" in schema["components"]["schemas"]["Problem"]
    assert "HTTPValidationError" not in schema["components"]["schemas"]


def test_queries_take_raw_images_and_forms(schema):
    for path in ("/v1/classify", "/v1/search", "/v1/embeddings"):
        content = schema["paths"][path]["post"]["requestBody"]["content"]
        assert {"image/*", "application/octet-stream", "multipart/form-data"} == set(content)


def test_every_reference_leads_somewhere(schema):
    text = str(schema)
    for name in schema["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text
    used = {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]}
    assert used == set(schema["components"]["schemas"])
