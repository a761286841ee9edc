"""Make, rotate and revoke keys. A key is told once, to whoever made it."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

from service.config import Settings
from service.domain import Actor, Key, Scope
from service.errors import InvalidOption, NoKeys
from service.loopback import is_loopback
from service.storage.database import Database, database_url
from service.storage.keys import KeyStore
from service.storage.times import as_text, now
from service.tokens import digest, new_id, new_token
from service.usecases.audit import Audit

__all__ = ["KeyManager", "require_keys"]

_LONGEST = 100


class KeyManager:
    def __init__(self, keys: KeyStore, audit: Audit) -> None:
        self._keys, self._audit = keys, audit

    def create(self, actor: Actor, name: str, scope: Scope, days: int | None = None) -> tuple[Key, str]:
        """The key's row, and the key."""
        name, key_id = _clean(name), new_id()
        token = new_token(key_id)
        expires = None if days is None else as_text(datetime.now(UTC) + timedelta(days=days))
        with self._audit.change(actor, "key_created", key_id):
            return self._keys.add(Key(key_id, name, scope, now(), expires), digest(token)), token

    def rotate(self, actor: Actor, key_id: str, grace_seconds: int = 0) -> tuple[Key, str]:
        """Another secret for the same key. The one before is good for the grace, so that nobody has to be quick."""
        token = new_token(key_id)
        until = as_text(datetime.now(UTC) + timedelta(seconds=grace_seconds))
        with self._audit.change(actor, "key_rotated", key_id):
            return self._keys.rotate(key_id, digest(token), until), token

    def revoke(self, actor: Actor, key_id: str) -> Key:
        with self._audit.change(actor, "key_revoked", key_id):
            return self._keys.revoke(key_id)


def require_keys(settings: Settings) -> None:
    """Before a service listens where others can reach it."""
    if settings.insecure or settings.admin_key or is_loopback(settings.host):
        return
    database = Database(database_url(settings))
    try:
        if not KeyStore(database).good():
            raise NoKeys(
                f"others can reach {settings.host or 'every address of this machine'}, and there is no key yet; make "
                "one with: zstci keys create NAME --scope admin, or set ZSTCI_ADMIN_KEY (--insecure starts without)"
            )
    finally:
        database.close()


def _clean(name: str) -> str:
    """Names are shown in lists and logs: none may hide or break the text around it."""
    name = name.strip()
    if not 0 < len(name) <= _LONGEST or any(
        unicodedata.category(letter).startswith(("C", "Z")) for letter in name.replace(" ", "")
    ):
        raise InvalidOption(
            f"the name of a key has 1 to {_LONGEST} letters, digits and signs, and none that is invisible"
        )
    return name
