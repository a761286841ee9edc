"""/docs fills in examples and sends them: what may be left out must start empty there."""

from typing import Any

import pytest

from service.api.trying import for_trying


@pytest.fixture(scope="module")
def before(described) -> dict[str, Any]:
    found: dict[str, Any] = described.openapi()
    return found


@pytest.fixture(scope="module")
def page(before) -> dict[str, Any]:
    return for_trying(before)


def operations(schema):
    return [operation for methods in schema["paths"].values() for operation in methods.values()]


def test_every_option_of_the_form_starts_empty_and_tells_its_example_in_words(page):
    form = page["paths"]["/v1/updates"]["post"]["requestBody"]["content"]["multipart/form-data"]
    fields = form["schema"]["properties"]

    assert not {"example", "examples"} & set(form)
    assert {name: field.get("example") for name, field in fields.items()} == {
        name: {"archive": None, "files": None, "labels": []}.get(name, "") for name in fields
    }
    assert not any("examples" in field for field in fields.values())
    assert fields["regularizer"]["description"].endswith("(such as lwf)")
    assert fields["labels"]["description"].endswith('(such as ["kiwi", "kiwi"])')


def test_parameters_that_may_be_left_out_start_empty_and_others_do_not(page):
    seen = {True: 0, False: 0}
    for operation in operations(page):
        for parameter in operation.get("parameters", ()):
            required = parameter.get("required", False)
            shown = {"example", "examples"} & (set(parameter) | set(parameter["schema"]))
            assert bool(shown) is required, parameter
            seen[required] += 1

    assert min(seen.values()) > 5


def test_nothing_else_is_changed(before, page):
    assert page["components"] == before["components"]
    assert [operation["responses"] for operation in operations(page)] == [
        operation["responses"] for operation in operations(before)
    ]


def test_the_page_reads_it_without_a_key(client, make_key):
    make_key()

    assert client.get("/docs/openapi.json").json() == for_trying(client.get("/openapi.json").json())
