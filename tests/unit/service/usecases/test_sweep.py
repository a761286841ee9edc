"""What a crash leaves behind is found again."""

import os
import sqlite3
import time
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text

from service.errors import DatabaseUnreachable
from service.storage import database
from service.storage.jobs import jobs_url
from service.usecases import sweep


@pytest.fixture
def sweeper(bench):
    return bench.parts.sweeper


def test_an_update_whose_job_was_lost_gets_another(bench, sweeper):
    update = bench.submit([0, 1])
    bench.parts.jobs.end(update.id)
    assert not bench.parts.jobs.is_alive(update.id)

    sweeper.sweep()
    assert not bench.parts.jobs.is_alive(update.id), "the API may be about to enqueue it"
    sweeper.sweep()
    assert bench.parts.jobs.is_alive(update.id)


def test_a_running_update_without_a_sign_of_life_begins_anew(bench, sweeper):
    update = bench.submit([0, 1])
    bench.parts.updates.begin(update.id)
    before = bench.parts.jobs._alive(update.id)
    sweeper.sweep()
    assert bench.parts.jobs._alive(update.id) == before, "its worker may be at work"

    sweeper._settings = bench.settings.model_copy(update={"lease_seconds": 1e-6})
    sweeper.sweep()
    assert len(bench.parts.jobs._alive(update.id)) == 1
    assert bench.parts.jobs._alive(update.id) != before


@pytest.fixture
def taken(bench):
    """An update whose job was taken and that has not begun."""
    update = bench.submit([0, 1])
    engine = create_engine(jobs_url(bench.settings))
    with engine.begin() as connection:
        connection.execute(text("UPDATE workflow_status SET status = 'PENDING', executor_id = 'gone'"))
    engine.dispose()
    return update


def test_an_update_whose_job_was_taken_but_never_begun_gets_another(bench, sweeper, taken):
    before = bench.parts.jobs._alive(taken.id)
    for _ in range(2):
        sweeper.sweep()
        assert bench.parts.jobs._alive(taken.id) == before, "its worker may be about to begin"

    sweeper._settings = bench.settings.model_copy(update={"lease_seconds": 1e-6})
    sweeper.sweep()
    assert len(bench.parts.jobs._alive(taken.id)) == 1
    assert bench.parts.jobs._alive(taken.id) != before
    assert bench.parts.jobs.running() == set(), "it waits for a worker"


def test_an_update_that_this_very_process_is_about_to_begin_is_left_alone(bench, sweeper, taken):
    before = bench.parts.jobs._alive(taken.id)
    bench.parts.runner.at_work = taken.id
    sweeper._settings = bench.settings.model_copy(update={"lease_seconds": 1e-6})
    for _ in range(3):
        sweeper.sweep()

    assert bench.parts.jobs._alive(taken.id) == before


def test_an_update_begins_nowhere_else_while_nobody_can_write(bench, sweeper, taken, monkeypatch):
    """A lock that somebody else holds, a backup's, keeps its worker from beginning: no other one could begin either,
    and each that tried would cost an attempt."""
    before = bench.parts.jobs._alive(taken.id)
    sweeper.sweep()
    sweeper._settings = bench.settings.model_copy(update={"lease_seconds": 1e-6})
    monkeypatch.setattr(database, "_PATIENCE", 1)
    bench.parts.updates._database.engine.dispose()  # what connects from now on has that much
    with closing(sqlite3.connect(bench.settings.home / "zstci.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnreachable):
            sweeper._not_begun(bench.parts.jobs.running())
        other.execute("ROLLBACK")
    assert bench.parts.jobs._alive(taken.id) == before

    sweeper._not_begun(bench.parts.jobs.running())
    assert bench.parts.jobs._alive(taken.id) != before


def test_an_ended_update_is_purged(bench, sweeper):
    update = bench.submit([0, 1])
    bench.parts.updates.cancel(update.id)

    sweeper.sweep()
    assert bench.files("files") == []
    assert bench.parts.updates.get(update.id).receipt["images"] == 12


def test_files_without_a_row_go_after_a_while(bench, sweeper, monkeypatch):
    bench.learn([0, 1])
    update = bench.submit([2])
    orphan = bench.settings.home / "files" / "uploads" / "nobody"
    orphan.mkdir(parents=True)
    (orphan / "upload.json").write_text("{}")
    version = bench.parts.artifacts.local(bench.parts.versions.get(1).bundle)
    for name in ("delete-nobody", f"{update.id}-1"):
        (version.parent / name).mkdir()
        (version.parent / name / "version.json").write_text("{}")
    works = [bench.settings.home / "work" / name for name in ("delete-nobody", ".delete-nobody.half-made")]
    for work in works:
        work.mkdir(parents=True)
        os.utime(work, (time.time() - 9999,) * 2)

    sweeper.sweep()
    assert orphan.is_dir(), "it may be on its way to a row"
    monkeypatch.setattr(sweep, "_ORPHAN_SECONDS", 0.0)
    monkeypatch.setattr(sweep, "_FILES_SECONDS", 0.0)
    time.sleep(0.01)
    sweeper.sweep()

    assert not orphan.exists()
    assert not any(work.exists() for work in works)
    kept = sorted(path.name for path in version.parent.iterdir() if not path.name.startswith("."))
    assert kept == sorted([version.name, f"{update.id}-1"]), "what belongs to a version or to an update at work stays"


@pytest.mark.parametrize("kind", ["uploads", "versions"])
def test_what_a_killed_put_or_delete_left_half_done_goes(bench, sweeper, monkeypatch, kind):
    ended, waiting = bench.learn([0, 1]), bench.submit([2])
    names = {ended.id: f".{ended.id}-0-1.abc", waiting.id: f".{waiting.id}.abc", "nobody": f".{'0' * 32}.abc"}
    folders = {owner: bench.settings.home / "files" / kind / name for owner, name in names.items()}
    for folder in folders.values():
        (folder / "images").mkdir(parents=True)
        (folder / "images" / "000001.png").write_bytes(b"image")
        os.utime(folder, (0, 0))  # a copy is as old as its original

    sweeper.sweep()
    assert [owner for owner, folder in folders.items() if folder.exists()] == [waiting.id, "nobody"]
    monkeypatch.setattr(sweep, "_ORPHAN_SECONDS", 0.0)
    monkeypatch.setattr(sweep, "_FILES_SECONDS", 0.0)
    time.sleep(0.02)
    sweeper.sweep()

    assert [owner for owner, folder in folders.items() if folder.exists()] == []
    assert bench.parts.artifacts.exists(f"uploads/{waiting.id}")


def test_a_database_without_a_version_sweeps_nothing_from_files_that_have_some(bench, sweeper, monkeypatch, caplog):
    monkeypatch.setattr(sweep, "_ORPHAN_SECONDS", 0.0)
    monkeypatch.setattr(sweep, "_FILES_SECONDS", 0.0)
    for key in ("versions", "uploads"):
        folder = bench.settings.home / "files" / key / ("0" * 32)
        folder.mkdir(parents=True)
        (folder / f"{key[:-1]}.json").write_text("{}")

    for _ in range(3):
        sweeper.sweep()
        time.sleep(0.01)
    assert sorted(path.name for path in bench.files("files")) == ["upload.json", "version.json"]
    assert [record.action for record in caplog.records if record.levelname == "ERROR"] == ["files_of_another_database"]

    bench.learn([0, 1])
    for _ in range(2):
        sweeper.sweep()
        time.sleep(0.01)
    assert not [path for path in bench.files("files") if path.parent.name == "0" * 32]


def test_what_this_machine_began_and_another_one_ended_goes(bench, sweeper):
    begun, over = bench.submit([0, 1]), bench.submit([2, 3])
    for update in (begun, over):
        folder = bench.settings.home / "work" / update.id
        folder.mkdir(parents=True)
        (folder / "ids-0.json").write_text("{}")
    incoming = bench.settings.home / "work" / "incoming-1"
    incoming.mkdir()
    bench.parts.updates.cancel(over.id)
    bench.parts.updates.purged(over.id, {})

    sweeper.sweep()
    kept = sorted(path.name for path in (bench.settings.home / "work").iterdir())
    assert kept == sorted([begun.id, "incoming-1"])


def test_what_this_process_works_on_is_not_abandoned_however_long_the_database_was_away(bench, sweeper):
    update = bench.submit([0, 1])
    bench.parts.updates.begin(update.id)
    before = bench.parts.jobs._alive(update.id)
    sweeper._settings = bench.settings.model_copy(update={"lease_seconds": 1e-6})
    bench.parts.runner.at_work = update.id

    sweeper.sweep()
    assert bench.parts.jobs._alive(update.id) == before


def test_work_on_an_update_that_has_ended_is_cleared(bench, sweeper):
    ended, waiting = bench.learn([0, 1]), bench.submit([2])
    for update in (ended, waiting):
        (bench.settings.home / "work" / update.id).mkdir()

    sweeper.sweep()
    left = [path.name for path in (bench.settings.home / "work").iterdir()]
    assert ended.id not in left
    assert waiting.id in left
