"""What a key looks like: `zstci_<id>_<secret>`. The id finds it, the secret proves it, and tools that look for leaked
secrets know the prefix."""

from __future__ import annotations

import hashlib
import re
import secrets

__all__ = ["digest", "id_of", "new_id", "new_token", "redacted"]

_SECRET_BYTES = 32
_TOKEN = re.compile(r"zstci_([0-9a-f]{12})_[A-Za-z0-9_-]{16,}")


def new_id() -> str:
    return secrets.token_hex(6)


def new_token(key_id: str) -> str:
    return f"zstci_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def digest(token: str) -> str:
    """One round of sha256, without salt. Slow and salted hashes are there for passwords, which can be guessed; nobody
    guesses 256 random bits, and this is computed for every request."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def id_of(token: str) -> str:
    """Where an id stands, if this is a key of ours; whether it is, only the digest tells."""
    return token[6:18]


def redacted(text: str) -> str:
    """With keys cut down to their ids."""
    return _TOKEN.sub(r"zstci_\1_...", text) if "zstci_" in text else text
