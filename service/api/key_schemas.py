"""What the API says of keys and of who changed what."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from service.domain import Key, Scope
from service.storage.times import now

__all__ = ["AuditItem", "AuditPage", "KeyEntry", "KeyPage", "NewKey", "NewKeyEntry", "key_entry", "new_key_entry"]

_TIME = "2026-11-18T03:00:00.000000Z"


class NewKey(BaseModel):
    """A key that shall be made."""

    name: str = Field(description="For whom or what it is", min_length=1, max_length=100, examples=["camera 7"])
    scope: Scope = Field(
        default="query",
        description="query: ask and look; update: also add, rename and delete classes; admin: also activate versions, "
        "keys and the audit log",
        examples=["query"],
    )
    days: int | None = Field(
        default=None, ge=1, le=36500, description="Good for so many days; null: until revoked", examples=[365]
    )


class KeyEntry(BaseModel):
    """A key, without its secret."""

    id: str = Field(description="Stable; not secret", examples=["0123456789ab"])
    name: str = Field(description="For whom or what it is", examples=["camera 7"])
    scope: Scope = Field(description="What it may do: each scope includes those before it", examples=["query"])
    state: Literal["good", "expired", "revoked"] = Field(description="Only a good one is let in", examples=["good"])
    created_at: str = Field(description="ISO 8601, UTC", examples=[_TIME])
    expires_at: str | None = Field(description="null: never", examples=[_TIME])
    rotated_at: str | None = Field(description="When its secret was last replaced; null: never", examples=[None, _TIME])
    revoked_at: str | None = Field(description="When it was taken back; null: it was not", examples=[None, _TIME])
    last_used_at: str | None = Field(description="To a few seconds", examples=[_TIME])


class NewKeyEntry(KeyEntry):
    """A key with its secret, told once."""

    key: str = Field(
        description="Send it as Authorization: Bearer. It is shown this once, and stored nowhere.",
        examples=["zstci_0123456789ab_..."],
    )


class KeyPage(BaseModel):
    """A page of all keys."""

    data: list[KeyEntry] = Field(description="Newest first, also those that are good no more")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one", examples=["100"])


class AuditItem(BaseModel):
    """Somebody changed something, or tried to."""

    model_config = ConfigDict(from_attributes=True)

    id: int = Field(description="Counts up", examples=[42])
    at: str = Field(description="ISO 8601, UTC", examples=[_TIME])
    key_id: str | None = Field(
        description="The key it was done with; null where none was needed", examples=["0123456789ab"]
    )
    actor: str = Field(description="Name of the key, `loopback`, `anybody` or `command line`", examples=["camera 7"])
    action: str = Field(description="What was done", examples=["class_renamed"])
    object: str = Field(description="To what: an id or a number", examples=["c0123456789abcde"])
    request_id: str | None = Field(
        description="As in X-Request-ID; null from the command line", examples=["0d6f1c1e6f7f4a53b1f4a4f8f6a7c001"]
    )
    outcome: str = Field(
        description="done; the code of what refused it; or begun, if its process died in the middle", examples=["done"]
    )


class AuditPage(BaseModel):
    """A page of who changed what."""

    data: list[AuditItem] = Field(description="Newest first")
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one", examples=["100"])


def key_entry(key: Key) -> KeyEntry:
    return KeyEntry(state=_state(key), **asdict(key))


def new_key_entry(key: Key, token: str) -> NewKeyEntry:
    return NewKeyEntry(state=_state(key), key=token, **asdict(key))


def _state(key: Key) -> Literal["good", "expired", "revoked"]:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now() else "good"
