import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

from service.config import Settings
from service.errors import DatabaseUnreachable, StorageFull
from service.storage.database import Database, database_url
from service.storage.migrate import upgrade
from service.storage.versions import VersionStore
from tests.databases import copy_tables
from tests.unit.service.storage.samples import a_version
from zstci.errors import InvalidConfig


def test_what_raises_writes_nothing(database):
    with pytest.raises(ZeroDivisionError), database.write() as session:  # noqa: PT012
        session.execute(text("UPDATE lines SET names_revision = 9"))
        raise ZeroDivisionError

    assert VersionStore(database).active().names_revision == 0


def test_readers_go_on_while_somebody_writes(database):
    with database.write() as session:
        session.execute(text("UPDATE lines SET names_revision = 9"))
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(VersionStore(database).active).result(timeout=20).names_revision == 0

    assert VersionStore(database).active().names_revision == 9


def test_writers_at_the_same_time_lose_nothing(database):
    def count_up(_: int) -> None:
        with database.write() as session:
            before = session.scalar(text(f"SELECT names_revision FROM lines {lock}"))
            time.sleep(0.002)
            session.execute(text("UPDATE lines SET names_revision = :after"), {"after": before + 1})

    lock = "" if database.is_sqlite else "FOR UPDATE"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count_up, range(40)))

    assert VersionStore(database).active().names_revision == 40


def test_more_threads_than_connections_wait_for_their_turn(database):
    with ThreadPoolExecutor(30) as pool:
        assert len(list(pool.map(lambda _: VersionStore(database).active(), range(60)))) == 60


def test_sqlite_keeps_a_log_and_checks_references(sqlite_url):
    database = Database(sqlite_url)
    with database.read() as session:
        found = [session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "foreign_keys", "busy_timeout")]
    database.close()

    assert found == ["wal", 1, 30_000]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_plain_postgresql_url_uses_psycopg_3(postgres_url, scheme):
    database = Database(postgres_url.replace("postgresql", scheme, 1))
    with database.read() as session:
        assert session.scalar(text("SELECT 1")) == 1
    assert (database.engine.dialect.driver, database.is_sqlite) == ("psycopg", False)
    database.close()


def test_a_server_that_is_not_there_is_unreachable_and_its_password_is_not_told():
    database = Database("postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnreachable, match="see that it runs") as caught:
        VersionStore(database).active()
    database.close()

    assert "secret" not in str(caught.value)
    assert caught.value.retry_after


def test_a_connection_that_the_server_has_cut_is_replaced(postgres_url):
    database, other = Database(postgres_url), Database(postgres_url)
    with database.read() as session:
        process = session.scalar(text("SELECT pg_backend_pid()"))
    with other.write() as session:
        session.execute(text("SELECT pg_terminate_backend(:process, 5000)"), {"process": process})
    with database.read() as session:
        assert session.scalar(text("SELECT 1")) == 1
    database.close()
    other.close()


def test_a_connection_that_is_cut_in_the_middle_is_unreachable(postgres_url):
    database, other = Database(postgres_url), Database(postgres_url)
    with pytest.raises(DatabaseUnreachable), database.read() as session:  # noqa: PT012
        process = session.scalar(text("SELECT pg_backend_pid()"))
        with other.write() as second:
            second.execute(text("SELECT pg_terminate_backend(:process, 5000)"), {"process": process})
        session.scalar(text("SELECT 1"))
    database.close()
    other.close()


def test_who_stands_still_within_a_transaction_loses_its_locks_on_postgres(migrated_postgres, postgres_url):
    copy_tables(postgres_url, migrated_postgres)
    stopped, other = Database(postgres_url, idle_seconds=0.5), Database(postgres_url)
    change = text("UPDATE lines SET names_revision = names_revision + 1")
    with pytest.raises(DatabaseUnreachable), stopped.write() as session:  # noqa: PT012
        session.execute(change)
        with other.write() as second:
            second.execute(change)  # waits for the lock

    assert VersionStore(other).active().names_revision == 1
    with stopped.write() as session:  # on a new connection
        session.execute(change)
    assert VersionStore(other).active().names_revision == 2
    stopped.close()
    other.close()


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path):
    (tmp_path / "x.db").write_text("no database " * 100)
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(DatabaseUnreachable, match=r"x\.db does not answer \(file is not a database\)"):
        VersionStore(database).active()
    database.close()


def test_a_full_disk_is_an_error_of_its_own(sqlite_url):
    database = Database(sqlite_url)
    with pytest.raises(StorageFull, match="no room left"), database.write() as session:  # noqa: PT012
        session.execute(text("CREATE TABLE t (x TEXT)"))
        session.execute(text("PRAGMA max_page_count = 10"))
        session.execute(text("INSERT INTO t VALUES (:x)"), {"x": "x" * 1_000_000})
    database.close()


def test_a_lock_that_is_never_released_is_unreachable_not_an_accident(sqlite_url, monkeypatch):
    monkeypatch.setattr("service.storage.database._PATIENCE", 0.1)
    database = Database(sqlite_url)
    database.close()
    Path(str(database.engine.url.database)).parent.mkdir()
    blocking = sqlite3.connect(str(database.engine.url.database), isolation_level=None)
    blocking.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseUnreachable, match="database is locked"):
        VersionStore(database).publish(a_version(), expected=None, activate=True, names={})
    blocking.close()
    database.close()


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://host/x", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_cannot_work_says_what_to_write(url):
    with pytest.raises(InvalidConfig, match="write sqlite:///FILE"):
        Database(url)


def test_without_a_setting_the_database_is_a_file_in_the_home(tmp_path):
    for home in (tmp_path, tmp_path / "50 % of ? a # home"):
        database = Database(database_url(Settings(home=home)))
        assert database.engine.url.database == str(home / "zstci.db")
        assert not (home / "zstci.db").exists()
    assert database_url(Settings(database_url="postgresql://host/x")) == "postgresql://host/x"


def test_a_file_that_is_moved_away_is_missed_and_found_again(sqlite_url: str) -> None:
    upgrade(sqlite_url)
    database = Database(sqlite_url)
    path = Path(database.engine.url.database or "")
    versions = VersionStore(database)
    assert versions.active().version is None
    away = path.parent.rename(path.parent.with_name("away"))

    for _ in range(3):
        with pytest.raises(DatabaseUnreachable, match="gone"):
            versions.active()
    assert not path.parent.exists(), "an empty one in its place would hide that it is gone"
    away.rename(path.parent)

    assert versions.active().version is None
    database.close()


def test_a_file_that_is_replaced_is_noticed(sqlite_url: str) -> None:
    upgrade(sqlite_url)
    database = Database(sqlite_url)
    path = Path(database.engine.url.database or "")
    versions = VersionStore(database)
    versions.active()
    database.engine.dispose()  # so that everything is in the one file
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    with database.write() as session:
        session.execute(text("UPDATE lines SET names_revision = 7"))
    assert versions.active().names_revision == 7
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    copy.rename(path)

    assert versions.active().names_revision == 0
    database.close()
