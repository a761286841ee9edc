import json
import os
import socket
import sqlite3
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.doctor import machine as machine_checks
from service.cli.doctor import service as service_checks
from service.cli.ports import free_port
from service.config import Settings
from service.storage.migrate import downgrade
from service.storage.prepare import migrate
from tests.contract_server import running
from tests.object_store import BUCKET, object_store

CHECKS = [
    "python",
    "torch",
    "device",
    "onnxruntime",
    "faiss",
    "weights",
    "home",
    "disk",
    "artifacts",
    "database",
    "migrations",
    "keys",
    "processes",
    "port",
]


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Nobody's settings, a new home and a port that is free."""
    for name in [name for name in os.environ if name.startswith("ZSTCI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ZSTCI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZSTCI_PORT", str(free_port()))


def doctor(*options: str) -> SimpleNamespace:
    result = CliRunner().invoke(app, ["doctor", *options], catch_exceptions=False)
    return SimpleNamespace(code=result.exit_code, out=result.stdout)


def findings() -> tuple[int, dict[str, dict[str, str]]]:
    found = doctor("--json")
    document = json.loads(found.out)
    assert document["ok"] == (found.code == 0)
    return found.code, {check["name"]: check for check in document["checks"]}


def bad(found: dict[str, dict[str, str]]) -> list[str]:
    return [name for name, check in found.items() if check["state"] == "bad"]


def test_a_machine_on_which_all_is_well_says_so_and_nothing_was_made(tmp_path):
    code, found = findings()
    assert (code, bad(found), list(found)) == (0, [], CHECKS)
    assert list(tmp_path.iterdir()) == []
    lines = doctor().out.splitlines()
    assert [line.split()[1] for line in lines[:-1] if not line.lstrip().startswith("->")] == CHECKS
    assert lines[-1].startswith("all is well")


def test_a_setting_that_cannot_work_is_named_and_python_is_looked_at_anyway(monkeypatch):
    monkeypatch.setenv("ZSTCI_PORT", "many")
    code, found = findings()
    assert (code, bad(found)) == (1, ["settings"])
    assert "ZSTCI_PORT='many'" in found["settings"]["detail"]
    assert found["torch"]["state"] == "ok"


def test_a_library_that_cannot_be_used_is_bad_and_hides_no_other(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    code, found = findings()
    assert (code, bad(found)) == (1, ["faiss"])
    assert "install again" in found["faiss"]["cure"]


def test_a_home_that_cannot_be_written_is_bad(monkeypatch):
    monkeypatch.setenv("ZSTCI_HOME", "/proc/zstci")  # not even root may write there
    code, found = findings()
    assert code == 1
    assert "home" in bad(found)
    assert "ZSTCI_HOME" in found["home"]["cure"]


def test_a_disk_with_little_room_is_a_warning_and_with_next_to_none_bad(monkeypatch):
    monkeypatch.setenv("ZSTCI_MAX_UPLOAD_BYTES", str(2**60))
    code, found = findings()
    assert (code, found["disk"]["state"]) == (0, "warn")
    monkeypatch.setattr(service_checks, "_LEAST_FREE", 2**60)
    assert bad(findings()[1]) == ["disk"]


def test_a_database_that_does_not_answer_is_bad_and_shows_no_password(monkeypatch):
    monkeypatch.setenv("ZSTCI_DATABASE_URL", f"postgresql://me:secret@127.0.0.1:{free_port()}/zstci")
    code, found = findings()
    assert (code, bad(found)) == (1, ["database", "migrations"])
    assert "secret" not in str(found)
    assert "ZSTCI_DATABASE_URL" in found["database"]["cure"]


def test_a_postgres_without_our_tables_says_how_to_make_them(monkeypatch, postgres_url):
    monkeypatch.setenv("ZSTCI_DATABASE_URL", postgres_url)
    code, found = findings()
    assert (code, bad(found), found["migrations"]["cure"]) == (1, ["migrations"], "zstci migrate")
    migrate(Settings())
    assert findings()[0] == 0


def test_an_sqlite_that_is_behind_is_only_a_warning_because_serve_mends_it(tmp_path):
    settings = Settings()
    migrate(settings)
    assert findings()[1]["migrations"]["state"] == "ok"
    url = f"sqlite:///{settings.home / 'zstci.db'}"
    downgrade(url, "base")
    code, found = findings()
    assert (code, found["migrations"]["state"]) == (0, "warn")
    with sqlite3.connect(settings.home / "zstci.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
    database.close()
    code, found = findings()
    assert (code, bad(found)) == (1, ["migrations"])
    assert found["migrations"]["cure"].startswith("install that program")


def test_an_address_that_others_reach_needs_a_key_as_it_does_for_serve(monkeypatch):
    def keys() -> tuple[int, str]:
        code, found = findings()
        return code, found["keys"]["state"]

    assert keys() == (0, "ok")
    monkeypatch.setenv("ZSTCI_HOST", "0.0.0.0")
    assert keys() == (1, "bad")
    assert "zstci keys create NAME --scope admin" in findings()[1]["keys"]["cure"]
    assert not Settings().home.exists()
    migrate(Settings())
    assert keys() == (1, "bad")
    made = CliRunner().invoke(app, ["keys", "create", "first", "--scope", "admin"])
    assert (made.exit_code, keys()) == (0, (0, "ok"))
    monkeypatch.setenv("ZSTCI_INSECURE", "true")
    assert keys() == (0, "warn")


def test_a_gpu_that_torch_cannot_use_is_a_warning(monkeypatch, tmp_path):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(machine_checks, "_DEVICES", tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, found = findings()
    assert (code, found["device"]["state"]) == (0, "warn")
    assert "nvidia0" in found["device"]["detail"]
    assert found["device"]["cure"]


def test_more_processes_than_gpus_are_a_warning(monkeypatch):
    monkeypatch.setenv("ZSTCI_TRAIN_PROCESSES", "4")
    assert findings()[1]["processes"]["state"] == "ok"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert findings()[1]["processes"]["cure"] == "set ZSTCI_TRAIN_PROCESSES=2 or less"


def test_a_store_is_tried_by_writing_to_it(monkeypatch, tmp_path):
    monkeypatch.setenv("ZSTCI_ARTIFACTS_URL", str(tmp_path / "nowhere"))
    assert bad(findings()[1]) == ["artifacts"]
    (tmp_path / "nowhere").mkdir()
    assert findings()[1]["artifacts"]["state"] == "ok"
    assert list((tmp_path / "nowhere").iterdir()) == []
    monkeypatch.setenv("ZSTCI_ARTIFACTS_URL", "nonsense://bucket")
    assert bad(findings()[1]) == ["artifacts"]


def test_a_bucket_is_tried_over_the_network(monkeypatch):
    with object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ZSTCI_ARTIFACTS_URL", f"s3://{BUCKET}/files")
        assert findings()[1]["artifacts"]["state"] == "ok"
        monkeypatch.setenv("ZSTCI_ARTIFACTS_URL", "s3://no-such-bucket/files")
        code, found = findings()
        assert (code, found["artifacts"]["state"]) == (0, "warn")
        assert "the first upload makes it" in found["artifacts"]["detail"]


def test_a_port_with_our_service_is_fine_and_with_another_program_bad(monkeypatch):
    with running() as contract:
        monkeypatch.setenv("ZSTCI_PORT", contract.url.rpartition(":")[2])
        assert findings()[1]["port"]["detail"].endswith("version 2, 2 classes")
    with _silent() as port:
        monkeypatch.setenv("ZSTCI_PORT", str(port))
        monkeypatch.setattr("service.cli.ports._SECONDS", 0.2)
        code, found = findings()
    assert (code, bad(found)) == (1, ["port"])
    assert "taken by another program" in found["port"]["detail"]


def test_weights_that_must_be_fetched_are_a_warning(monkeypatch):
    monkeypatch.setenv("ZSTCI_DEFAULT_PRESET", "paper-cub")
    assert findings()[1]["weights"]["state"] == "warn"
    monkeypatch.setenv("ZSTCI_DEFAULT_PRESET", "paper-cifar100")
    assert findings()[1]["weights"]["state"] == "ok"
    monkeypatch.setenv("ZSTCI_DEFAULT_PRESET", "nonsense")
    assert bad(findings()[1]) == ["weights"]


@contextmanager
def _silent():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]
