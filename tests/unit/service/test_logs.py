import logging

from service.logs import _KeyValues


def test_extras_stand_behind_the_message_and_before_the_trace():
    record = logging.makeLogRecord({"msg": "Version live", "action": "version_live", "version": 7})
    record.exc_text = "Traceback"

    assert _KeyValues("%(message)s").format(record) == "Version live action=version_live version=7\nTraceback"
