from dataclasses import replace

import pytest

from service.domain import Failure, Report
from service.errors import ClassExists, IdempotencyMismatch, UnknownUpdate, UpdateEnded
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from tests.unit.service.storage.samples import OPTIONS, a_version, an_update
from zstci.errors import Stopped


@pytest.fixture
def store(database) -> UpdateStore:
    return UpdateStore(database)


@pytest.fixture
def running(store) -> UpdateStore:
    """With the update u1, in its first attempt."""
    store.add(an_update(), None, "f")
    store.begin("u1")
    return store


def told(store: UpdateStore, update_id: str = "u1") -> list[tuple[int, str, object]]:
    """Attempt, kind and the word that matters of every event."""
    events = store.events(update_id)
    return [(event.attempt, event.kind, event.data.get("state", event.data.get("progress"))) for event in events]


def test_an_update_comes_back_as_it_was_added(store):
    new = an_update()

    assert store.add(new, "key", "f") == new == store.get("u1")
    assert store.by_key("key") == (new, "f")
    assert store.by_key("another") is None
    assert told(store) == [(0, "state", "queued")]


def test_the_same_key_again_gives_the_first_update_and_adds_nothing(store):
    first = store.add(an_update("u1"), "key", "f")

    assert store.add(an_update("u2"), "key", "f") == first
    with pytest.raises(IdempotencyMismatch, match=r"\(update u1\); choose a new key"):
        store.add(an_update("u3"), "key", "another")
    assert [update.id for update in store.list(9)[0]] == ["u1"]


def test_without_a_key_the_same_upload_is_two_updates(store):
    store.add(an_update("u1"), None, "f")
    store.add(an_update("u2"), None, "f")

    assert store.unfinished() == ["u1", "u2"]


@pytest.mark.parametrize("update_id", ["nobody", "", "\0", "\ud800"])
def test_an_unknown_update_is_an_error_in_every_way(store, update_id):
    ways = [store.get, store.begin, store.cancel, store.cancel_requested, store.heartbeat]
    for way in ways:
        with pytest.raises(UnknownUpdate, match="no update"):
            way(update_id)
    assert store.events(update_id) == []


def test_the_list_is_newest_first_in_pages_and_by_state(store):
    for number in range(5):
        store.add(an_update(f"u{number}"), None, "f")
    store.begin("u3")
    page, cursor = store.list(2)
    middle, following = store.list(2, cursor)
    last, end = store.list(2, following)

    assert [update.id for update in page + middle + last] == ["u4", "u3", "u2", "u1", "u0"]
    assert end is None
    assert [update.id for update in store.list(9, None, "running")[0]] == ["u3"]
    assert [update.id for update in store.list(2, cursor, "queued")[0]] == ["u2", "u1"]
    assert store.list(9, 2**80) == store.list(9)


def test_an_update_runs_reports_and_succeeds(running):
    running.note_parent("u1", 3)
    running.note_instant("u1", 4)
    running.report("u1", 1, Report("fine_tuning", 0.5, 12.0, 1, 4, 0.75))
    assert (running.get("u1").stage, running.get("u1").progress, running.get("u1").eta_seconds) == (
        "fine_tuning",
        0.5,
        12,
    )
    running.metric("u1", 1, {"accuracy": 0.5})
    running.metric("u1", 1, {"accuracy": 0.9, "seconds": 2})
    done = running.finish("u1", 1, "succeeded", version=5)

    assert done == running.get("u1")
    assert (done.state, done.stage, done.progress, done.eta_seconds, done.attempt) == (
        "succeeded",
        "ended",
        1.0,
        None,
        1,
    )
    assert (done.parent, done.instant_version, done.version, done.error) == (3, 4, 5, None)
    assert done.metrics == {"accuracy": 0.9, "seconds": 2}
    assert done.created_at < str(done.started_at) < str(done.ended_at)
    assert told(running) == [
        (0, "state", "queued"),
        (1, "state", "running"),
        (1, "progress", 0.5),
        (1, "metric", None),
        (1, "metric", None),
        (1, "state", "succeeded"),
        (1, "done", "succeeded"),
    ]
    progress, last = running.events("u1")[2], running.events("u1")[-1]
    assert progress.data == {
        "stage": "fine_tuning",
        "progress": 0.5,
        "eta_seconds": 12.0,
        "epoch": 1,
        "epochs": 4,
        "loss": 0.75,
    }
    assert last.data == {"state": "succeeded", "version": 5, "error": None}


def test_a_failure_says_why_and_where_it_stopped(running):
    running.report("u1", 1, Report("embedding", 0.2))
    failed = running.finish("u1", 1, "failed", failure=Failure("diverged", "the loss left\0 the numbers"))

    assert (failed.state, failed.stage, failed.progress) == ("failed", "embedding", 0.2)
    assert failed.error == Failure("diverged", "the loss left\ufffd the numbers")
    assert running.events("u1")[-1].data["error"] == {"code": "diverged", "detail": "the loss left\ufffd the numbers"}


def test_an_update_that_never_ran_can_fail(store):
    store.add(an_update(), None, "f")

    assert store.finish("u1", 0, "failed", failure=Failure("x", "y")).state == "failed"
    assert told(store)[-1] == (0, "done", "failed")


def test_what_has_ended_stays_as_it_is(running):
    ended = running.finish("u1", 1, "cancelled")
    events = running.events("u1")

    assert running.begin("u1") is None
    assert running.finish("u1", 1, "succeeded", version=9) == ended
    running.report("u1", 1, Report("embedding", 0.9))
    running.metric("u1", 1, {"a": 1})
    with pytest.raises(UpdateEnded, match="update u1 is cancelled already"):
        running.cancel("u1")
    assert (running.get("u1"), running.events("u1")) == (ended, events)


def test_only_an_end_ends(running):
    with pytest.raises(ValueError, match="'queued' is no end; choose one of: succeeded, failed, cancelled"):
        running.finish("u1", 1, "queued")


def test_a_new_attempt_starts_over_and_silences_the_old_one(running):
    running.report("u1", 1, Report("fine_tuning", 0.7, 3.0))
    started_at = running.get("u1").started_at
    second = running.begin("u1")

    assert second is not None
    assert (second.attempt, second.progress, second.eta_seconds, second.started_at) == (2, 0.0, None, started_at)
    running.report("u1", 1, Report("publishing", 0.9))
    running.metric("u1", 1, {"accuracy": 0.1})
    assert running.finish("u1", 1, "failed") == second
    running.report("u1", 2, Report("embedding", 0.1))
    assert told(running)[2:] == [(1, "progress", 0.7), (2, "state", "running"), (2, "progress", 0.1)]


def test_progress_never_goes_back_within_an_attempt_nor_past_the_end(running):
    for progress in (0.5, 0.2, float("nan"), 7.0):
        running.report("u1", 1, Report("fine_tuning", progress, loss=float("inf")))

    assert [value for _, kind, value in told(running) if kind == "progress"] == [0.5, 0.5, 0.5, 1.0]
    assert running.get("u1").progress == 1.0
    assert running.events("u1")[-1].data["loss"] is None


def test_a_waiting_update_is_cancelled_at_once(store):
    store.add(an_update(), None, "f")

    assert store.cancel("u1").state == "cancelled"
    assert told(store) == [(0, "state", "queued"), (0, "state", "cancelled"), (0, "done", "cancelled")]
    assert store.begin("u1") is None


def test_a_running_update_is_asked_to_stop_and_may_be_asked_twice(running):
    assert not running.cancel_requested("u1")
    assert running.cancel("u1").state == running.cancel("u1").state == "running"
    assert running.cancel_requested("u1")
    assert running.finish("u1", 1, "cancelled").state == "cancelled"


def test_the_first_receipt_of_deleted_images_stays(running):
    running.finish("u1", 1, "succeeded", version=1)
    assert running.unpurged() == ["u1"]
    running.purged("u1", {"files": 40, "bytes": 12345})
    running.purged("u1", {"files": 0, "bytes": 0})

    assert running.get("u1").receipt == {"files": 40, "bytes": 12345}
    assert running.get("u1").purged_at
    assert running.unpurged() == []


def test_events_go_on_after_the_last_that_was_seen(running):
    for step in range(6):
        running.report("u1", 1, Report("fine_tuning", step / 10))
    everything = running.events("u1")
    assert running.events("u1", limit=3) == everything[:3]
    assert running.events("u1", after=everything[2].id) == everything[3:]
    assert running.events("u1", after=2**80) == []
    assert [event.id for event in everything] == sorted({event.id for event in everything})


def test_counts_and_names_of_what_has_not_ended(store):
    assert store.counts() == {"queued": 0, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
    for number, names in enumerate([("a",), ("b", "c"), ("c", "d")]):
        store.add(replace(an_update(f"u{number}"), classes=names), None, "f")
    store.begin("u1")
    store.finish("u0", 0, "failed")

    assert store.counts() == {"queued": 1, "running": 1, "succeeded": 0, "failed": 1, "cancelled": 0}
    assert store.pending_classes() == {"b", "c", "d"}
    assert (store.unfinished(), store.unpurged()) == (["u1", "u2"], ["u0"])
    store.heartbeat("u1")


def test_an_accepted_cancel_keeps_the_version_from_being_published(running, database):
    running.cancel("u1")

    with pytest.raises(Stopped):
        VersionStore(database).publish(a_version(update_id="u1", attempt=1), expected=None, activate=True, names={})
    assert VersionStore(database).list(9)[0] == []


def test_a_cancel_comes_too_late_when_the_version_is_published(running, database):
    VersionStore(database).publish(a_version(update_id="u1", attempt=1), expected=None, activate=True, names={})

    with pytest.raises(UpdateEnded, match="made version 1 already"):
        running.cancel("u1")
    assert not running.get("u1").cancel_requested


def test_an_instant_part_can_still_be_cancelled(running, database):
    new = a_version(update_id="u1", attempt=1, kind="instant")
    VersionStore(database).publish(new, expected=None, activate=True, names={})

    assert running.cancel("u1").cancel_requested


def test_an_accepted_cancel_ends_as_one_even_if_something_broke_just_then(running):
    running.note_end("u1", 1, Failure("diverged", "the loss became nan"))
    running.cancel("u1")

    ended = running.finish("u1", 1, "failed", failure=Failure("diverged", "the loss became nan"))
    assert (ended.state, ended.error) == ("cancelled", None)
    assert running.events("u1")[-1].data["state"] == "cancelled"


def test_a_class_of_an_update_that_has_not_ended_is_refused_where_it_is_stored(store):
    once = replace(OPTIONS, on_existing_class="reject")
    store.add(an_update("u1", options=once), "one", "f")

    with pytest.raises(ClassExists, match="kiwi"):
        store.add(an_update("u2", options=once, classes=("kiwi",)), "two", "g")
    assert store.add(an_update("u3", options=once), "one", "f").id == "u1", "the same key is the same update"
    store.cancel("u1")
    assert store.add(an_update("u4", options=once), "three", "f").id == "u4"
