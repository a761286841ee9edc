import importlib.resources
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import func, inspect, select, text

from service.config import Settings
from service.domain import Actor
from service.errors import DatabaseBehind
from service.storage import migrate
from service.storage.audit import AuditStore
from service.storage.database import Database
from service.storage.keys import KeyStore
from service.storage.prepare import migrate as migrate_all
from service.storage.prepare import prepare_database
from service.storage.tables import Base
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from tests.unit.service.storage.samples import a_key, a_version, an_update

ROOT = Path(__file__).parents[2]


def tables(url: str) -> set[str]:
    database = Database(url)
    try:
        with database.read() as session:
            return set(inspect(session.connection()).get_table_names())
    finally:
        database.close()


def fill(database: Database) -> None:
    UpdateStore(database).add(an_update(), "key", "fingerprint")
    versions = VersionStore(database)
    versions.publish(a_version("versions/a"), expected=None, activate=True, names={"c1": "kiwi"})
    versions.publish(a_version("versions/b", parent=1), expected=1, activate=True, names={})
    KeyStore(database).add(a_key(), "digest")
    AuditStore(database).begin(Actor("k1", "Möwe", "r1"), "class_renamed", "c1")


def rows(database: Database) -> dict[str, int]:
    with database.read() as session:
        counted = {
            name: session.scalar(select(func.count()).select_from(t)) for name, t in Base.metadata.tables.items()
        }
    return {name: count or 0 for name, count in counted.items()}


def test_down_and_up_again_with_rows_in_all_tables(database_url, database):
    fill(database)
    assert set(rows(database).values()) == {1, 2}, "a table without a row proves nothing"

    migrate.downgrade(database_url, "base")
    assert tables(database_url) == {"alembic_version"}
    assert migrate.current(database_url) is None
    migrate.upgrade(database_url)

    assert migrate.current(database_url) == migrate.head()
    fill(database)
    assert VersionStore(database).active().version == 2


def test_without_keys_and_audit_everything_else_stays(database_url, database):
    fill(database)
    migrate.downgrade(database_url, "0001")
    assert not {"api_keys", "audit_log"} & tables(database_url)
    migrate.upgrade(database_url)

    counted = rows(database)
    assert (counted["api_keys"], counted["audit_log"]) == (0, 0)
    assert (counted["versions"], counted["updates"], counted["update_events"]) == (2, 1, 1)


def test_every_step_can_be_taken_back(database_url):
    migrate.upgrade(database_url)
    while migrate.current(database_url) is not None:
        migrate.downgrade(database_url, "-1")
    migrate.upgrade(database_url)

    assert migrate.current(database_url) == migrate.head()


def test_the_models_are_what_the_migrations_make(database):
    with database.read() as session:
        context = MigrationContext.configure(
            session.connection(), opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, Base.metadata) == []


def test_migrating_again_keeps_the_rows(database_url, database):
    fill(database)
    migrate.upgrade(database_url)

    assert rows(database)["versions"] == 2


@pytest.mark.slow
def test_processes_that_start_together_take_turns(database_url):
    program = "import sys; from service.storage.migrate import upgrade; sys.stdin.read(); upgrade(sys.argv[1])"
    started = [
        subprocess.Popen([sys.executable, "-c", program, database_url], stdin=subprocess.PIPE, cwd=ROOT)
        for _ in range(2)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()

    assert [process.wait(timeout=120) for process in started] == [0, 0]
    assert migrate.current(database_url) == migrate.head()


def test_a_step_that_fails_leaves_nothing_behind(database_url):
    database = Database(database_url)
    with database.write() as session:
        session.execute(text("CREATE TABLE update_events (x INTEGER)"))  # in the way of the last table
    with pytest.raises(Exception, match="update_events"):
        migrate.upgrade(database_url)
    database.close()

    assert tables(database_url) <= {"update_events", "alembic_version"}
    assert migrate.current(database_url) is None


def test_tables_of_others_in_the_same_database_are_left_alone(database_url):
    database = Database(database_url)
    with database.write() as session:
        session.execute(text("CREATE TABLE workflow_status (x INTEGER)"))
    migrate.upgrade(database_url)
    migrate.downgrade(database_url, "base")
    database.close()

    assert "workflow_status" in tables(database_url)


def test_a_database_that_is_behind_says_what_to_run(database_url):
    database = Database(database_url)
    with pytest.raises(DatabaseBehind, match=r"at revision none, this program needs .*; run: zstci migrate"):
        migrate.require_current(database)
    with pytest.raises(DatabaseBehind, match="run: zstci migrate"):
        VersionStore(database).active()
    with pytest.raises(DatabaseBehind, match="run: zstci migrate"):
        UpdateStore(database).add(an_update(), None, "f")

    migrate.upgrade(database_url)
    migrate.require_current(database)
    database.close()


def test_a_database_of_a_newer_program_says_so(database_url, database):
    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(DatabaseBehind, match="of a newer program"):
        migrate.require_current(database)
    with pytest.raises(DatabaseBehind, match="a newer one may have made them"):
        migrate.upgrade(database_url)


def test_odd_characters_in_the_path_are_no_trouble(tmp_path):
    url = f"sqlite:///{tmp_path}/50 %25 größe/zstci.db"
    migrate.upgrade(url)

    assert migrate.current(url) == migrate.head()


def test_the_migrations_are_installed_with_the_program():
    here = importlib.resources.files("migrations")

    assert (here / "env.py").is_file()
    assert (here / "script.py.mako").is_file()
    for name in ("0001_first_tables.py", "0002_keys_and_audit.py"):
        assert (here / "versions" / name).is_file()


def test_a_postgres_whose_job_queue_is_behind_says_what_to_run(postgres_url, tmp_path):
    settings = Settings(home=tmp_path / "home", database_url=postgres_url)
    migrate.upgrade(postgres_url)
    with pytest.raises(DatabaseBehind, match=r"job queue's tables .*; run: zstci migrate"):
        prepare_database(settings)
    migrate_all(settings)
    prepare_database(settings)

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE dbos.dbos_migrations SET version = version - 1")
    with pytest.raises(DatabaseBehind, match="job queue's tables"):
        prepare_database(settings)
