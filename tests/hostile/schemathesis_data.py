"""Files for generated requests: real images and archives, broken ones, and any bytes. schemathesis loads this."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, CheckContext, Response

from tests.packing import DIGITS, tarred, zipped
from tests.pictures import picture

__all__ = ["FILES"]

FILES = [
    *DIGITS.values(),
    picture(3)[:60],
    zipped(DIGITS),
    tarred({name.replace("digit", "other"): content for name, content in DIGITS.items()}),
    zipped({"../evil/0.png": picture(3)}),
    b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    b"",
]

schemathesis.openapi.format("binary", st.one_of(st.sampled_from(FILES), st.binary(max_size=2000)))


@schemathesis.check
def a_503_says_when_to_come_back(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Whoever is refused for now must be told for how long; not where to wait does not help, without any class."""
    lasting = any(word in response.content for word in (b'"no_classes_yet"', b'"not ready"'))
    if response.status_code == 503 and not lasting and "retry-after" not in {name.lower() for name in response.headers}:
        raise AssertionError("503 without Retry-After")
