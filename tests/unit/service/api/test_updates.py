"""Updates that are taken. No worker runs here, so they wait."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from tests.packing import tarred, zipped
from tests.pictures import TINY, picture
from tests.unit.service.api.sending import NEW, digits, send
from tests.unit.service.api.surface import everything, refused


def stored(parts) -> list[Path]:
    """Images on disk, wherever they are below the home."""
    return sorted(path for path in parts.settings.home.rglob("*.png"))


LABELS = ["digit-7", "digit-7", "digit-8", "digit-8"]
FILES = [("files", (f"{i}.png", picture(7 if i < 2 else 8, i), "image/png")) for i in range(4)]
WAYS = {
    "zip": ({"archive": ("a.zip", zipped(NEW))}, {}),
    "tar": ({"archive": ("a.tar", tarred(NEW))}, {}),
    "tar.gz": ({"archive": ("a.tgz", gzip.compress(tarred(NEW)))}, {}),
    "tar.xz without a name": ({"archive": ("-", tarred(NEW, "w:xz"))}, {}),
    "two archives": ([("archive", ("a.tar", tarred(digits(7)))), ("archive", ("b.zip", zipped(digits(8))))], {}),
    "files and as many labels": (FILES, {"labels": LABELS}),
    "files and labels as JSON": (FILES, {"labels": json.dumps(LABELS)}),
}


@pytest.mark.parametrize("way", WAYS)
def test_new_classes_are_taken_however_they_are_packed(client, parts, way):
    files, data = WAYS[way]
    response = client.post("/v1/updates", files=files, data=data)

    body = response.json()
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/updates/{body['id']}"
    assert client.get(response.headers["Location"]).json() == body
    assert (body["state"], body["stage"], body["progress"], body["attempt"]) == ("queued", "queued", 0.0, 0)
    assert (body["classes"], body["rejected"]) == (["digit-7", "digit-8"], [])
    assert body["images"] == len(stored(parts)) == (4 if "files" in way else 6)
    assert list((parts.settings.home / "work").iterdir()) == []
    assert client.get("/v1/versions").json()["active"] == 2


def test_the_images_are_stored_as_they_were_sent(client, parts):
    update_id = send(client).json()["id"]
    [folder] = (parts.settings.home / "files/uploads").iterdir()

    assert folder.name == update_id
    assert sorted(path.read_bytes() for path in folder.glob("images/*")) == sorted(NEW.values())


def test_bad_images_are_left_out_and_reported_if_asked(client, parts):
    bad = {"digit-7/empty.png": b"", "digit-8/text.png": b"hello", "digit-8/half.png": picture(8)[:-40]}
    body = send(client, {**NEW, **bad}, on_bad_image="skip").json()

    assert (body["state"], body["images"], len(stored(parts))) == ("queued", 6, 6)
    assert {one["name"]: one["code"] for one in body["rejected"]} == {
        "digit-7/empty.png": "empty_image",
        "digit-8/text.png": "not_an_image",
        "digit-8/half.png": "damaged_image",
    }
    assert client.get(f"/v1/updates/{body['id']}").json()["rejected"] == body["rejected"]


def test_a_dry_run_tells_what_would_happen_and_keeps_nothing(client, parts):
    before = everything(parts)
    entries = {**digits(1, 7), "digit-7/text.png": b"hello"}
    response = send(client, entries, dry_run=True, on_bad_image="skip", on_existing_class="merge", epochs=3)

    body = response.json()
    assert (response.status_code, body["dry_run"], body["images"]) == (200, True, 6)
    assert body["classes"] == [
        {"name": "digit-1", "images": 3, "known": True},
        {"name": "digit-7", "images": 3, "known": False},
    ]
    assert [one["code"] for one in body["rejected"]] == ["not_an_image"]
    assert body["config"]["train"]["epochs"] == 3
    assert body["config"]["net"]["dim"] == TINY["net.dim"]
    assert everything(parts) == before


def test_a_dry_run_refuses_what_the_update_would(client, parts):
    refused(send(client, digits(1), dry_run=True), 409, "class_exists")
    send(client, key="mine")
    refused(send(client, key="mine", dry_run=True), 409, "class_exists")


def test_the_first_update_may_choose_its_net(empty_client):
    body = send(empty_client, **TINY).json()

    assert body["state"] == "queued"
    assert body["options"]["overrides"]["net.backbone"] == "resnet32"


def test_more_images_of_a_known_class_are_taken_if_asked(client):
    body = send(client, digits(3, count=1), on_existing_class="merge").json()

    assert (body["state"], body["classes"], body["images"]) == ("queued", ["digit-3"], 1)


def test_a_renamed_class_is_known_by_its_new_name_only(client):
    client.patch("/v1/classes/digit-3", json={"name": "three"})

    assert send(client, digits(3)).status_code == 202
    refused(send(client, {"three/0.png": picture(3), "three/1.png": picture(3, 1)}), 409, "class_exists")


def test_the_same_key_and_content_is_the_same_update(client, parts):
    first = send(client, key="mine").json()
    before = everything(parts)
    for _ in range(2):
        again = send(client, key="mine")
        assert (again.status_code, again.json()) == (202, first)
        assert again.headers["Location"] == f"/v1/updates/{first['id']}"
    zip_of_the_same = client.post(
        "/v1/updates", files={"archive": ("a.zip", zipped(NEW))}, headers={"Idempotency-Key": "mine"}
    )

    assert zip_of_the_same.json() == first
    assert everything(parts) == before


def test_the_same_key_is_the_same_update_also_after_it_has_ended(client, parts):
    first = send(client, key="mine").json()
    client.post(f"/v1/updates/{first['id']}/cancel")
    again = send(client, key="mine").json()

    assert (again["id"], again["state"]) == (first["id"], "cancelled")
    assert stored(parts) == []


@pytest.mark.parametrize("other", [{"entries": digits(9)}, {"regularizer": "lwf"}])
def test_the_same_key_with_other_content_is_refused(client, parts, other):
    send(client, key="mine")
    before = everything(parts)
    refused(send(client, key="mine", **other), 422, "idempotency_mismatch")

    assert everything(parts) == before


def test_updates_are_listed_newest_first_in_pages_and_by_state(client):
    ids = [send(client, digits(digit)).json()["id"] for digit in (7, 8, 9)]
    client.post(f"/v1/updates/{ids[1]}/cancel")

    def listed(**params) -> tuple[list[str], str | None]:
        body = client.get("/v1/updates", params=params).json()
        return [one["id"] for one in body["data"]], body["next_cursor"]

    assert listed() == (ids[::-1], None)
    assert listed(state="queued") == ([ids[2], ids[0]], None)
    assert listed(state="cancelled") == ([ids[1]], None)
    assert listed(state="running") == ([], None)
    first, cursor = listed(limit=2)
    assert (first, listed(limit=2, cursor=cursor)) == ([ids[2], ids[1]], ([ids[0]], None))


def test_a_cancelled_update_leaves_no_image_but_a_receipt(client, parts):
    update_id = send(client).json()["id"]
    response = client.post(f"/v1/updates/{update_id}/cancel")

    body = response.json()
    assert (response.status_code, body["state"], body["version"]) == (202, "cancelled", None)
    assert body["ended_at"] <= body["purged_at"]
    assert body["receipt"]["images"] == 6
    assert body["receipt"]["bytes"] == sum(len(content) for content in NEW.values())
    assert len(set(body["receipt"]["sha256"])) == 6
    assert stored(parts) == []
    assert list((parts.settings.home / "files/uploads").iterdir()) == []
    [listed] = client.get("/v1/updates").json()["data"]
    assert "sha256" not in listed["receipt"]


def test_the_receipt_names_what_was_left_out_too(client):
    bad = {"digit-7/text.png": b"hello", "digit-8/large.png": b"x" * 3000}
    update_id = send(client, {**NEW, **bad}, on_bad_image="skip").json()["id"]
    receipt = client.post(f"/v1/updates/{update_id}/cancel").json()["receipt"]

    assert receipt["images"] == 8
    assert receipt["bytes"] == sum(len(content) for content in (*NEW.values(), *bad.values()))
    read = [*NEW.values(), bad["digit-7/text.png"]]  # the other one is too large to be read
    assert receipt["sha256"] == sorted(hashlib.sha256(content).hexdigest() for content in read)


def test_a_cancelled_updates_classes_may_be_sent_again(client):
    client.post(f"/v1/updates/{send(client).json()['id']}/cancel")

    assert send(client).status_code == 202


def test_what_has_ended_cannot_be_cancelled(client, parts):
    update_id = send(client).json()["id"]
    client.post(f"/v1/updates/{update_id}/cancel")
    before = everything(parts)

    assert update_id in refused(client.post(f"/v1/updates/{update_id}/cancel"), 409, "update_ended")["detail"]
    assert everything(parts) == before


def test_an_update_at_work_is_asked_to_stop_and_keeps_its_images_until_then(client, parts):
    update_id = send(client).json()["id"]
    parts.updates.begin(update_id)
    body = client.post(f"/v1/updates/{update_id}/cancel").json()

    assert (body["state"], body["cancel_requested"], body["purged_at"]) == ("running", True, None)
    assert len(stored(parts)) == 6
