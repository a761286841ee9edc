"""Every exit code of the README, provoked. A `zstci serve` that cannot start is in tests/acceptance."""

import re
import sys

import pytest

from service.cli import main
from tests.contract_server import FAILED, SUCCEEDED, UPDATE, problem, running, update_entry
from tests.unit.service.cli.test_reference import REFERENCE

WATCH = ["updates", "watch", UPDATE]
BY_CTRL_C = 130  # a real process and a real signal: test_commands.py, test_cli.py


@pytest.fixture(scope="module")
def contract():
    with running() as contract:
        yield contract


@pytest.fixture
def server(contract, monkeypatch, tmp_path):
    contract.forget()
    contract.events = [("done", {"state": "any"})]
    monkeypatch.setenv("ZSTCI_URL", contract.url)
    monkeypatch.setenv("ZSTCI_HOME", str(tmp_path / "home"))
    return contract


def exit_code(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["zstci", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refused(status: int, code: str):
    """The service's answer to `zstci classes`."""
    return lambda server: server.script.update({"/v1/classes": [problem(status, code, "why")] * 5})


def ended(**how):
    return lambda server: setattr(server, "update", update_entry(**how))


def as_it_is(server):
    pass


CASES = [
    (0, as_it_is, ["classes"]),
    (0, as_it_is, ["--version"]),
    (0, ended(**SUCCEEDED), WATCH),
    (1, refused(500, "internal_error"), ["classes"]),
    (2, refused(401, "unauthenticated"), ["classes"]),
    (2, refused(404, "unknown_version"), ["classes"]),
    (2, refused(503, "no_classes_yet"), ["classes"]),
    (2, as_it_is, ["classify", "nowhere.jpg"]),
    (2, as_it_is, ["clasify"]),
    (2, as_it_is, []),
    (3, as_it_is, ["classes", "--url", "http://127.0.0.1:9"]),
    (3, refused(503, "database_behind"), ["classes"]),
    (3, refused(502, "http_502"), ["classes"]),
    (3, refused(507, "storage_full"), ["classes"]),
    (4, ended(**FAILED), WATCH),
    (5, ended(state="cancelled"), WATCH),
]


@pytest.mark.parametrize(("code", "prepare", "arguments"), CASES)
def test_an_exit_code_means_what_the_readme_says(server, monkeypatch, code, prepare, arguments):
    prepare(server)
    assert exit_code(monkeypatch, *arguments) == code


def test_a_doctor_who_finds_something_bad_is_exit_code_1(server, monkeypatch):
    monkeypatch.setenv("ZSTCI_PORT", "many")
    assert exit_code(monkeypatch, "doctor", "--json") == 1


def test_a_postgres_that_was_not_migrated_is_exit_code_3(server, monkeypatch, postgres_url):
    monkeypatch.setenv("ZSTCI_DATABASE_URL", postgres_url)
    assert exit_code(monkeypatch, "keys", "list") == 3


def test_every_code_of_the_readme_is_provoked():
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE)}
    assert documented == {code for code, _, _ in CASES} | {BY_CTRL_C}
