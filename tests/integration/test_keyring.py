"""The keys in memory, beside a real database that changes or goes away."""

import time

import pytest

from service.domain import Actor
from service.errors import DatabaseUnreachable
from service.storage.audit import AuditStore
from service.storage.database import Database
from service.storage.keys import KeyStore
from service.tokens import digest, new_token
from service.usecases.audit import Audit
from service.usecases.keyring import Keyring
from service.usecases.manage_keys import KeyManager
from tests.unit.service.storage.samples import a_key

ACTOR = Actor(None, "test")
UNREACHABLE = "postgresql://127.0.0.1:1/nobody"


@pytest.fixture
def keys(database):
    return KeyStore(database)


@pytest.fixture
def manager(keys, database):
    return KeyManager(keys, Audit(AuditStore(database)))


@pytest.fixture
def ring(keys):
    ring = Keyring(keys, "", 0.02)
    ring.refresh()
    yield ring
    ring.close()


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_key_is_found_by_itself_and_by_nothing_else(ring, manager):
    made, token = manager.create(ACTOR, "camera", "update")
    ring.refresh()

    caller = ring.find(token)
    assert (caller.key_id, caller.name, caller.scope) == (made.id, "camera", "update")
    others = [token[:-1], token + "x", token.upper(), token[6:], new_token(made.id), new_token("0" * 12), "", "\udcff"]
    assert [ring.find(other) for other in others] == [None] * len(others)


def test_keys_are_wanted_from_the_first_one_on_and_for_ever(ring, manager):
    assert not ring.required
    made, _ = manager.create(ACTOR, "camera", "query")
    ring.refresh()
    assert ring.required
    manager.revoke(ACTOR, made.id)
    ring.refresh()

    assert ring.required, "the end of the last key must not open the door to all"


def test_what_happens_elsewhere_is_noticed_without_being_asked(ring, manager):
    ring.start()
    made, token = manager.create(ACTOR, "camera", "query")
    until(lambda: ring.find(token))
    manager.revoke(ACTOR, made.id)

    until(lambda: ring.find(token) is None)


def test_the_old_secret_is_good_for_the_grace_and_no_longer(ring, manager):
    made, first = manager.create(ACTOR, "camera", "query")
    _, second = manager.rotate(ACTOR, made.id, grace_seconds=60)
    ring.refresh()
    assert ring.find(first) == ring.find(second) is not None
    _, third = manager.rotate(ACTOR, made.id)
    ring.refresh()

    assert [ring.find(token) is not None for token in (first, second, third)] == [False, False, True]


def test_a_key_ends_on_time_without_a_look_at_the_database(ring, keys):
    token, soon = new_token("0123456789ab"), time.time() + 0.3
    end = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(soon)) + f".{int(soon % 1 * 1e6):06}Z"
    keys.add(a_key("0123456789ab", expires_at=end), digest(token))
    ring.refresh()
    assert ring.find(token)

    until(lambda: ring.find(token) is None)


def test_the_last_use_is_written_later(ring, manager, keys):
    _, token = manager.create(ACTOR, "camera", "query")
    ring.refresh()
    ring.find(token)
    assert keys.list(1)[0][0].last_used_at is None
    ring.note_used()

    assert keys.list(1)[0][0].last_used_at is not None


def test_the_last_use_is_not_lost_when_the_process_ends(ring, manager, keys):
    _, token = manager.create(ACTOR, "camera", "query")
    ring.refresh()
    ring.start()
    ring.find(token)
    ring.close()

    assert keys.list(1)[0][0].last_used_at is not None


def test_without_a_database_the_keys_at_hand_stay_good(ring, manager, caplog):
    _, token = manager.create(ACTOR, "camera", "query")
    ring.refresh()
    away = Database(UNREACHABLE)
    ring._store = KeyStore(away)
    with pytest.raises(DatabaseUnreachable):
        ring.refresh()
    ring.start()
    until(lambda: "keys_not_read" in [getattr(record, "action", "") for record in caplog.records])

    assert ring.find(token)
    assert ring.required
    ring.close()
    away.close()
    assert [getattr(record, "action", "") for record in caplog.records].count("keys_not_read") == 1


def test_whoever_does_not_know_the_keys_lets_nobody_in():
    database = Database(UNREACHABLE)
    ring = Keyring(KeyStore(database), "", 1)
    with pytest.raises(DatabaseUnreachable, match="try again"):
        _ = ring.required
    assert ring.find(new_token("0" * 12)) is None
    database.close()


def test_the_key_of_the_environment_needs_no_database():
    database = Database(UNREACHABLE)
    ring = Keyring(KeyStore(database), "x" * 40, 1)

    assert ring.required
    caller = ring.find("x" * 40)
    assert caller is not None
    assert caller.scope == "admin"
    assert ring.find("x" * 41) is None
    database.close()
