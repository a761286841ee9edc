import logging

import pytest

from service.logs import _KeyValues, configure


def test_extras_stand_behind_the_message_and_before_the_trace():
    record = logging.makeLogRecord({"msg": "Version live", "action": "version_live", "version": 7})
    record.exc_text = "Traceback"

    assert _KeyValues("%(message)s").format(record) == "Version live action=version_live version=7\nTraceback"


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
