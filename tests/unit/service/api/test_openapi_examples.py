"""Whoever reads the description sees what each thing is and how it looks, and what is shown is what would be taken."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

METHODS = {"get", "post", "patch", "delete"}
Part = dict[str, Any]


@pytest.fixture(scope="module")
def schema(described) -> Part:
    found: Part = described.openapi()
    return found


def parts(schema: Part) -> Iterator[tuple[str, str, Part]]:
    """(kind, where, part) of all that has to be told about: `$ref`s followed, and properties of schemas within."""
    for path, methods in schema["paths"].items():
        for method in METHODS & set(methods):
            operation, where = methods[method], f"{method} {path}"
            for parameter in operation.get("parameters", ()):
                yield "parameter", f"{where} {parameter['name']}", resolved(schema, parameter)
            if "requestBody" in operation:
                yield "body", where, resolved(schema, operation["requestBody"])
            for status, response in operation["responses"].items():
                yield "response", f"{where} {status}", resolved(schema, response)
                for name, header in response.get("headers", {}).items():
                    yield "header", f"{where} {status} {name}", resolved(schema, header)
    for name, model in schema["components"]["schemas"].items():
        yield from properties(name, model)


def properties(where: str, part: Part) -> Iterator[tuple[str, str, Part]]:
    for name, about in part.get("properties", {}).items():
        yield "property", f"{where}.{name}", about
        yield from properties(f"{where}.{name}", about)
    for key in ("items", "additionalProperties"):
        if isinstance(part.get(key), dict):
            yield from properties(f"{where}.{key}", part[key])


def resolved(schema: Part, part: Part) -> Part:
    while "$ref" in part:
        found: Any = schema
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def of_content(content: Part) -> Part:
    """A stream tells what one of its events is."""
    found: Part = content.get("schema") or content.get("itemSchema") or {}
    return found


def contents(schema: Part) -> Iterator[tuple[str, str, Part]]:
    for kind, where, part in parts(schema):
        if kind in ("body", "response"):
            for media, content in part["content"].items():
                yield kind, f"{where} {media}", content
                for _, within, field in properties(f"{where} {media}", of_content(content)):
                    yield "form", within, field


def examples(schema: Part, part: Part) -> list[Any]:
    """Of a parameter, a header, a content or a schema, in each way that OpenAPI 3.1 knows."""
    found = [part["example"]] if "example" in part else []
    several = part.get("examples", ())
    found += [resolved(schema, each)["value"] for each in several.values()] if isinstance(several, dict) else several
    return found or (examples(schema, part["schema"]) if "schema" in part else [])


def shown(schema: Part, part: Part) -> bool:
    """By an example of its own, or by those of all that it is made of."""
    part = resolved(schema, part)
    if examples(schema, part) or "const" in part:
        return True
    kinds = [kind for kind in part.get("anyOf", ()) if kind != {"type": "null"}]
    inner = kinds or ([part["items"]] if "items" in part else list(part.get("properties", {}).values()))
    return bool(inner) and all(shown(schema, one) for one in inner)


def validator(schema: Part, part: Part) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        {"components": schema["components"], "allOf": [part]}, validate_formats=True
    )


def schemas_with_examples(schema: Part) -> Iterator[tuple[str, Part, list[Any]]]:
    for kind, where, part in [*parts(schema), *contents(schema)]:
        if kind in ("property", "form"):
            yield where, part, examples(schema, part)
        elif "schema" in part:
            yield where, part["schema"], examples(schema, part)
    for name, model in schema["components"]["schemas"].items():
        yield name, model, examples(schema, model)


def test_every_parameter_body_response_header_and_property_is_described(schema):
    told = [*parts(schema), *(each for each in contents(schema) if each[0] == "form")]
    missing = [f"{kind} {where}" for kind, where, part in told if len(part.get("description", "")) < 4]

    assert len(told) > 300
    assert missing == []


def test_every_schema_is_described(schema):
    assert [name for name, model in schema["components"]["schemas"].items() if not model.get("description")] == []


def test_every_parameter_and_header_has_an_example(schema):
    told = [(where, part) for kind, where, part in parts(schema) if kind in ("parameter", "header")]

    assert [where for where, part in told if not examples(schema, part)] == []


def test_every_body_and_every_answer_has_an_example_of_the_whole(schema):
    """Errors have one for each code."""
    told = [(where, part) for kind, where, part in contents(schema) if kind != "form"]

    assert [where for where, part in told if not of_content(part)] == []
    assert [where for where, part in told if not {"example", "examples"} & set(part)] == []


def test_every_property_has_an_example(schema):
    told = [*parts(schema), *contents(schema)]

    assert [where for kind, where, part in told if kind in ("property", "form") and not shown(schema, part)] == []


def test_every_example_is_what_its_schema_says(schema):
    wrong, count = [], 0
    for where, part, found in schemas_with_examples(schema):
        check = validator(schema, part)
        count += len(found)
        wrong += [f"{where}: {example!r}: {error.message}" for example in found for error in check.iter_errors(example)]

    assert count > 600
    assert wrong == []


@pytest.mark.parametrize(
    ("about", "example", "good"),
    [
        ({"type": "integer", "minimum": 1}, 0, False),
        ({"$ref": "#/components/schemas/Fault"}, {"pointer": "/images/0"}, False),
        ({"$ref": "#/components/schemas/Fault"}, {"pointer": "/x", "code": "x", "detail": "x"}, True),
    ],
)
def test_a_wrong_example_would_be_found(schema, about, example, good):
    assert validator(schema, about).is_valid(example) is good
