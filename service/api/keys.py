"""Who may ask: make, look at, rotate and revoke keys."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Path, Query

from service.api.dependencies import CurrentParts
from service.api.guard import CurrentActor
from service.api.key_schemas import KeyEntry, KeyPage, NewKey, NewKeyEntry, key_entry, new_key_entry
from service.api.pages import Cursor, Limit
from service.api.problem_examples import BODY, CHANGES, STORED
from service.api.problems import problems
from service.api.small_body import SmallBody
from service.bootstrap import Parts
from service.errors import BadRequest, InvalidOption, InvalidRequest, KeyRevoked, ServiceError, UnknownKey

__all__ = ["router"]

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=SmallBody)

KeyId = Annotated[str, Path(max_length=64, description="`id` of the key", examples=["0123456789ab"])]
Grace = Annotated[
    int, Query(ge=0, le=30 * 86400, description="Seconds that the secret before is good for, too", examples=[3600])
]


# Not async: these ask the database, so they belong in a thread.
@router.get("", summary="All keys", responses=problems(InvalidRequest, *STORED))
def list_keys(parts: CurrentParts, limit: Limit = 100, cursor: Cursor = None) -> KeyPage:
    """Newest first, also those that are good no more. Secrets are never told."""
    found, following = parts.keys.list(limit, int(cursor) if cursor else None)
    return KeyPage(data=[key_entry(key) for key in found], next_cursor=str(following) if following else None)


@router.post("", summary="Make a key", status_code=201, responses=problems(*BODY, BadRequest, InvalidOption, *CHANGES))
def create_key(parts: CurrentParts, actor: CurrentActor, new: NewKey) -> NewKeyEntry:
    """The answer holds the key, this once. Other API processes let it in within two seconds. As soon as there is a key,
    everybody needs one."""
    key, token = parts.key_manager.create(actor, new.name, new.scope, new.days)
    _know_at_once(parts)
    return new_key_entry(key, token)


@router.post(
    "/{key_id}/rotate", summary="Replace a key's secret", responses=problems(*BODY, UnknownKey, KeyRevoked, *CHANGES)
)
def rotate_key(parts: CurrentParts, actor: CurrentActor, key_id: KeyId, grace_seconds: Grace = 0) -> NewKeyEntry:
    """The same id, name, scope and end, with another secret. The one before is refused at once, unless you give it a
    grace."""
    key, token = parts.key_manager.rotate(actor, key_id, grace_seconds)
    _know_at_once(parts)
    return new_key_entry(key, token)


@router.delete("/{key_id}", summary="Revoke a key", responses=problems(*BODY, UnknownKey, *CHANGES))
def revoke_key(parts: CurrentParts, actor: CurrentActor, key_id: KeyId) -> KeyEntry:
    """For good. Refused here from now on, by other API processes within two seconds."""
    key = parts.key_manager.revoke(actor, key_id)
    _know_at_once(parts)
    return key_entry(key)


def _know_at_once(parts: Parts) -> None:
    """It has happened by now; if it cannot be seen here yet, the next poll sees it."""
    with suppress(ServiceError):
        parts.keyring.refresh()
