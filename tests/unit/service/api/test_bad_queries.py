"""Images that cannot be answered: each a problem with a stable code, and nothing has changed."""

import asyncio
import struct
import zlib
from contextlib import ExitStack
from typing import Any

import pytest
from PIL import Image

from service.app import create_app
from service.config import Settings
from tests.local import local_client
from tests.pictures import encoded, picture
from tests.unit.service.api.surface import refused

pytestmark = pytest.mark.usefixtures("unchanged")


def claims_to_be(width: int, height: int) -> bytes:
    """A PNG of 100 bytes whose header announces far more than it holds."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    packed = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


FORM = "multipart/form-data; boundary=x"
BAD: dict[str, tuple[int, str, dict[str, Any]]] = {
    "0 bytes": (422, "empty_image", {"content": b""}),
    "not an image": (422, "not_an_image", {"content": b"hello"}),
    "an image of a kind that is not read": (422, "not_an_image", {"content": encoded(Image.new("L", (8, 8)), "TIFF")}),
    "truncated": (422, "damaged_image", {"content": picture(0)[:-40]}),
    "100 megapixels": (422, "too_many_pixels", {"content": claims_to_be(10_000, 10_000)}),
    "4 billion pixels": (422, "too_many_pixels", {"content": claims_to_be(65_535, 65_535)}),
    "too thin": (422, "too_many_pixels", {"content": encoded(Image.new("1", (100_000, 1)), "PNG")}),
    "bad in two ways": (422, "bad_images", {"files": [("a", ("a.png", b"")), ("b", ("b.png", b"hello"))]}),
    "too many bytes": (413, "too_large", {"content": b"x" * 2001}),
    "too many bytes, unannounced": (413, "too_large", {"content": [b"x" * 100] * 100}),
    "too many bytes, announced only": (413, "too_large", {"content": b"x", "headers": {"Content-Length": "9" * 12}}),
    "one file too large": (413, "too_large", {"files": [("a", ("a.png", b"x" * 2001))]}),
    "all files too large": (413, "too_large", {"files": [("a", ("a.png", b"x" * 1900))] * 4}),
    "too many images": (413, "too_many_images", {"files": [("a", ("a.png", b"x"))] * 5}),
    "wrong content type": (415, "unsupported_media_type", {"json": {"image": "a"}}),
    "not a form": (400, "invalid_form", {"content": b"hello", "headers": {"Content-Type": FORM}}),
    "no boundary": (400, "invalid_form", {"content": b"hello", "headers": {"Content-Type": "multipart/form-data"}}),
    "too many classes asked for": (422, "invalid_request", {"content": picture(0), "params": {"top_k": 1001}}),
    "no class asked for": (422, "invalid_request", {"content": picture(0), "params": {"top_k": 0}}),
    "no version": (422, "invalid_request", {"content": picture(0), "params": {"version": "latest"}}),
    "version 0": (422, "invalid_request", {"content": picture(0), "params": {"version": 0}}),
}
CASES = [(path, case) for path in ("classify", "search", "embeddings") for case in BAD]
CASES = [(path, case) for path, case in CASES if not (path == "embeddings" and "asked for" in case)]  # it has no top_k


@pytest.mark.parametrize(("path", "case"), CASES)
def test_bad_input_is_a_problem_with_a_stable_code(client, path, case):
    status, code, request = BAD[case]
    if isinstance(request.get("content"), list):
        request = request | {"content": iter(request["content"])}
    response = client.post(f"/v1/{path}", **request)

    assert refused(response, status, code)["instance"] == f"/v1/{path}"


def test_each_bad_image_of_a_form_is_named(client):
    files = [("a", ("a.png", b"")), ("a", ("b.png", picture(1))), ("a", ("c.png", b"hello"))]
    problem = refused(client.post("/v1/classify", files=files), 422, "bad_images")

    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
        ("/images/0", "empty_image"),
        ("/images/2", "not_an_image"),
    ]


def test_a_form_without_a_file_says_how_to_send_one(client):
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nhello\r\n--x--\r\n'
    response = client.post("/v1/classify", content=body, headers={"Content-Type": FORM})

    assert "-F files=@photo.jpg" in refused(response, 400, "invalid_form")["detail"]


def test_items_cannot_be_searched_yet(client):
    response = client.post("/v1/search", params={"what": "items"}, content=picture(1))

    assert "classes" in refused(response, 422, "invalid_request")["detail"]


# Pillow warns of these by itself; in a service a warning is a line in the log and nothing more.
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_real_image_of_100_megapixels_is_refused_by_the_limits_that_nobody_changed(home):
    with local_client(create_app(Settings(home=home.home, serve_threads=1))) as client:
        content = encoded(Image.new("1", (10_000, 10_000)), "PNG")
        assert len(content) < 100_000
        response = client.post("/v1/classify", content=content)

    assert "10000 x 10000" in refused(response, 422, "too_many_pixels")["detail"]


@pytest.mark.parametrize("path", ["classify", "search", "embeddings"])
def test_one_query_too_many_is_told_to_come_back(client, parts, path):
    with ExitStack() as others:
        for _ in range(parts.gate.limit):
            others.enter_context(parts.gate)
        response = client.post(f"/v1/{path}", content=picture(1))
        refused(response, 503, "busy")
        assert response.headers["Retry-After"] == "1"

    assert client.post(f"/v1/{path}", content=picture(1)).status_code == 200


@pytest.mark.parametrize("how", [{"content": picture(1)}, {"files": {"files": picture(1)}}], ids=["raw", "form"])
def test_more_bytes_than_may_wait_are_told_to_come_back(client, parts, how):
    parts.bodies.take(parts.bodies.limit - 100)  # as other queries do
    response = client.post("/v1/classify", **how)
    refused(response, 503, "busy")
    assert response.headers["Retry-After"] == "1"
    assert parts.bodies.used == parts.bodies.limit - 100, "what came of it is given back"

    parts.bodies.give_back(parts.bodies.used)
    assert client.post("/v1/classify", **how).status_code == 200
    assert parts.bodies.used == 0


def test_a_connection_that_ends_within_the_body_is_no_accident_of_ours(client, caplog):
    messages = iter([{"type": "http.request", "body": b"half", "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/classify",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(client.app(scope, receive, send))

    assert sent[0]["status"] == 400
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_query_that_waited_longer_than_it_may_is_told_when_to_ask_again(home):
    with local_client(create_app(home.model_copy(update={"query_seconds": 1e-9}))) as client:
        response = client.post("/v1/classify", content=picture(0))

    assert "ask again in a moment" in refused(response, 503, "too_late")["detail"]
    assert response.headers["Retry-After"] == "1"
