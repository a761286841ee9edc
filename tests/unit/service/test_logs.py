import logging

import pytest

from service.logs import _KeyValues, configure
from service.tokens import new_token


def test_extras_stand_behind_the_message_and_before_the_trace():
    record = logging.makeLogRecord({"msg": "Version live", "action": "version_live", "version": 7})
    record.exc_text = "Traceback"

    assert _KeyValues("%(message)s").format(record) == "Version live action=version_live version=7\nTraceback"


def test_a_key_in_a_message_of_foreign_making_is_cut():
    token = new_token("0123456789ab")
    record = logging.makeLogRecord({"msg": f"got {token}", "header": f"Bearer {token}"})
    record.exc_text = f"RuntimeError: {token}"

    line = _KeyValues("%(message)s").format(record)
    assert token.rpartition("_")[2] not in line
    assert line.count("zstci_0123456789ab_...") == 3


@pytest.fixture
def bare_root():
    """As it is when a process starts, and as it was afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root.handlers.clear  # to be called within the test: pytest adds its own handlers again before it
    root.handlers[:] = handlers
    root.setLevel(level)


def test_our_own_lines_are_shown_and_those_of_talkative_libraries_are_not(bare_root, capsys):
    bare_root()
    configure()
    logging.getLogger("service.app").info("Version live", extra={"action": "version_live"})
    for name in ("alembic", "dbos", "httpx", "faiss.loader"):
        logging.getLogger(name).info("chatter")

    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" INFO ")[1] for line in lines] == ["service.app: Version live action=version_live"]
