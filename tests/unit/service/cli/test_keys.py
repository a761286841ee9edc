"""Keys by the command line, on a real database."""

import json

import pytest
from typer.testing import CliRunner

from service.cli import app, main
from service.storage.audit import AuditStore
from service.storage.database import Database, database_url
from service.storage.keys import KeyStore
from service.tokens import digest, id_of


@pytest.fixture
def database(settings, monkeypatch):
    monkeypatch.setenv("ZSTCI_HOME", str(settings.home))
    database = Database(database_url(settings))
    yield database
    database.close()


@pytest.fixture
def zstci(database):
    """Run a command: what it printed, and what it said beside that."""

    def run(*arguments: object) -> tuple[str, str]:
        result = CliRunner().invoke(app, ["keys", *map(str, arguments)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout, result.stderr

    return run


def test_a_new_key_stands_alone_on_standard_output(zstci, database):
    printed, said = zstci("create", "camera 7", "--scope", "admin", "--days", 3)
    token = printed.strip()

    [stored] = KeyStore(database).good()
    assert (stored.digest, stored.key.id, stored.key.scope) == (digest(token), id_of(token), "admin")
    assert "shown this once" in said
    assert token not in said


def test_keys_are_listed_without_a_secret(zstci):
    token = zstci("create", "camera 7")[0].strip()
    listed, _ = zstci("list")

    assert listed.splitlines()[1].split("  ")[:3] == [id_of(token), "camera 7", "query"]
    assert token.rpartition("_")[2] not in listed
    [entry] = json.loads(zstci("list", "--json")[0])["data"]
    assert (entry["name"], entry["last_used_at"]) == ("camera 7", None)


def test_a_key_is_rotated_and_revoked(zstci, database):
    made = json.loads(zstci("create", "camera 7", "--json")[0])
    second = zstci("rotate", made["id"], "--grace", 60)[0].strip()
    [stored] = KeyStore(database).good()
    assert (stored.digest, stored.previous_digest) == (digest(second), digest(made["key"]))
    assert zstci("revoke", made["id"])[0] == f"key {made['id']} (camera 7) is revoked\n"

    assert KeyStore(database).good() == []
    assert "revoked 20" in zstci("list")[0]
    assert {(entry.actor, entry.request_id) for entry in AuditStore(database).list(10)[0]} == {("command line", None)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["revoke", "nobody"], "zstci: no key 'nobody'; "),
        (["rotate", "nobody"], "zstci: no key 'nobody'; "),
        (["create", " "], "zstci: the name of a key has "),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(database, monkeypatch, capsys, arguments, said):
    monkeypatch.setattr("sys.argv", ["zstci", "keys", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    [line] = capsys.readouterr().err.splitlines()
    assert (ended.value.code, line.startswith(said)) == (2, True)
