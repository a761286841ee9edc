"""One line an event; what code passes as `extra` stands behind the message as key=value."""

from __future__ import annotations

import logging

from service.tokens import redacted

__all__ = ["configure"]

_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}


class _KeyValues(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line, newline, trace = super().format(record).partition("\n")
        extras = [f"{name}={value}" for name, value in vars(record).items() if name not in _OWN]
        # Nothing here writes a key on purpose; should a message of foreign making hold one, it is cut.
        return redacted(" ".join([line, *extras]) + newline + trace)


def configure() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_KeyValues("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # They tell of every build that they do not find, every context, every request: nothing that anyone asked for.
    for talkative in ("faiss.loader", "alembic", "dbos", "httpx"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
