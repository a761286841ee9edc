import pytest

from service.errors import UnknownVersion, VersionChanged
from service.serving.live import ModelSlot
from service.storage.versions import VersionStore
from service.usecases.publish import Publisher
from zstci.errors import CorruptSnapshot


@pytest.fixture
def slot():
    return ModelSlot()


def damage(store: VersionStore, number: int) -> None:
    path = store.folder(number) / "serving.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_refresh_follows_the_active_version(store, slot):
    publisher = Publisher(store, slot)

    assert (publisher.refresh(), slot.version) == (True, 2)
    assert publisher.refresh() is False
    store.activate(1)
    assert (publisher.refresh(), slot.version) == (True, 1)


def test_refresh_without_a_version_waits(tmp_path, slot):
    assert Publisher(VersionStore(tmp_path), slot).refresh() is False
    assert slot.version is None


def test_a_damaged_version_leaves_the_old_one_answering(store, slot, caplog):
    publisher = Publisher(store, slot)
    store.activate(1)
    publisher.refresh()
    damage(store, 2)
    store.activate(2)

    assert publisher.refresh() is False
    assert publisher.refresh() is False
    assert slot.version == 1
    # Said once, not at every poll.
    assert [record.message for record in caplog.records] == ["Version not loaded"]
    store.activate(1)
    assert publisher.refresh() is False


def test_activating_answers_from_the_version_at_once(store, slot):
    version = Publisher(store, slot).activate(1, expected=2)

    assert (version.number, slot.version, store.active()) == (1, 1, 1)


def test_a_damaged_version_cannot_become_active(store, slot):
    damage(store, 1)

    with pytest.raises(CorruptSnapshot):
        Publisher(store, slot).activate(1)
    assert (slot.version, store.active()) == (None, 2)


def test_who_was_too_late_changes_nothing(store, slot):
    publisher = Publisher(store, slot)

    with pytest.raises(VersionChanged):
        publisher.activate(1, expected=1)
    with pytest.raises(UnknownVersion):
        publisher.activate(7)
    assert (slot.version, store.active()) == (None, 2)
