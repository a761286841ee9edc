import asyncio
import contextlib
import shutil
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from service.api.upload_form import receive
from service.config import Settings
from service.errors import InvalidForm, TooLarge, TooManyImages, UnsupportedMediaType
from tests.pictures import picture

LIMITS = Settings(max_upload_bytes=2_000_000, max_upload_images=5)
BOUNDARY = b"----7d1a"
TYPE = b"multipart/form-data; boundary=" + BOUNDARY
# Bytes that look like boundaries, over and over.
TRAP = b"\r\n--" + b"\r\n--".join([BOUNDARY[:-1], BOUNDARY + b"x", b"", b"-", BOUNDARY[:4]]) * 50 + b"\r\n"
PARTS = [
    ("archive", "birds.zip", TRAP),
    ("labels", None, "Zürich".encode()),
    ("files", "3.png", picture(3)),
    ("labels", None, b"digit-3"),
    ("files", "Zürich, \"quoted\".png", picture(4)),
    ("empty", None, b""),
    ("files", "nothing.png", b""),
]  # fmt: skip


def part(name: str, filename: str | None, content: bytes) -> bytes:
    quoted = "" if filename is None else '; filename="{}"'.format(filename.replace('"', '\\"'))
    kind = "" if filename is None else "\r\nContent-Type: application/octet-stream"
    head = f'Content-Disposition: form-data; name="{name}"{quoted}{kind}'
    return b"--" + BOUNDARY + b"\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


def form(parts) -> bytes:
    return b"".join(part(*one) for one in parts) + b"--" + BOUNDARY + b"--\r\n"


def send(body, folder, chunk=2**16, limits=LIMITS, kind=TYPE, headers=(), cut=False, **options):
    """As uvicorn would hand it over, in pieces."""
    pieces = body if not isinstance(body, bytes) else (body[i : i + chunk] for i in range(0, len(body), chunk))
    pieces = iter(pieces)

    async def messages():
        for piece in pieces:
            return {"type": "http.request", "body": piece, "more_body": True}
        return {"type": "http.disconnect"} if cut else {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/updates",
        "query_string": b"",
        "headers": [*([(b"content-type", kind)] if kind else []), *headers],
    }
    return asyncio.run(receive(Request(scope, messages), folder, limits, **options))


def contents(received):
    return [(file.field, file.filename, file.path.read_bytes()) for file in received.files]


EXPECTED_FILES = [one for one in PARTS if one[1] is not None]
EXPECTED_FIELDS = {"labels": ["Zürich", "digit-3"], "empty": [""]}


@settings(deadline=None)
@given(chunk=st.integers(1, 2**16), block=st.integers(1, 2**16))
def test_the_same_files_arrive_whatever_the_size_of_the_pieces(tmp_path_factory, chunk, block):
    folder = tmp_path_factory.mktemp("form")

    received = send(form(PARTS), folder, chunk, block_bytes=block)

    assert contents(received) == EXPECTED_FILES
    assert received.fields == EXPECTED_FIELDS
    assert [file.bytes for file in received.files] == [len(content) for _, _, content in EXPECTED_FILES]
    assert {path.name for path in folder.iterdir()} == {"000001", "000002", "000003", "000004"}
    shutil.rmtree(folder)


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_single_bytes_make_a_form(tmp_path, chunk):
    received = send(form(PARTS), tmp_path, chunk, block_bytes=1)

    assert contents(received) == EXPECTED_FILES
    assert received.fields == EXPECTED_FIELDS


def test_a_large_file_never_is_in_memory(tmp_path):
    head, end = form([("archive", "birds.zip", b"|")]).split(b"|")
    pieces = iter([head, *[b"\r\n--" * 2**14] * 800, end])  # 50 MB
    tracemalloc.start()
    try:
        received = send(pieces, tmp_path, limits=Settings(max_upload_bytes=2**26))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()

    assert received.files[0].bytes == received.files[0].path.stat().st_size == 800 * 2**16


def test_an_announced_length_over_the_limit_is_refused_before_a_byte_is_read(tmp_path):
    pieces = iter([form(PARTS)])

    with pytest.raises(TooLarge, match="more than 2000000 bytes"):
        send(pieces, tmp_path, headers=[(b"content-length", b"2000001")])

    assert next(pieces)


def test_a_body_over_the_limit_is_refused_while_it_is_read(tmp_path):
    with pytest.raises(TooLarge, match="more than 2000000 bytes"):
        send(form([("archive", "birds.zip", bytes(2_000_000))]), tmp_path)

    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2_000_000


def test_a_body_just_at_the_limit_is_read(tmp_path):
    body = form([("archive", "birds.zip", b"x" * 1000)])

    assert send(body, tmp_path, limits=Settings(max_upload_bytes=len(body))).files[0].bytes == 1000


def test_more_files_than_images_are_allowed_are_refused(tmp_path):
    with pytest.raises(TooManyImages, match="more than 5 files"):
        send(form([("files", f"{i}.png", b"x") for i in range(6)]), tmp_path)


def test_more_fields_than_one_for_each_image_and_option_are_refused(tmp_path):
    fields = [("labels", None, b"x")] * 105
    assert len(send(form(fields), tmp_path).fields["labels"]) == 105

    with pytest.raises(TooLarge, match="more than 105 fields"):
        send(form([*fields, ("labels", None, b"x")]), tmp_path)


def test_a_field_is_no_file(tmp_path):
    assert send(form([("labels", None, b"x" * 2**16)]), tmp_path).fields["labels"] == ["x" * 2**16]
    with pytest.raises(TooLarge, match="'labels' has more than 65536 bytes"):
        send(form([("labels", None, b"x" * (2**16 + 1))]), tmp_path)


def test_names_and_fields_are_bounded_together(tmp_path):
    fields = form([("labels", None, b"x" * 2**16)] * 1100)

    with pytest.raises(TooLarge, match="names and fields"):
        send(fields, tmp_path, limits=Settings(max_upload_bytes=2**30))


def test_no_file_chosen_in_a_browser_is_no_file(tmp_path):
    received = send(form([("archive", "", b""), ("files", "3.png", b"x"), ("files", "", b"y")]), tmp_path)

    assert contents(received) == [("files", "3.png", b"x"), ("files", "", b"y")]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("filename", ["../../evil", "/etc/passwd", "a\\..\\b", "000001"])
def test_the_name_of_a_file_never_becomes_a_path(tmp_path, filename):
    folder = tmp_path / "form"

    received = send(form([("archive", filename, b"x")]), folder)

    assert received.files[0].path == folder / "000001"
    assert [path.name for path in tmp_path.rglob("*")] == ["form", "000001"]


@pytest.mark.parametrize(
    "kind", [b"", b"application/zip", b"application/x-www-form-urlencoded", b"multipart/mixed; boundary=x"]
)
def test_other_content_types_are_refused_with_advice(tmp_path, kind):
    with pytest.raises(UnsupportedMediaType, match="curl -F archive"):
        send(b"x", tmp_path, kind=kind)


HEAD = b"--" + BOUNDARY + b"\r\n"
BROKEN = {
    "nothing": b"",
    "no form at all": b"PK\x03\x04 this is the zip itself",
    "another boundary": form(PARTS).replace(BOUNDARY, b"other"),
    "cut within a file": form(PARTS)[:300],
    "cut within a header": form(PARTS)[:30],
    "no last boundary": form(PARTS)[: -len(BOUNDARY) - 6],
    "no header": HEAD + b"\r\nx\r\n--" + BOUNDARY + b"--\r\n",
    "no name": HEAD + b"Content-Disposition: form-data\r\n\r\nx\r\n--" + BOUNDARY + b"--\r\n",
    "an attachment": HEAD + b'Content-Disposition: attachment; name="a"\r\n\r\nx\r\n--' + BOUNDARY + b"--\r\n",
    "a name that is not UTF-8": form(PARTS).replace(b"birds.zip", b"\xff.zip"),
    "a name with a control character": form(PARTS).replace(b"birds.zip", b"a\x00b.zip"),
    "a field that is not UTF-8": form([("labels", None, b"\xff")]),
    "too many headers": HEAD + b"X: y\r\n" * 100 + b"\r\n",
    "an endless header": HEAD + b"Content-Disposition: " + b"x" * 10_000,
}


@pytest.mark.parametrize("chunk", [1, 2**16])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_form_is_refused(tmp_path, broken, chunk):
    with pytest.raises(InvalidForm, match="; "):
        send(BROKEN[broken], tmp_path, chunk, block_bytes=chunk)


@pytest.mark.parametrize("kind", [b"multipart/form-data", b"multipart/form-data; boundary=", TYPE + b"x" * 300])
def test_a_boundary_is_needed(tmp_path, kind):
    with pytest.raises(InvalidForm):
        send(form(PARTS), tmp_path, kind=kind)


def test_a_client_that_goes_away_leaves_no_open_file(tmp_path):
    with pytest.raises(InvalidForm, match="connection ended"):
        send(form(PARTS)[:300], tmp_path, cut=True)  # an unclosed file would be a warning, which is an error here


@settings(deadline=None)
@given(st.binary(max_size=400), st.integers(0, 600), st.integers(1, 50))
def test_damaged_forms_are_read_or_refused_and_never_break_anything(tmp_path_factory, junk, place, chunk):
    folder = tmp_path_factory.mktemp("form")
    body = form(PARTS[1:])
    with contextlib.suppress(InvalidForm, TooManyImages):
        send(body[:place] + junk + body[place:], folder, chunk, block_bytes=chunk)
    shutil.rmtree(folder)


def test_an_unwritable_folder_keeps_its_error(tmp_path):
    (tmp_path / "000001").write_bytes(b"somebody else's")

    with pytest.raises(FileExistsError):
        send(form(PARTS), tmp_path)
