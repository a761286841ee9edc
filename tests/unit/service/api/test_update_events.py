"""The stream of an update's events, with a worker's reports written by hand."""

import json
import threading
from typing import Any

import pytest

from service.app import create_app
from service.domain import Actor, Failure, Report
from tests.local import local_client
from tests.unit.service.api.sending import send
from tests.unit.service.api.surface import refused


def events(client, update_id: str, last: str | None = None) -> list[tuple[int, str, dict[str, Any]]]:
    """(id, kind, data) until the stream ends by itself."""
    response = client.get(f"/v1/updates/{update_id}/events", headers={} if last is None else {"Last-Event-ID": last})
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    found = []
    for block in response.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


@pytest.fixture
def finished(client, parts) -> str:
    """An update that failed in its second attempt."""
    update_id: str = send(client).json()["id"]
    parts.updates.begin(update_id)
    parts.updates.report(update_id, 1, Report("fine_tuning", 0.4, 12.5, 2, 5, 0.31))
    parts.updates.begin(update_id)
    parts.updates.report(update_id, 2, Report("evaluating", 0.8))
    parts.updates.metric(update_id, 2, {"accuracy": 91.7})
    parts.updates.finish(update_id, 2, "failed", failure=Failure("diverged", "the loss became nan"))
    return update_id


def test_a_stream_tells_everything_in_its_order_and_ends(client, finished):
    found = events(client, finished)

    assert [kind for _, kind, _ in found] == [
        "state",
        "state",
        "progress",
        "state",
        "progress",
        "metric",
        "state",
        "done",
    ]
    assert [number for number, _, _ in found] == sorted({number for number, _, _ in found})
    assert [data["attempt"] for _, _, data in found] == [0, 1, 1, 2, 2, 2, 2, 2]
    assert all(data["at"].endswith("Z") or "+00:00" in data["at"] for _, _, data in found)
    progress = found[2][2]
    assert (progress["stage"], progress["progress"], progress["eta_seconds"]) == ("fine_tuning", 0.4, 12.5)
    assert (progress["epoch"], progress["epochs"], progress["loss"]) == (2, 5, 0.31)
    assert found[5][2]["accuracy"] == 91.7
    done = found[-1][2]
    assert (done["state"], done["version"]) == ("failed", None)
    assert done["error"] == {"code": "diverged", "detail": "the loss became nan"}


def test_a_stream_that_was_cut_goes_on_after_the_last_event(client, finished):
    found = events(client, finished)

    for position, (number, _, _) in enumerate(found):
        assert events(client, finished, str(number)) == found[position + 1 :]


def test_what_comes_after_the_end_is_an_empty_stream(client, finished):
    assert events(client, finished, "9" * 18) == []


def test_more_streams_than_the_limit_are_told_to_come_back(home):
    with local_client(create_app(home.model_copy(update={"max_streams": 1}))) as client:
        update_id = send(client).json()["id"]
        parts = client.app.state.parts  # type: ignore[attr-defined]
        with parts.streams:  # as long as somebody watches
            told = refused(client.get(f"/v1/updates/{update_id}/events"), 503, "busy")
        assert "streams of events" in told["detail"]
        client.post(f"/v1/updates/{update_id}/cancel")
        assert events(client, update_id)[-1][1] == "done"
        assert parts.streams.inside == 0


def test_a_stream_ends_when_the_secret_it_was_asked_with_is_rotated_away(client, parts, make_key):
    update_id = send(client).json()["id"]
    key = make_key("query")
    [stored] = parts.keys.good()
    threading.Timer(0.5, lambda: rotate(parts, stored.key.id)).start()
    response = client.get(f"/v1/updates/{update_id}/events", headers=key)

    assert response.status_code == 200
    assert "event: done" not in response.text, "or it would have ended anyway"


def rotate(parts, key_id: str) -> None:
    parts.key_manager.rotate(Actor(None, "test"), key_id)
    parts.keyring.refresh()


def test_one_updates_stream_has_no_event_of_another(client, finished):
    other = send(client).json()["id"]
    client.post(f"/v1/updates/{other}/cancel")

    assert [kind for _, kind, _ in events(client, other)] == ["state", "state", "done"]


@pytest.mark.usefixtures("unchanged")
def test_a_stream_of_nothing_is_a_problem_and_no_broken_stream(client):
    refused(client.get("/v1/updates/none/events", headers={"Accept": "text/event-stream"}), 404, "unknown_update")


@pytest.mark.parametrize("last", ["-1", "abc", "", "9" * 19, "1.5"])
def test_a_last_event_that_is_none_of_ours_is_refused(client, finished, last):
    response = client.get(f"/v1/updates/{finished}/events", headers={"Last-Event-ID": last})

    assert refused(response, 422, "invalid_request")["errors"][0]["pointer"] == "/header/last-event-id"


def test_a_failed_update_says_why(client, finished):
    body = client.get(f"/v1/updates/{finished}").json()

    assert (body["state"], body["attempt"]) == ("failed", 2)
    assert body["error"] == {"code": "diverged", "detail": "the loss became nan"}
    refused(client.post(f"/v1/updates/{finished}/cancel"), 409, "update_ended")
