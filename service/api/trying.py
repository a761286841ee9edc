"""The description as the page of the docs reads it. Swagger UI fills every field with its example and sends all of it,
so there whatever may be left out has its example in words."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

__all__ = ["for_trying"]

_FORM = "multipart/form-data"


def for_trying(schema: dict[str, Any]) -> dict[str, Any]:
    changed = deepcopy(schema)
    for operations in changed["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if not parameter.get("required"):
                    _in_words(parameter, parameter["schema"])
            form = operation.get("requestBody", {"content": {}})["content"].get(_FORM, {})
            form.pop("example", None)
            form.pop("examples", None)
            for field in form.get("schema", {}).get("properties", {}).values():
                _start_empty(field)
    return changed


def _start_empty(field: dict[str, Any]) -> None:
    """Without any example Swagger UI fills in "string", 1 or the first choice. Files it lets one choose."""
    if field.get("items", {}).get("format") == "binary":
        del field["examples"]
        return
    _in_words(field, field)
    field["example"] = [] if field["type"] == "array" else ""


def _in_words(part: dict[str, Any], schema: dict[str, Any]) -> None:
    examples = [*schema.pop("examples", ()), *part.pop("examples", ())]
    example = part.pop("example", *examples[:1])
    shown = example if isinstance(example, str) else json.dumps(example)
    part["description"] = f"{part['description']} (such as {shown})"
