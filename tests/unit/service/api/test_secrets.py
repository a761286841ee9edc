"""Neither keys nor images stand in a log or in a problem, whatever is asked."""

import base64
import logging

import pytest

from service.logs import _KeyValues
from tests.pictures import picture
from tests.unit.service.api.sending import digits, packed

KINDS = ("{}", "Bearer {}", "bearer {} ", "Basic {}", "{}/..", "\t{}")


def traces(image: bytes) -> list[str]:
    """How bytes could show up in text: as they are, escaped, as hex or as base64; from their middle, where each image
    is unlike all others."""
    part = image[len(image) // 2 :][:24]
    encoded = base64.b64encode(image).decode()
    return [part.decode("latin-1"), repr(part)[2:-1], part.hex(), encoded[len(encoded) // 2 :][:24]]


@pytest.fixture
def calls(client):
    images = [picture(7, number) for number in range(3)]
    forms = [
        ("POST", "/v1/classify", {"content": images[0]}),
        ("POST", "/v1/classify", {"content": images[0][:60]}),
        ("POST", "/v1/search", {"files": {"files": images[1]}}),
        ("POST", "/v1/updates", {"files": packed(digits(7, 8))}),
        ("POST", "/v1/updates", {"files": packed({"digit-9/0.png": images[2][:-30]})}),
        ("POST", "/v1/updates", {"content": images[2]}),
        ("PATCH", "/v1/classes/digit-0", {"content": images[2]}),
        ("GET", "/v1/classes", {"headers": {"If-Match": "x"}}),
        ("POST", "/v1/versions/1/activate", {"headers": {"If-Match": "x"}}),
        ("GET", "/v1/nothing", {}),
        ("GET", "/broken", {}),
    ]

    async def broken() -> None:
        raise RuntimeError("broken")

    client.app.add_api_route("/broken", broken)
    client.event_hooks = {}
    return images, forms


@pytest.mark.parametrize("scope", ["query", "admin"])
def test_no_key_and_no_image_is_logged_or_repeated(client, parts, make_key, caplog, calls, scope):
    caplog.set_level(logging.DEBUG)
    token = make_key(scope)["Authorization"].removeprefix("Bearer ")
    secret = token.rpartition(token.split("_")[1])[2]
    images, forms = calls
    said = []
    for method, path, how in forms:
        for kind in KINDS:
            headers = how.get("headers", {}) | {"Authorization": kind.format(token)}
            said.append(client.request(method, path, **{**how, "headers": headers}))
    parts.keyring.note_used()

    lines = [_KeyValues("%(message)s").format(record) for record in caplog.records]
    text = "\n".join([*lines, *(record.getMessage() for record in caplog.records), *caplog.text.splitlines()])
    assert {response.status_code for response in said} >= {200, 401, 404, 422}
    assert len(lines) >= len(said), "the log was looked at"
    for response in said:
        assert secret not in response.text + str(response.headers)
        text += response.text
    assert secret not in text
    assert [trace for image in images for trace in traces(image) if trace in text] == []
