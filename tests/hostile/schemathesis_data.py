"""Files for generated requests: real images and archives, broken ones, and any bytes. schemathesis loads this."""

from __future__ import annotations

import schemathesis
from hypothesis import strategies as st

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
