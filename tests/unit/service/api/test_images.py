"""The files of a form are the same whether the form is read at a glance or by Starlette's parser."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from service.api.images import read_images
from service.config import Settings
from service.errors import ServiceError

FILE = b'--b\r\nContent-Disposition: form-data; name="f"; filename="1.png"\r\n'
PART = FILE + b"Content-Type: image/png\r\n\r\n"
END = b"\r\n--b--\r\n"
FORMS = {
    "one file": PART + b"one" + END,
    "two files": PART + b"one\r\n" + PART + b"two" + END,
    "no type": FILE + b"\r\none" + END,
    "no line break at the end": PART + b"one\r\n--b--",
    "an empty file": PART + END,
    "line breaks around the content": PART + b"\r\n\r\none\r\n\r\n" + END,
    "the boundary within the content": PART + b"a--b--\r\nb\n--b\r--b--" + END,
    "longer than the boundary": PART + b"one\r\n--bb\r\ntwo" + END,
    "small letters": PART.lower() + b"one" + END,
    "a field beside the file": b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n' + PART + b"one" + END,
    "another header": FILE + b"X-Camera: 7\r\n\r\none" + END,
    "an escaped name": PART.replace(b"1.png", b'\\"1.png') + b"one" + END,
    "a name in UTF-8": PART.replace(b"1.png", "schwälbchen.png".encode()) + b"one" + END,
    "no file name": PART.replace(b"1.png", b"") + b"one" + END,
    "two names": FILE[:-2] + b"; filename*=utf-8''2.png\r\n\r\none" + END,
    "something before": b"hello\r\n" + PART + b"one" + END,
    "something behind": PART + b"one" + END + b"hello",
    "no end": PART + b"one",
    "no blank line": FILE + b"one" + END,
    "no content": FILE + b"\r\n--b--\r\n",
    "no part": b"--b--\r\n",
    "nothing": b"",
    "no form": b"hello",
}


def read(body: bytes, tmp_path: Any, *, announced: bool) -> list[bytes] | str:
    """The files, or the code of what is wrong. Starlette's parser reads what does not say how long it is."""
    headers = [(b"content-type", b"multipart/form-data; boundary=b")]
    if announced:
        headers.append((b"content-length", str(len(body)).encode()))
    messages = [{"type": "http.request", "body": body[i : i + 7], "more_body": True} for i in range(0, len(body), 7)]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Any:
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "app": None}
    try:
        return asyncio.run(read_images(Request(scope, receive), Settings(home=tmp_path, max_images=2)))
    except ServiceError as error:
        return error.code


# Of a form that ends early Starlette leaves a file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_alike_at_a_glance_and_by_the_parser(tmp_path, form):
    assert read(FORMS[form], tmp_path, announced=True) == read(FORMS[form], tmp_path, announced=False)


def test_a_form_that_is_read_at_a_glance_keeps_to_the_limits(tmp_path):
    found = read(PART + b"one\r\n" + PART + b"two\r\n" + PART + b"three" + END, tmp_path, announced=True)

    assert found == "too_many_images"
