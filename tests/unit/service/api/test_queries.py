import io
import threading
import time

import pytest
from PIL import Image

from tests.brute_force import distances_to
from tests.pictures import encoded, picture
from tests.unit.service.api.surface import refused
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
    assert [entry["distance"] for entry in found["predictions"]] == pytest.approx(list(distances.values()), abs=1e-5)
    assert [entry["name"] for entry in found["predictions"]] == list(distances)
    assert sum(entry["score"] for entry in found["predictions"]) == pytest.approx(1)
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
    assert body["data"] == [pytest.approx(row, abs=1e-5) for row in expected]


@pytest.mark.parametrize("path", ["classify", "search", "embeddings"])
def test_an_older_version_answers_who_asks_for_it_while_it_is_loaded(client, snapshots, expected, path):
    client.post("/v1/versions/1/activate")
    client.post("/v1/versions/2/activate")
    response = client.post(f"/v1/{path}", params={"version": 1}, content=picture(1))

    assert (response.status_code, response.headers["X-Model-Version"]) == (200, "1")
    if path == "classify":
        [found] = response.json()["data"]
        assert found["version"] == 1
        distances = {entry["class_id"]: entry["distance"] for entry in found["predictions"]}
        assert distances == pytest.approx(expected(picture(1), snapshots[0]), abs=1e-5)


def test_a_version_that_is_not_loaded_is_refused_with_those_that_are(client):
    for number in (1, 7):  # whether it exists or not: a query asks no database
        response = client.post("/v1/classify", params={"version": number}, content=picture(1))
        assert "loaded: 2" in refused(response, 409, "version_not_loaded")["detail"]


def test_top_k_beyond_the_classes_names_them_all(client):
    [found] = client.post("/v1/classify", params={"top_k": 1000}, content=picture(1)).json()["data"]

    assert len(found["predictions"]) == 5


def test_only_one_class_has_no_margin(client):
    client.post("/v1/versions/1/activate")
    for digit in (0, 1):
        client.delete(f"/v1/classes/digit-{digit}")
    [found] = client.post("/v1/classify", content=picture(2)).json()["data"]

    assert ([one["class_id"] for one in found["predictions"]], found["margin"]) == (["digit-2"], None)


def test_a_query_needs_no_database(client, parts):
    parts.follower.refresh()
    (parts.settings.home / "zstci.db").rename(parts.settings.home / "gone.db")

    assert client.post("/v1/classify", content=picture(1)).status_code == 200


def test_a_swap_meanwhile_does_not_touch_a_query_that_has_begun(client, parts):
    """Its thread is kept busy until another version is live."""
    let_go = threading.Event()
    blocker = parts.pool.submit(let_go.wait, 60)  # the only thread of the pool
    answers = []
    query = threading.Thread(target=lambda: answers.append(client.post("/v1/classify", content=picture(1))))
    query.start()
    while parts.gate.inside == 0:
        time.sleep(0.01)
    assert client.post("/v1/versions/1/activate").status_code == 200
    let_go.set()
    query.join(60)

    assert blocker.done()
    assert answers[0].headers["X-Model-Version"] == "2"
    assert answers[0].json()["data"][0]["version"] == 2
    assert client.post("/v1/classify", content=picture(1)).headers["X-Model-Version"] == "1"


def test_without_a_version_a_query_says_what_to_do(empty_client):
    for params in ({}, {"version": 1}):
        problem = refused(empty_client.post("/v1/classify", content=picture(1), params=params), 503, "no_classes_yet")
        assert problem["detail"] == "no classes yet: add some with zstci add DIR, or POST /v1/updates"


def test_a_phone_s_photo_with_a_second_picture_in_it_is_answered_by_its_first(client, expected):
    first, second = Image.open(io.BytesIO(picture(3))).convert("RGB"), Image.open(io.BytesIO(picture(0))).convert("RGB")
    content = encoded(first, "MPO", save_all=True, append_images=[second])
    [found] = client.post("/v1/classify", content=content).json()["data"]

    truth = expected(encoded(first, "JPEG"))
    assert found["predictions"][0]["class_id"] == next(iter(truth))
    assert found["predictions"][0]["distance"] == pytest.approx(next(iter(truth.values())), abs=1e-4)
