import pytest
from sqlalchemy import text

from service.config import Settings
from service.errors import WorkerNameTaken
from service.storage.exclusive import only_worker


def settings(folder, name):
    (folder / "work").mkdir(parents=True, exist_ok=True)
    return Settings(home=folder, worker_id=name)


def test_a_name_is_held_by_one_worker_at_a_time(database, tmp_path):
    ours = settings(tmp_path, "worker-1")
    with (
        only_worker(ours, database),
        pytest.raises(WorkerNameTaken, match="ZSTCI_WORKER_ID"),
        only_worker(ours, database),
    ):
        pytest.fail("two workers of one name")
    with only_worker(ours, database):
        pass  # free again


def test_workers_of_different_names_run_side_by_side(database, tmp_path):
    with only_worker(settings(tmp_path, "a"), database), only_worker(settings(tmp_path, "../b"), database):
        pass


def test_on_postgres_homes_of_their_own_do_not_hide_the_same_name(database, tmp_path):
    if database.is_sqlite:
        pytest.skip("an SQLite database is in one home only")
    with (
        only_worker(settings(tmp_path / "one", "worker-1"), database),
        pytest.raises(WorkerNameTaken),
        only_worker(settings(tmp_path / "two", "worker-1"), database),
    ):
        pytest.fail("two workers of one name")


def test_a_name_that_a_restarted_postgres_has_forgotten_is_taken_again(database, tmp_path):
    if database.is_sqlite:
        pytest.skip("an SQLite database does not restart")
    with only_worker(settings(tmp_path / "one", "worker-1"), database) as held:
        with database.write() as session:  # what a restart does to all sessions
            session.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                )
            )
        held.keep()
        with pytest.raises(WorkerNameTaken), only_worker(settings(tmp_path / "two", "worker-1"), database):
            pytest.fail("two workers of one name")
    with only_worker(settings(tmp_path / "two", "worker-1"), database):
        pass  # free again
