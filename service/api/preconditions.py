"""If-Match: change something only if the caller knows what is active."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from service.errors import InvalidPrecondition

__all__ = ["IfMatch", "expected_version"]

IfMatch = Annotated[
    str | None,
    Header(
        description="The version you believe is active. If it is not, 412 and nothing changes.",
        examples=["3"],
        json_schema_extra={"pattern": r'^(\*|"?[0-9]{1,18}"?)$'},  # told, not checked by it: our own error says more
    ),
]


def expected_version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidPrecondition(f"If-Match must be the number of a version, such as 3, not {if_match!r}")
    return int(text)
