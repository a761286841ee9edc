"""Keys and the audit log at rest, on both databases."""

import pytest
from sqlalchemy import text

from service.domain import Actor
from service.errors import InvalidOption, KeyRevoked, UnknownKey
from service.storage.audit import AuditStore
from service.storage.keys import KeyStore
from service.storage.times import now
from service.tokens import digest
from service.usecases.audit import Audit
from service.usecases.manage_keys import KeyManager
from tests.unit.service.storage.samples import a_key

ACTOR = Actor("k0", "Chefin", "request-1")
PAST, FUTURE = "2020-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"


@pytest.fixture
def keys(database):
    return KeyStore(database)


@pytest.fixture
def log(database):
    return AuditStore(database)


@pytest.fixture
def manager(keys, log):
    return KeyManager(keys, Audit(log))


def test_a_key_comes_back_as_it_went_in_and_only_its_digest_is_stored(database, keys, manager):
    made, token = manager.create(ACTOR, " Küche 7 ", "update", days=3)

    assert keys.list(10) == ([made], None)
    assert (made.name, made.scope, made.expires_at > now()) == ("Küche 7", "update", True)
    [stored] = keys.good()
    assert (stored.key, stored.digest, stored.previous_digest) == (made, digest(token), None)
    with database.read() as session:
        everything = str(session.execute(text("SELECT * FROM api_keys")).all())
        everything += str(session.execute(text("SELECT * FROM audit_log")).all())
    assert token.rpartition("_")[2] not in everything


def test_two_keys_of_one_name_are_two_keys(keys, manager):
    (one, first), (other, second) = (manager.create(ACTOR, "camera", "query") for _ in range(2))

    assert one.id != other.id
    assert first != second
    assert len(keys.good()) == 2


def test_rotation_keeps_the_key_and_replaces_its_secret(keys, manager):
    made, first = manager.create(ACTOR, "camera", "query")
    rotated, second = manager.rotate(ACTOR, made.id, grace_seconds=60)

    [stored] = keys.good()
    assert (rotated.id, rotated.rotated_at is not None) == (made.id, True)
    assert (stored.digest, stored.previous_digest) == (digest(second), digest(first))
    assert now() < stored.previous_until < FUTURE
    manager.rotate(ACTOR, made.id)
    assert keys.good()[0].previous_digest == digest(second), "the first is gone"


def test_what_was_revoked_stays_revoked_and_is_still_listed(keys, manager):
    made, _ = manager.create(ACTOR, "camera", "query")
    gone = manager.revoke(ACTOR, made.id)

    assert manager.revoke(ACTOR, made.id) == gone
    assert keys.good() == []
    assert keys.any()
    assert keys.list(10)[0] == [gone]
    with pytest.raises(KeyRevoked, match="make a new one"):
        manager.rotate(ACTOR, made.id)


def test_an_expired_key_is_not_good(keys):
    for key_id, end in (("k1", PAST), ("k2", FUTURE), ("k3", None)):
        keys.add(a_key(key_id, expires_at=end), "digest")

    assert [stored.key.id for stored in keys.good()] == ["k2", "k3"]


@pytest.mark.parametrize("key_id", ["", "nobody", "a\0b", "\udc80", "x" * 5000])
def test_a_key_that_is_not_there(manager, key_id):
    with pytest.raises(UnknownKey):
        manager.rotate(ACTOR, key_id)
    with pytest.raises(UnknownKey):
        manager.revoke(ACTOR, key_id)


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\u202eb", "a\0b", "\ud800"])
def test_a_name_that_cannot_be_shown_is_refused(keys, manager, name):
    with pytest.raises(InvalidOption, match="name of a key"):
        manager.create(ACTOR, name, "query")
    assert not keys.any()


def test_keys_are_listed_in_pages(keys):
    for number in range(5):
        keys.add(a_key(f"k{number}"), "digest")
    first, cursor = keys.list(3)
    second, end = keys.list(3, cursor)

    assert [key.id for key in first + second] == ["k4", "k3", "k2", "k1", "k0"]
    assert end is None


def test_the_last_use_only_moves_on(keys):
    keys.add(a_key(), "digest")
    for at in ("2026-11-18T03:00:05.000000Z", "2026-11-18T03:00:04.000000Z"):
        keys.note_used({"k1": at, "gone": at})

    assert keys.list(1)[0][0].last_used_at == "2026-11-18T03:00:05.000000Z"


def test_every_change_of_a_key_is_in_the_audit_log(log, manager):
    made, _ = manager.create(ACTOR, "camera", "query")
    manager.rotate(ACTOR, made.id)
    manager.revoke(ACTOR, made.id)
    with pytest.raises(KeyRevoked):
        manager.rotate(ACTOR, made.id)

    entries, _ = log.list(10)
    assert [(entry.action, entry.outcome) for entry in entries] == [
        ("key_rotated", "key_revoked"),
        ("key_revoked", "done"),
        ("key_rotated", "done"),
        ("key_created", "done"),
    ]
    assert {(entry.object, entry.key_id, entry.actor, entry.request_id) for entry in entries} == {
        (made.id, "k0", "Chefin", "request-1")
    }


def test_the_entry_is_there_before_the_change_and_names_it_when_it_is_known(log):
    audit = Audit(log)
    with audit.change(ACTOR, "update_submitted") as change:
        assert [(entry.object, entry.outcome) for entry in log.list(1)[0]] == [("", "begun")]
        change.what = "u1"

    assert [(entry.object, entry.outcome) for entry in log.list(1)[0]] == [("u1", "done")]


def test_a_change_that_breaks_down_says_so_in_the_log(log):
    def break_down() -> None:
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError), Audit(log).change(ACTOR, "class_deleted", "c\0\ud800"):
        break_down()

    [entry] = log.list(1)[0]
    assert (entry.outcome, entry.object) == ("internal_error", "c\ufffd?")


def test_the_log_is_read_in_pages(log):
    for number in range(5):
        log.begin(ACTOR, "class_renamed", str(number))
    first, cursor = log.list(3)
    second, end = log.list(3, cursor)

    assert [entry.object for entry in first + second] == ["4", "3", "2", "1", "0"]
    assert end is None
