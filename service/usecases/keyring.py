"""The keys in memory: what a request is checked against. A thread of its own reads them again and again, so that a key
that was revoked anywhere is refused here soon, and a query never waits for a database."""

from __future__ import annotations

import hmac
import logging
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Thread

from service.domain import Caller, StoredKey
from service.errors import DatabaseUnreachable
from service.storage.keys import KeyStore
from service.storage.times import as_text
from service.tokens import digest, id_of

__all__ = ["Keyring"]

logger = logging.getLogger(__name__)

_LONGEST_POLL = 1.0  # seconds: a key that was revoked is refused within two
_NOTE_SECONDS = 10.0
_ENVIRONMENT = Caller("environment", "environment", "admin")


@dataclass(frozen=True)
class _Entry:
    """A key, made ready to be compared with: times are seconds since 1970."""

    caller: Caller
    digest: str
    end: float
    previous_digest: str
    previous_end: float

    @classmethod
    def of(cls, stored: StoredKey) -> _Entry:
        caller = Caller(stored.key.id, stored.key.name, stored.key.scope)
        end, before = _seconds(stored.key.expires_at, math.inf), _seconds(stored.previous_until, -math.inf)
        return cls(caller, stored.digest, end, stored.previous_digest or "", before)


@dataclass(frozen=True)
class _Known:
    """What was last read. One reference, so that a request never sees half of it."""

    keys: dict[str, _Entry]
    any: bool  # whether there is or ever was a key


class Keyring:
    def __init__(self, store: KeyStore, admin_key: str, poll_seconds: float) -> None:
        self._store, self._poll_seconds = store, min(poll_seconds, _LONGEST_POLL)
        self._environment = digest(admin_key) if admin_key else None
        self._known: _Known | None = None
        self._used: dict[str, float] = {}
        self._stop = Event()
        self._thread = Thread(target=self._follow, daemon=True, name="keys")

    @property
    def required(self) -> bool:
        """As soon as there is a key, everybody needs one. Also when all are revoked: the last key's end must not open
        the door to all."""
        if self._environment is not None:
            return True
        if self._known is None:
            raise DatabaseUnreachable("the keys could not be read since the start, so nobody can be let in; try again")
        return self._known.any

    def find(self, token: str) -> Caller | None:
        """Whose key this is, if it is good. Takes as long for a wrong secret as for a right one."""
        given = digest(token)
        if self._environment is not None and hmac.compare_digest(given, self._environment):
            return _ENVIRONMENT
        key_id, moment = id_of(token), time.time()
        entry = self._known.keys.get(key_id) if self._known is not None else None
        if entry is None:
            return None
        good = hmac.compare_digest(given, entry.digest)
        before = hmac.compare_digest(given, entry.previous_digest) and moment < entry.previous_end
        if not (good or before) or moment >= entry.end:
            return None
        self._used[key_id] = moment
        return entry.caller

    def refresh(self) -> None:
        keys = {stored.key.id: _Entry.of(stored) for stored in self._store.good()}
        self._known = _Known(keys, bool(keys) or self._store.any())

    def note_used(self) -> None:
        """Lazily: when a key was used last is worth no wait."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            self._store.note_used({key: as_text(datetime.fromtimestamp(at, UTC)) for key, at in used.items()})
        except Exception:
            self._used = used | self._used
            raise

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._stop.set()
            self._thread.join()

    def _follow(self) -> None:
        """Whatever goes wrong, the keys at hand stay good: to answer beats not to answer. It is noted, once for as long
        as it stays the same."""
        noted, rounds = "", max(1, round(_NOTE_SECONDS / self._poll_seconds))
        turn = 0
        while True:
            turn += 1
            last = self._stop.wait(self._poll_seconds)
            try:
                self.refresh()
                if last or turn % rounds == 0:
                    self.note_used()
                reason = ""
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                if reason != noted:
                    logger.warning("Keys not read", extra={"action": "keys_not_read", "reason": reason})
            noted = reason
            if last:
                return


def _seconds(text: str | None, otherwise: float) -> float:
    return otherwise if text is None else datetime.fromisoformat(text).timestamp()
