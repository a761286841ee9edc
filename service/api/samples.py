"""An example of a whole answer, put together from those of its parts, so that they cannot contradict each other."""

from __future__ import annotations

from typing import Any

__all__ = ["sample"]

Schema = dict[str, Any]


def sample(schema: Schema, components: dict[str, Schema]) -> Any:
    """Of a schema of the description whose properties all have examples."""
    if "$ref" in schema and not {"example", "examples"} & set(schema):
        return sample(components[schema["$ref"].rpartition("/")[2]], components)
    if "example" in schema:
        return schema["example"]
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], components)
    if schema.get("type") == "array":
        return [sample(schema["items"], components)]
    if "properties" in schema:
        return {name: sample(about, components) for name, about in schema["properties"].items()}
    raise LookupError(f"no example in {schema}; give its Field one: examples=[...]")
