"""The description is enough for someone who knows nothing. That it tells all statuses, `conftest.py` sees to."""

import inspect
from typing import Any, get_args

import pytest
from fastapi.routing import APIRoute

from service import errors
from service.api.problems import Problem
from service.domain import Stage
from service.errors import ServiceError
from service.storage.times import now
from tests.unit.service.api.surface import check_documented

FORM_OF_ITS_OWN = ("get /readyz", "503")  # says what is not ready


@pytest.fixture(scope="module")
def schema(described) -> dict[str, Any]:
    found: dict[str, Any] = described.openapi()
    return found


@pytest.fixture(scope="module")
def operations(schema) -> dict[str, Any]:
    return {f"{method} {path}": op for path, methods in schema["paths"].items() for method, op in methods.items()}


def resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    name = part.get("$ref", "").rpartition("/")[2]
    return schema["components"]["schemas"][name] if name else part


def test_every_call_of_the_service_is_there(described, operations):
    called = {
        f"{method.lower()} {route.path}"
        for route in described.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }
    in_the_docs = {
        "post /v1/updates",
        "get /v1/updates",
        "get /v1/updates/{update_id}",
        "get /v1/updates/{update_id}/events",
        "post /v1/updates/{update_id}/cancel",
        "post /v1/classify",
        "post /v1/search",
        "post /v1/embeddings",
        "get /v1/classes",
        "get /v1/classes/{class_id}",
        "patch /v1/classes/{class_id}",
        "delete /v1/classes/{class_id}",
        "get /v1/versions",
        "get /v1/versions/{number}",
        "post /v1/versions/{number}/activate",
        "get /v1/keys",
        "post /v1/keys",
        "post /v1/keys/{key_id}/rotate",
        "delete /v1/keys/{key_id}",
        "get /v1/audit",
        "get /healthz",
        "get /readyz",
        "get /metrics",
    }

    assert set(operations) == in_the_docs
    assert called <= set(operations)


def test_it_is_served_and_says_whether_a_key_is_needed(client, make_key, schema):
    served = client.get("/openapi.json").json()
    assert served["paths"]["/v1/classify"]["post"]["security"] == [{"key": ["query"]}, {}]
    make_key()

    assert client.get("/openapi.json").json() == schema
    assert schema["paths"]["/v1/classify"]["post"]["security"] == [{"key": ["query"]}]


def test_every_call_has_a_summary_and_a_tag_that_is_described(schema, operations):
    tags = {tag["name"]: tag["description"] for tag in schema["tags"]}

    assert schema["info"]["description"].count("curl") >= 2
    for name, operation in operations.items():
        assert operation["summary"], name
        assert len(operation["tags"]) == 1, name
        assert all(tags[tag] for tag in operation["tags"]), name
    assert {tag for operation in operations.values() for tag in operation["tags"]} == set(tags)
    assert len({operation["summary"] for operation in operations.values()}) == len(operations)


def test_every_call_that_does_something_says_what(operations):
    for name, operation in operations.items():
        if not name.startswith("get"):
            assert len(operation.get("description", "")) > 40, name


def test_every_parameter_is_described(operations):
    for name, operation in operations.items():
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), f"{name} {parameter['name']}"


def test_no_parameter_may_be_null_because_none_can_be(operations):
    for name, operation in operations.items():
        for parameter in operation.get("parameters", []):
            assert {"anyOf", "type"} & set(parameter["schema"]) == {"type"}, f"{name} {parameter['name']}"


def test_every_body_that_is_sent_is_described(schema, operations):
    bodies = {name: op["requestBody"] for name, op in operations.items() if "requestBody" in op}

    assert set(bodies) == {
        "post /v1/updates",
        "post /v1/classify",
        "post /v1/search",
        "post /v1/embeddings",
        "patch /v1/classes/{class_id}",
        "post /v1/keys",
    }
    for name, body in bodies.items():
        fields = [
            field
            for content in body["content"].values()
            for field in resolved(schema, content["schema"]).get("properties", {}).values()
        ]
        assert body.get("description") or all("description" in field for field in fields), name


def test_every_option_of_an_update_says_what_it_is(operations):
    form = operations["post /v1/updates"]["requestBody"]["content"]["multipart/form-data"]["schema"]

    for name, field in form["properties"].items():
        assert field.get("description"), name


def test_every_field_of_an_answer_has_a_description_an_example_or_a_closed_choice(schema):
    for name, model in schema["components"]["schemas"].items():
        for field, about in model.get("properties", {}).items():
            told = {"description", "examples", "enum", "const", "$ref"} & set(about)
            obvious = about.get("type") == "boolean" or {"$ref"} & set(about.get("items", {}))
            assert told or obvious or "example" in model, f"{name}.{field}"


def test_every_answer_says_which_request_it_was_and_what_it_is(operations):
    for name, operation in operations.items():
        for status, response in operation["responses"].items():
            assert "X-Request-ID" in response["headers"], name
            assert response["description"], f"{name} {status}"
            assert response["content"], f"{name} {status}"


def test_every_error_is_a_problem(schema, operations):
    for name, operation in operations.items():
        for status, response in operation["responses"].items():
            if int(status) >= 400 and (name, status) != FORM_OF_ITS_OWN:
                assert list(response["content"]) == ["application/problem+json"], f"{name} {status}"
                reference = response["content"]["application/problem+json"]["schema"]["$ref"]
                assert reference == "#/components/schemas/Problem", name
    assert "example" in schema["components"]["schemas"]["Problem"]
    assert "HTTPValidationError" not in schema["components"]["schemas"]


# Of the command line, of worker processes, and what only stands for those below it.
NEVER_ANSWERED = {"no_keys", "worker_name_taken", "service_unreachable", "attempt_over", "bad_image"}


def test_every_code_that_can_be_answered_has_an_example_as_it_would_be_answered(schema, operations):
    examples = {code: example["value"] for code, example in schema["components"]["examples"].items()}
    told = set(examples) | {fault["code"] for example in examples.values() for fault in example["errors"]}
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ServiceError)]

    assert {kind.code for kind in kinds} - NEVER_ANSWERED <= told
    assert not NEVER_ANSWERED & told
    for code, example in examples.items():
        assert Problem.model_validate(example).code == code
        assert example["type"].endswith(code)
        assert len(example["detail"]) > 10, code
    for name, operation in operations.items():
        for status, response in operation["responses"].items():
            for code in response["content"].get("application/problem+json", {}).get("examples", {}):
                assert examples[code]["status"] == int(status), f"{name} {status} {code}"
                assert f"`{code}`" in response["description"], f"{name} {status}"


def test_every_problem_of_every_call_names_its_codes(operations):
    for name, operation in operations.items():
        for status, response in operation["responses"].items():
            if int(status) >= 400 and (name, status) != FORM_OF_ITS_OWN:
                assert response["content"]["application/problem+json"]["examples"], f"{name} {status}"


def test_times_look_as_they_really_do(schema):
    told = [
        field for model in schema["components"]["schemas"].values() for field in model.get("properties", {}).items()
    ]
    shown = [example for name, about in told if name.endswith("_at") for example in about.get("examples", ())]
    times = [example for example in shown if example is not None]

    assert len(times) > 5
    assert all(len(time) == len(now()) and time.endswith("Z") for time in times)


def test_every_stage_of_an_update_is_explained(schema):
    described = schema["components"]["schemas"]["UpdateEntry"]["properties"]["stage"]["description"]

    assert [stage for stage in get_args(Stage) if stage not in described] == []


def test_answers_of_a_model_name_its_version(operations):
    for path in ("post /v1/classify", "post /v1/search", "post /v1/embeddings", "get /v1/classes"):
        assert "X-Model-Version" in operations[path]["responses"]["200"]["headers"], path
    assert "Location" in operations["post /v1/updates"]["responses"]["202"]["headers"]


def test_queries_take_raw_images_and_forms(schema):
    for path in ("/v1/classify", "/v1/search", "/v1/embeddings"):
        content = schema["paths"][path]["post"]["requestBody"]["content"]
        assert {"image/*", "application/octet-stream", "multipart/form-data"} == set(content)


def test_every_reference_leads_somewhere(schema):
    text = str(schema)
    used = {part.split("'")[0] for part in text.split("#/components/schemas/")[1:]}
    assert used == set(schema["components"]["schemas"])


def test_the_check_of_all_other_tests_finds_what_is_not_documented(client, described):
    client.event_hooks = {}
    response = client.get("/v1/versions/1")
    check_documented(described, response)
    response.status_code = 418

    with pytest.raises(AssertionError, match="GET /v1/versions/1 answers 418"):
        check_documented(described, response)
