from typing import Any

import pytest
from PIL import Image

from tests.brute_force import distances_to
from tests.pictures import encoded, picture
from zstci import ImageFiles, Snapshot


@pytest.fixture
def expected(snapshots, tmp_path):
    """Brute force on version 2."""

    def distances(content: bytes, snapshot: Snapshot | None = None) -> dict[str, float]:
        path = tmp_path / "image.png"
        path.write_bytes(content)
        return distances_to(snapshot or snapshots[1], path)

    return distances


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/x-www-form-urlencoded", None])
def test_a_raw_body_is_classified_like_brute_force_whatever_image_type_it_claims(client, expected, kind):
    headers = {"Content-Type": kind} if kind else {}
    response = client.post("/v1/classify", content=picture(3), headers=headers)

    assert response.status_code == 200
    [found] = response.json()["data"]
    assert found["version"] == 2 == int(response.headers["X-Model-Version"])
    distances = expected(picture(3))
    assert [entry["class_id"] for entry in found["predictions"]] == list(distances)
    assert [entry["distance"] for entry in found["predictions"]] == pytest.approx(list(distances.values()), abs=1e-4)
    assert found["margin"] == pytest.approx(found["predictions"][1]["distance"] - found["predictions"][0]["distance"])


def test_several_images_of_a_form_are_answered_in_their_order(client, expected):
    images = [picture(4), picture(0), picture(2)]
    files = [("anything", (f"{i}.png", content)) for i, content in enumerate(images)]
    response = client.post("/v1/classify", params={"top_k": 1}, files=files)

    nearest = [found["predictions"][0]["class_id"] for found in response.json()["data"]]
    assert nearest == [next(iter(expected(content))) for content in images]


def test_search_ranks_the_classes(client, expected):
    response = client.post("/v1/search", params={"what": "classes", "top_k": 3}, content=picture(1))

    [found] = response.json()["data"]
    assert [(hit["class_id"], hit["name"]) for hit in found["hits"]] == [(n, n) for n in list(expected(picture(1)))[:3]]
    assert "score" not in found["hits"][0]


def test_embeddings_are_vectors_of_the_common_space(client, snapshots, tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(picture(2))
    expected = snapshots[1].embed(ImageFiles([path])).tolist()
    body = client.post("/v1/embeddings", content=picture(2)).json()

    assert (body["dim"], body["version"]) == (16, 2)
    assert body["data"] == [pytest.approx(row) for row in expected]


def wide(pixels: int) -> bytes:
    return encoded(Image.new("1", (1000, pixels // 1000)), "PNG")


BAD: dict[str, tuple[int, dict[str, Any]]] = {
    "empty_image": (422, {"content": b""}),
    "not_an_image": (422, {"content": b"hello"}),
    "damaged_image": (422, {"content": picture(0)[:-40]}),
    "too_many_pixels": (422, {"content": wide(2_000_000)}),
    "bad_images": (422, {"files": [("a", ("a.png", b"")), ("b", ("b.png", b"hello"))]}),
    "too_large": (413, {"content": b"x" * 2001}),
    "too_many_images": (413, {"files": [("a", ("a.png", b"x"))] * 5}),
    "unsupported_media_type": (415, {"json": {"image": "a"}}),
    "invalid_form": (400, {"content": b"hello", "headers": {"Content-Type": "multipart/form-data; boundary=x"}}),
    "invalid_request": (422, {"content": picture(0), "params": {"top_k": 0}}),
}


CASES = [(path, code) for path in ("classify", "search", "embeddings") for code in BAD]
CASES.remove(("embeddings", "invalid_request"))  # it has no parameter


@pytest.mark.parametrize(("path", "code"), CASES)
def test_bad_input_is_a_problem_with_a_stable_code(client, path, code):
    status, request = BAD[code]
    response = client.post(f"/v1/{path}", **request)

    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert response.headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == f"urn:zstci:problem:{code}"
    assert problem["instance"] == f"/v1/{path}"
    assert problem["request_id"] == response.headers["X-Request-ID"]


def test_each_bad_image_of_a_form_is_named(client):
    files = [("a", ("a.png", b"")), ("a", ("b.png", picture(1))), ("a", ("c.png", b"hello"))]
    problem = client.post("/v1/classify", files=files).json()

    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
        ("/images/0", "empty_image"),
        ("/images/2", "not_an_image"),
    ]


@pytest.mark.parametrize(
    "files",
    [
        [("a", ("a.png", b"x" * 2001))],  # one image
        [("a", ("a.png", b"x" * 1900))] * 4,  # all of them together
    ],
)
def test_too_many_bytes_in_a_form_are_refused(client, files):
    response = client.post("/v1/classify", files=files)

    assert (response.status_code, response.json()["code"]) == (413, "too_large")


def test_a_body_that_does_not_announce_its_length_is_cut_off_too(client):
    def endless():
        for _ in range(100):
            yield b"x" * 100

    response = client.post("/v1/classify", content=endless())

    assert (response.status_code, response.json()["code"]) == (413, "too_large")


def test_a_form_without_a_file_says_how_to_send_one(client):
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nhello\r\n--x--\r\n'
    response = client.post("/v1/classify", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})

    assert response.json()["code"] == "invalid_form"
    assert "-F files=@photo.jpg" in response.json()["detail"]


def test_without_a_version_a_query_says_what_to_do(empty_client):
    response = empty_client.post("/v1/classify", content=picture(1))

    assert (response.status_code, response.json()["code"]) == (503, "no_classes_yet")
    assert response.json()["detail"] == "no classes yet: run zstci learn DIR"
