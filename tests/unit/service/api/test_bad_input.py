"""Updates that are refused: each a problem with a stable code, and nothing has changed."""

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from PIL import Image

from service.app import create_app
from tests.local import local_client
from tests.packing import tar_member, tar_of, tarred, zipped
from tests.pictures import encoded, picture
from tests.unit.service.api.sending import NEW, digits, packed, send
from tests.unit.service.api.surface import everything, refused
from tests.unit.service.api.test_bad_queries import claims_to_be


def tar(content: bytes) -> dict[str, Any]:
    return {"files": {"archive": ("a.tar", content)}}


def labelled(labels: Any, names: tuple[str, ...] = ("a.png", "b.png"), content: bytes | None = None) -> dict[str, Any]:
    files = [("files", (name, picture(7, i) if content is None else content)) for i, name in enumerate(names)]
    return {"files": files, "data": {"labels": labels}}


TWICE = tar_of([(tar_member("digit-7/0.png", len(picture(7))), picture(7))] * 2)
OUTSIDE = {**NEW, "../digit-7/9.png": picture(7)}
LINK = tar_of([(tar_member("digit-7/0.png", kind=tarfile.SYMTYPE), b"")])
FORM = {"Content-Type": "multipart/form-data; boundary=x"}
NO_FILE = b'--x\r\nContent-Disposition: form-data; name="epochs"\r\n\r\n5\r\n--x--\r\n'
BAD: dict[str, tuple[int, str, dict[str, Any]]] = {
    "wrong content type": (415, "unsupported_media_type", {"json": {"archive": "a"}}),
    "the archive as the body": (415, "unsupported_media_type", {"content": zipped(NEW)}),
    "no body": (415, "unsupported_media_type", {}),
    "not a form": (400, "invalid_form", {"content": b"hello", "headers": FORM}),
    "half a form": (400, "invalid_form", {"content": NO_FILE[:-8], "headers": FORM}),
    "a form without a file": (422, "bad_upload", {"content": NO_FILE, "headers": FORM}),
    "a file under another name": (400, "invalid_form", {"files": {"zip": ("a.zip", zipped(NEW))}}),
    "not an archive": (422, "bad_archive", tar(b"hello")),
    "an image as archive": (422, "bad_archive", tar(picture(7))),
    "a truncated zip": (422, "bad_archive", tar(zipped(NEW)[:-30])),
    "a truncated tar": (422, "bad_archive", tar(tarred(NEW)[:1000])),
    "an entry outside": (422, "bad_archive", tar(zipped(OUTSIDE))),
    "a link": (422, "bad_archive", tar(LINK)),
    "an empty archive": (422, "bad_upload", tar(tarred({}))),
    "a level too many": (422, "wrong_layout", tar(zipped({f"birds/{name}": NEW[name] for name in NEW}))),
    "no level": (422, "wrong_layout", tar(tarred({"0.png": picture(7), "1.png": picture(7, 1)}))),
    "one name twice": (422, "duplicate_image", tar(TWICE)),
    "one name twice in two archives": (422, "duplicate_image", {"files": [*packed(NEW).items()] * 2}),
    "one name twice in files": (422, "duplicate_image", labelled(["a", "a"], ("a.png", "a.png"))),
    "an image too thin for the net": (
        422,
        "rejected_images",
        tar(tarred({**NEW, "digit-7/thin.png": encoded(Image.new("1", (1, 20_000)), "PNG")})),
    ),
    "a class that exists": (409, "class_exists", tar(tarred(digits(7, 3)))),
    "one image of a new class": (422, "too_few_images", tar(tarred({**NEW, "digit-9/0.png": picture(9)}))),
    "fewer labels than files": (422, "label_mismatch", labelled(["a"])),
    "more labels than files": (422, "label_mismatch", labelled(["a", "a", "a"])),
    "files without labels": (422, "label_mismatch", labelled([])),
    "labels that are no list": (422, "invalid_option", labelled('["a", "b"')),
    "labels that are numbers": (422, "invalid_option", labelled("[1, 2]")),
    "labels of 50,000 brackets": (422, "invalid_option", labelled("[" * 50_000)),
    "an archive with labels": (422, "invalid_option", {**tar(tarred(NEW)), "data": {"labels": "a"}}),
    "an invisible class": (422, "bad_class_name", labelled(["a\u202eb", "a\u202eb"])),
    "a class of slashes": (422, "bad_class_name", labelled(["../etc", "../etc"])),
    "a class without a name": (422, "bad_class_name", labelled(["", ""])),
    "half a character": (422, "bad_class_name", labelled('["a\\ud800", "a\\ud800"]')),
    "too many images": (413, "too_many_images", tar(tarred(digits(7, count=51)))),
    "too many classes": (413, "too_many_classes", tar(tarred({f"{i}/a.png": picture(7) for i in range(9)}))),
    "no key": (422, "invalid_request", {**tar(tarred(NEW)), "headers": {"Idempotency-Key": ""}}),
    "too long a key": (422, "invalid_request", {**tar(tarred(NEW)), "headers": {"Idempotency-Key": "x" * 201}}),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", BAD)
def test_an_upload_that_cannot_be_learnt_from_is_a_problem_and_leaves_nothing(client, case):
    status, code, request = BAD[case]

    assert refused(client.post("/v1/updates", **request), status, code)["instance"] == "/v1/updates"


IMAGES = {
    "not_an_image": b"hello",
    "damaged_image": picture(7)[:-40],
    "empty_image": b"",
    "too_many_pixels": claims_to_be(10_000, 10_000),
    "image_too_large": picture(7) + b"x" * 2000,
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("code", IMAGES)
@pytest.mark.parametrize("way", ["archive", "files"])
def test_an_image_that_cannot_be_used_refuses_the_update_and_is_named(client, code, way):
    if way == "archive":
        response = send(client, {**NEW, "digit-7/bad.png": IMAGES[code]})
    else:
        files = [("files", (f"{i}.png", picture(7, i))) for i in range(2)]
        files.append(("files", ("bad.png", IMAGES[code])))
        response = client.post("/v1/updates", files=files, data={"labels": ["digit-7"] * 3})

    problem = refused(response, 422, "rejected_images")
    [fault] = problem["errors"]
    assert (fault["pointer"], fault["code"]) == ("/upload/digit-7/bad.png", code)
    assert fault["detail"] in problem["detail"]
    assert "on_bad_image=skip" in problem["detail"]


@pytest.mark.usefixtures("unchanged")
def test_every_bad_image_is_listed(client):
    bad = {f"digit-7/{code}.png": content for code, content in IMAGES.items()}
    problem = refused(send(client, {**NEW, **bad}), 422, "rejected_images")

    assert {fault["pointer"]: fault["code"] for fault in problem["errors"]} == {
        f"/upload/digit-7/{code}.png": code for code in IMAGES
    }


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ({"digit-7/a.png": b"", "digit-7/b.png": b"hello"}, "rejected_images"),  # nothing is left
        ({"digit-7/a.png": b"", "digit-7/b.png": picture(7)}, "too_few_images"),
    ],
)
def test_what_skipping_leaves_must_still_be_enough(client, entries, code):
    refused(send(client, entries, on_bad_image="skip"), 422, code)


def test_a_class_that_waits_in_another_update_counts_as_existing(client, parts):
    send(client, digits(7))
    before = everything(parts)

    assert "digit-7" in refused(send(client, digits(7, 8)), 409, "class_exists")["detail"]
    assert everything(parts) == before


def too_much() -> Iterator[bytes]:
    yield b'--x\r\nContent-Disposition: form-data; name="archive"; filename="a.tar"\r\n\r\n'
    for _ in range(30):
        yield b"x" * 10_000


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_the_limit_is_cut_off(client, announced):
    content = b"".join(too_much()) if announced else too_much()
    problem = refused(client.post("/v1/updates", content=content, headers=FORM), 413, "too_large")

    assert "200000 bytes" in problem["detail"]


@pytest.mark.usefixtures("unchanged")
def test_one_upload_too_many_is_told_to_come_back(client, parts):
    with ExitStack() as others:
        for _ in range(parts.uploads.limit):
            others.enter_context(parts.uploads)
        response = send(client)
        refused(response, 503, "busy")
        assert response.headers["Retry-After"] == "1"
        assert client.post("/v1/classify", content=picture(1)).status_code == 200

    assert send(client, dry_run=True).status_code == 200


def test_one_waiting_update_too_many_is_told_to_come_back(home):
    with local_client(create_app(home.model_copy(update={"max_waiting": 1}))) as client:
        first = send(client, digits(7)).json()
        before = everything(client.app.state.parts)  # type: ignore[attr-defined]
        response = send(client, digits(8))
        refused(response, 503, "busy")
        assert response.headers["Retry-After"] == "60"
        assert everything(client.app.state.parts) == before  # type: ignore[attr-defined]
        client.post(f"/v1/updates/{first['id']}/cancel")
        assert send(client, digits(8)).status_code == 202
