"""An update from its submission to its end, whatever happens in between."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from service.app import create_app
from service.errors import ClassExists, StorageFull, StorageUnreachable
from service.usecases.change_classes import ClassChanger
from service.usecases.make_version import class_id
from tests.local import local_client
from tests.processes import wait_until
from tests.unit.service.usecases.conftest import Bench
from tests.unit.zstci.tiny import assert_same_snapshot
from zstci import Snapshot
from zstci.errors import TooFewImages

TRAINED = {
    "regularizer": "finetune",
    "translator": "linear",
    "overrides": {"train.trainable": "all", "train.epochs": 2},
}


def snapshot_of(bench, number):
    return Snapshot.load(bench.parts.artifacts.local(bench.parts.versions.get(number).bundle))


def names_of(bench, number):
    names = bench.parts.versions.names()
    return [names[class_id] for class_id in snapshot_of(bench, number).prototypes.ids]


def test_two_updates_make_two_versions_and_leave_no_image(bench):
    first = bench.learn([0, 1], count=10)
    second = bench.learn([2], **TRAINED)

    assert (first.version, first.parent, second.version, second.parent) == (1, None, 2, 1)
    assert bench.parts.versions.active().version == 2
    assert names_of(bench, 2) == ["digit-0", "digit-1", "digit-2"]
    assert snapshot_of(bench, 2).prototypes.counts.tolist() == [8, 8, 5], "a fifth of each class was held out"
    assert first.metrics["held_out_images"] == 4
    assert bench.files("files/uploads") == bench.files("work") == []
    assert first.receipt["images"] == len(first.receipt["sha256"]) == 20
    assert bench.parts.versions.get(2).facts.added == ("digit-2",)


def test_an_update_is_at_work_from_the_moment_it_is_about_to_begin(bench):
    """Whoever sweeps here must not begin it anew meanwhile."""
    update, runner = bench.submit([0, 1]), bench.parts.runner
    with closing(sqlite3.connect(bench.settings.home / "zstci.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=runner.run, args=[update.id])
        thread.start()
        wait_until(lambda: runner.at_work == update.id)
        assert bench.parts.updates.get(update.id).state == "queued"
        other.execute("ROLLBACK")
    thread.join(60)

    entry = bench.parts.updates.get(update.id)
    assert (entry.state, entry.attempt, runner.at_work) == ("succeeded", 1, None)


def test_more_images_of_a_known_class_are_merged_if_the_caller_says_so(bench):
    bench.learn([0, 1])
    with pytest.raises(ClassExists, match=r"digit-1.*merge"):
        bench.submit([1, 2])
    bench.learn([1, 2], on_existing_class="merge")

    assert names_of(bench, 2) == ["digit-0", "digit-1", "digit-2"]
    assert snapshot_of(bench, 2).prototypes.counts.tolist() == [5, 10, 5]


def test_a_class_that_an_earlier_update_in_the_queue_brings_is_refused_at_once(bench):
    bench.submit([0, 1])

    with pytest.raises(ClassExists, match="waits"):
        bench.submit([1, 2])


def test_a_new_class_of_one_image_is_refused_before_it_is_acknowledged(bench):
    with pytest.raises(TooFewImages, match="digit-0"):
        bench.submit([0], count=1)
    assert bench.parts.updates.unfinished() == []


def test_an_update_that_is_cancelled_while_it_waits_is_never_begun(bench):
    update = bench.submit([0, 1])
    bench.parts.updates.cancel(update.id)

    ended = bench.run(update)

    assert (ended.state, ended.attempt) == ("cancelled", 0)
    assert ended.purged_at is not None
    assert bench.files("files") == []


@pytest.mark.parametrize("moment", ["make", "note_parent", "publish"])
def test_an_update_that_is_cancelled_at_work_changes_nothing(bench, moment):
    bench.learn([0, 1])
    update = bench.submit([2], **TRAINED)
    bench.before[moment] = lambda: bench.parts.updates.cancel(update.id)

    ended = bench.run(update)

    assert (ended.state, ended.version) == ("cancelled", None)
    assert bench.parts.versions.active().version == 1
    assert len(bench.parts.artifacts.keys("versions/")) == 1, "what was learnt but not published is gone"
    assert bench.files("files/uploads") == bench.files("work") == []


def test_a_loss_that_leaves_the_numbers_fails_with_advice_and_the_next_update_runs(bench):
    bench.learn([0, 1])
    overrides = {"train.trainable": "all", "train.epochs": 20, "train.lr": 1e30}
    ended = bench.run(bench.submit([2, 3], regularizer="finetune", translator="linear", overrides=overrides))

    assert (ended.state, ended.attempt) == ("failed", 1)
    assert ended.error.code in ("diverged", "not_finite")
    assert bench.learn([4], regularizer="frozen").version == 2


def test_what_changed_meanwhile_is_built_upon(bench):
    bench.learn([0, 1])
    bench.learn([2])
    update = bench.submit([3], **TRAINED)
    bench.before["publish"] = lambda: bench.parts.versions.activate(1)

    ended = bench.run(update)

    assert (ended.state, ended.parent, ended.version) == ("succeeded", 1, 3)
    assert names_of(bench, 3) == ["digit-0", "digit-1", "digit-3"]
    assert len(bench.parts.artifacts.keys("versions/")) == 3, "the one that lost is gone"


def test_a_break_down_is_tried_again_and_then_given_up(bench, monkeypatch):
    update = bench.submit([0, 1])
    monkeypatch.setattr(bench.parts.runner, "_pause", lambda _: None)
    calls = []

    def broken(*arguments, **options):
        calls.append(arguments)
        raise RuntimeError("the cable was pulled")

    monkeypatch.setattr(bench.parts.runner._maker, "make", broken)
    ended = bench.run(update)

    assert len(calls) == ended.attempt == bench.settings.max_attempts
    assert (ended.state, ended.error.code) == ("failed", "broke_down")
    assert "the cable was pulled" in ended.error.detail
    assert bench.files("files/uploads") == []


def test_a_worker_that_keeps_dying_is_given_up_as_well(bench):
    update = bench.submit([0, 1])
    for _ in range(bench.settings.max_attempts):
        bench.parts.updates.begin(update.id)

    ended = bench.run(update)

    assert (ended.state, ended.error.code) == ("failed", "gave_up")


class Killed(BaseException):
    """What a step never catches: the process is gone."""


@pytest.mark.parametrize("instant", [False, True])
@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("_maker", "make"),
        ("_versions", "publish"),
        ("_updates", "note_parent"),
        ("_purger", "purge"),
        ("_updates", "purged"),
        ("_updates", "finish"),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_a_worker_that_dies_anywhere_is_followed_by_one_that_ends_the_same(
    bench, part, name, after, instant, monkeypatch
):
    bench.learn([0, 1])
    update = bench.submit([2], instant=instant, **TRAINED)
    runner = bench.parts.runner
    real = getattr(getattr(runner, part), name)

    def dies(*arguments, **options):
        if after:
            real(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(getattr(runner, part), name, dies)
        with pytest.raises(Killed):
            runner.run(update.id)
    ended = bench.run(update)

    assert ended.state == "succeeded", ended.error
    # Purged and finished, it had ended before the second worker looked.
    assert ended.attempt == (1 if (name, after) == ("finish", True) else 2)
    made = [v for v in bench.parts.versions.list(10, None)[0] if v.kind == "update"]
    assert [v.number for v in made] == [ended.version, 1], "exactly one new version"
    assert bench.parts.versions.active().version == ended.version
    assert names_of(bench, ended.version) == ["digit-0", "digit-1", "digit-2"]
    assert snapshot_of(bench, ended.version).prototypes.counts.tolist() == [5, 5, 5]
    assert bench.files("files/uploads") == bench.files("work") == []


def test_orderly_stops_do_not_count_as_break_downs(bench):
    update = bench.submit([0, 1])
    for _ in range(5):
        begun = bench.parts.updates.begin(update.id)
        bench.parts.updates.stopped(update.id, begun.attempt)

    ended = bench.run(update)

    assert (ended.state, ended.attempt) == ("succeeded", 6)


def test_who_is_taken_for_dead_leaves_the_update_to_the_other(bench):
    bench.learn([0, 1])
    update = bench.submit([2], **TRAINED)
    bench.before["publish"] = lambda: None
    bench.before["make"] = lambda: bench.parts.updates.begin(update.id)

    seen = bench.run(update)
    assert (seen.state, seen.attempt) == ("running", 2)
    assert bench.parts.versions.active().version == 1
    assert bench.files("files/uploads"), "its images are the other one's now"
    assert bench.run(update).state == "succeeded"


def test_a_full_database_is_waited_for(bench, monkeypatch):
    update = bench.submit([0, 1])
    real, calls = bench.parts.updates.finish, []
    monkeypatch.setattr(bench.parts.runner, "_pause", lambda _: None)

    def full(*arguments, **options):
        calls.append(arguments)
        if len(calls) < 3:
            raise StorageFull("no room")
        return real(*arguments, **options)

    monkeypatch.setattr(bench.parts.updates, "finish", full)

    assert bench.run(update).state == "succeeded"


def test_instant_classes_are_published_first_and_replaced(bench):
    bench.learn([0, 1])
    ended = bench.learn([2], instant=True, **TRAINED)

    assert (ended.instant_version, ended.version, ended.parent) == (2, 3, 1)
    assert bench.parts.versions.get(2).kind == "instant"
    assert bench.parts.versions.get(2).facts.regularizer == "frozen"
    assert snapshot_of(bench, 3).prototypes.counts.tolist() == [5, 5, 5]


def deleted_after_the_instant_part(bench, monkeypatch, name):
    """Somebody deletes a class as soon as the instant version is published."""
    published = bench.parts.versions.publish

    def publish(new, **options):
        version = published(new, **options)
        if new.kind == "instant":
            changer = ClassChanger(bench.parts.updates, bench.parts.versions, bench.parts.artifacts, bench.settings)
            ids = {shown: i for i, shown in bench.parts.versions.names().items()}
            changer.delete(ids[name])
        return version

    monkeypatch.setattr(bench.parts.versions, "publish", publish)


@pytest.mark.parametrize("name", ["digit-0", "digit-2"], ids=["an old one", "one of the update's own"])
def test_a_class_that_is_deleted_after_the_instant_part_stays_deleted(bench, monkeypatch, name):
    bench.learn([0, 1])
    update = bench.submit([2, 3], instant=True, **TRAINED)
    deleted_after_the_instant_part(bench, monkeypatch, name)
    ended = bench.run(update)

    assert ended.state == "succeeded", ended.error
    assert names_of(bench, ended.version) == sorted({f"digit-{digit}" for digit in range(4)} - {name})
    assert snapshot_of(bench, ended.version).prototypes.counts.tolist() == [5, 5, 5]


def test_an_update_all_of_whose_classes_were_deleted_says_so(bench, monkeypatch):
    bench.learn([0, 1])
    update = bench.submit([2], instant=True, **TRAINED)
    deleted_after_the_instant_part(bench, monkeypatch, "digit-2")
    ended = bench.run(update)

    assert (ended.state, ended.error.code) == ("failed", "unknown_class")
    assert names_of(bench, bench.parts.versions.active().version) == ["digit-0", "digit-1"]


def test_merged_images_count_once_though_a_class_is_deleted_after_the_instant_part(bench, monkeypatch):
    bench.learn([0, 1])
    update = bench.submit([1], instant=True, on_existing_class="merge", **TRAINED)
    deleted_after_the_instant_part(bench, monkeypatch, "digit-0")
    ended = bench.run(update)

    assert ended.state == "succeeded", ended.error
    assert names_of(bench, ended.version) == ["digit-1"]
    assert snapshot_of(bench, ended.version).prototypes.counts.tolist() == [10]


DIVERGING = {
    "regularizer": "finetune",
    "translator": "linear",
    "overrides": {"train.trainable": "all", "train.epochs": 20, "train.lr": 1e30},
}


def built_upon(bench):
    """Somebody deletes a class as soon as the instant version answers."""
    real = bench.parts.updates.note_instant

    def note_instant(update_id, version):
        real(update_id, version)
        changer = ClassChanger(bench.parts.updates, bench.parts.versions, bench.parts.artifacts, bench.settings)
        changer.delete(snapshot_of(bench, 1).prototypes.ids[0])

    bench.parts.updates.note_instant = note_instant


def test_an_instant_part_goes_with_the_update_that_failed_and_its_images_can_be_sent_again(bench):
    bench.learn([0, 1])
    failed = bench.run(bench.submit([2, 3], instant=True, **DIVERGING))

    assert (failed.state, failed.instant_version, failed.version) == ("failed", 2, None)
    assert bench.parts.versions.active().version == 1
    again = bench.learn([2, 3])
    assert names_of(bench, again.version) == ["digit-0", "digit-1", "digit-2", "digit-3"]
    assert snapshot_of(bench, again.version).prototypes.counts.tolist() == [5, 5, 5, 5]


def test_an_instant_part_goes_with_the_update_that_is_cancelled(bench):
    bench.learn([0, 1])
    update = bench.submit([2], instant=True, **TRAINED)
    bench.before["note_parent"] = lambda: bench.parts.updates.cancel(update.id)

    ended = bench.run(update)

    assert (ended.state, ended.instant_version, ended.error) == ("cancelled", 2, None)
    assert bench.parts.versions.active().version == 1


def test_an_instant_part_that_was_built_upon_stays_and_the_failure_says_so(bench):
    bench.learn([0, 1])
    built_upon(bench)
    failed = bench.run(bench.submit([2, 3], instant=True, **DIVERGING))

    assert failed.state == "failed"
    assert failed.error.code in ("diverged", "not_finite")
    assert "its instant version 2 stays, because version 3 was built on it" in failed.error.detail
    assert names_of(bench, bench.parts.versions.active().version) == ["digit-1", "digit-2", "digit-3"]


def test_an_instant_part_with_nothing_before_it_stays_and_the_cancelled_update_says_so(bench):
    update = bench.submit([0, 1], instant=True, **TRAINED)
    bench.before["note_parent"] = lambda: bench.parts.updates.cancel(update.id)

    ended = bench.run(update)

    assert (ended.state, ended.error.code) == ("cancelled", "instant_kept")
    assert "there is none before it" in ended.error.detail
    assert bench.parts.versions.active().version == 1


def test_an_instant_part_that_somebody_rolled_back_is_left_alone(bench):
    bench.learn([0, 1])
    bench.learn([2])
    bench.parts.versions.activate(1)
    update = bench.submit([3], instant=True, **TRAINED)

    def elsewhere():
        bench.parts.versions.activate(2)
        bench.parts.updates.cancel(update.id)

    bench.before["note_parent"] = elsewhere
    ended = bench.run(update)

    assert (ended.state, ended.error) == ("cancelled", None)
    assert bench.parts.versions.active().version == 2


def test_what_the_translator_left_over_is_told_to_prometheus(bench):
    bench.learn([0, 1])
    version = bench.parts.versions.get(bench.learn([2], **TRAINED).version)
    with local_client(create_app(bench.settings)) as client:
        text = client.get("/metrics").text

    residual = version.facts.translation["residual"]
    assert f"zstci_translator_residual {residual}" in text


def test_a_frozen_update_needs_no_instant_part(bench):
    bench.learn([0, 1])

    assert bench.learn([2], instant=True).instant_version is None


def test_a_manual_update_is_stored_and_not_active(bench):
    bench.learn([0, 1])
    ended = bench.learn([2], activate="manual")

    assert ended.version == 2
    assert bench.parts.versions.active().version == 1


def test_a_shutdown_leaves_the_update_for_the_next_worker(bench):
    bench.learn([0, 1])
    update = bench.submit([2], regularizer="finetune", overrides={"train.trainable": "all", "train.epochs": 100_000})
    working = threading.Thread(target=bench.run, args=(update,), daemon=True)
    bench.before["make"] = lambda: threading.Timer(0.5, bench.shutting_down.set).start()
    working.start()

    assert bench.parts.runner.resting.wait(60)
    assert bench.parts.updates.get(update.id).state == "running"
    assert bench.files("files/uploads")


def test_the_same_update_twice_gives_the_same_snapshot(bench):
    bench.learn([0, 1])
    bench.learn([2], **TRAINED)
    bench.parts.versions.activate(1)
    bench.learn([2], **TRAINED)

    first, second = snapshot_of(bench, 2), snapshot_of(bench, 3)
    assert first.prototypes.ids != second.prototypes.ids, "another class of the same name is another class"
    prototypes = replace(second.prototypes, ids=first.prototypes.ids)
    assert_same_snapshot(first, replace(second, memory=replace(second.memory, prototypes=prototypes)))


def test_eight_bits_are_tried_on_the_updates_own_images_and_their_agreement_is_told(settings, tmp_path):
    folder = tmp_path / "sent"
    folder.mkdir()
    bench = Bench(settings.model_copy(update={"precision": "int8"}), folder)
    try:
        version = bench.parts.versions.get(bench.learn([0, 1, 2]).version or 0)
    finally:
        bench.close()

    agreement = version.facts.metrics["int8_agreement"]
    assert 0 <= agreement <= 100
    assert version.facts.engine == ("onnx-int8" if agreement >= 99 else "onnx")


@pytest.mark.parametrize("when", ["make", "publish"])
def test_files_that_are_away_are_waited_for_in_the_same_attempt(bench, when):
    def away():
        raise StorageUnreachable("away")

    bench.before[when] = away
    update = bench.learn([0, 1])

    assert (update.attempt, update.version) == (1, 1)


def test_an_update_that_is_cancelled_while_files_are_away_ends(bench):
    update = bench.submit([0, 1])

    def away():
        bench.parts.updates.cancel(update.id)
        raise StorageUnreachable("away")

    bench.before["make"] = away
    assert bench.run(update).state == "cancelled"


def test_a_job_whose_update_a_restored_database_does_not_know_ends(bench):
    bench.parts.runner.run("0" * 32)

    assert bench.parts.updates.unfinished() == []


@pytest.mark.parametrize("moment", ["publish", "note_parent"])
def test_who_is_taken_for_dead_just_before_it_publishes_publishes_nothing(bench, moment):
    bench.learn([0, 1])
    update = bench.submit([2], **TRAINED)
    bench.before[moment] = lambda: bench.parts.updates.begin(update.id)

    seen = bench.run(update)
    assert (seen.state, seen.attempt) == ("running", 2)
    assert [version.number for version in bench.parts.versions.list(10)[0]] == [1]
    assert bench.run(update).version == 2


def test_who_is_taken_for_dead_after_its_successor_has_ended_changes_nothing(bench):
    bench.learn([0, 1])
    update = bench.submit([2], **TRAINED)
    bench.before["publish"] = lambda: bench.run(update)

    ended = bench.run(update)
    assert (ended.state, ended.attempt, ended.version) == ("succeeded", 2, 2)
    assert len(bench.parts.versions.list(10)[0]) == 2
    snapshot_of(bench, 2)  # as its successor wrote it
    bench.parts.sweeper.sweep()
    assert bench.files("work") == []


def test_a_break_down_of_who_was_taken_for_dead_begins_nothing(bench, monkeypatch):
    update = bench.submit([0, 1])

    def broken(*arguments, **options):
        bench.parts.updates.begin(update.id)
        raise FileNotFoundError("the other one has cleared it away")

    with monkeypatch.context() as patched:
        patched.setattr(bench.parts.runner._maker, "make", broken)
        seen = bench.run(update)

    assert (seen.state, seen.attempt) == ("running", 2)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes", "out_of_memory"),
        ("CUDA out of memory. Tried to allocate 2 GiB", "out_of_memory"),
        ("I/O error: No space left on device (os error 28)", "storage_full"),
    ],
)
def test_what_libraries_call_a_lack_of_room_is_named_at_once(bench, monkeypatch, said, code):
    update = bench.submit([0, 1])

    def broken(*arguments, **options):
        raise RuntimeError(said)

    monkeypatch.setattr(bench.parts.runner._maker, "make", broken)
    ended = bench.run(update)

    assert (ended.state, ended.attempt, ended.error.code) == ("failed", 1, code)


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_reason_and_the_receipt_survive_a_death_while_the_images_are_deleted(bench, monkeypatch, cancelled):
    bench.learn([0, 1])
    update = bench.submit([2], regularizer="finetune", overrides={"train.trainable": "all", "train.lr": 1e30})
    if cancelled:
        bench.before["make"] = lambda: bench.parts.updates.cancel(update.id)
    real = bench.parts.artifacts.delete

    def dies(key):
        real(key)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(bench.parts.artifacts, "delete", dies)
        with pytest.raises(Killed):
            bench.parts.runner.run(update.id)
    ended = bench.run(update)

    assert (ended.state, ended.attempt) == ("cancelled" if cancelled else "failed", 2)
    assert cancelled or ended.error.code in ("diverged", "not_finite")
    assert len(ended.receipt["sha256"]) == 6
    assert bench.files("files/uploads") == []


def test_a_failure_names_a_class_as_people_do(bench):
    """The library knows classes by their ids. Here one image is more of a class that is deleted while it waits."""
    bench.learn([0, 1, 2])
    update = bench.submit([0], count=1, on_existing_class="merge")
    changer = ClassChanger(bench.parts.updates, bench.parts.versions, bench.parts.artifacts, bench.settings)
    changer.delete(next(i for i, name in bench.parts.versions.names().items() if name == "digit-0"))
    ended = bench.run(update)

    assert (ended.state, ended.error.code) == ("failed", "too_few_images")
    assert ended.error.detail.startswith(f"class 'digit-0' ({class_id(update.id, 'digit-0')}) has 1 image")
