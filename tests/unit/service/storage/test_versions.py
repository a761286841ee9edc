import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from service.errors import AlreadyLearning, DamagedHome, NoClassesYet, UnknownVersion, VersionChanged
from service.storage.versions import VersionStore
from zstci import Snapshot


def test_an_empty_home_has_no_version_and_reading_it_makes_no_folder(tmp_path):
    store = VersionStore(tmp_path / "home")

    assert (store.numbers(), store.active()) == ([], None)
    with pytest.raises(NoClassesYet, match="zstci learn DIR"):
        store.require_active()
    with pytest.raises(UnknownVersion, match="no version 1; there is none yet"):
        store.folder(1)
    assert not store.home.exists()


def test_a_version_comes_back_as_it_was_stored(store, snapshots, facts):
    version = store.get(1)

    assert (version.number, version.facts) == (1, facts)
    assert Snapshot.load(store.folder(1)).prototypes.ids == snapshots[0].prototypes.ids
    assert version.bytes == sum(path.stat().st_size for path in store.folder(1).glob("*.safetensors"))


def test_the_order_is_that_of_numbers_not_of_names(store, snapshots, facts):
    for _ in range(9):
        store.add(snapshots[0], facts)

    assert store.numbers() == list(range(1, 12))


def test_writers_at_the_same_time_get_different_numbers_and_whole_versions(store, snapshots, facts):
    together = Barrier(6)

    def add(_: int) -> int:
        together.wait()
        return VersionStore(store.home).add(snapshots[0], facts).number

    with ThreadPoolExecutor(6) as pool:
        numbers = list(pool.map(add, range(6)))

    assert sorted(numbers) == [3, 4, 5, 6, 7, 8]
    assert all(len(Snapshot.load(store.folder(number)).prototypes) == 3 for number in numbers)


def test_of_several_that_expect_the_same_version_exactly_one_activates(store, snapshots, facts):
    together = Barrier(4)
    numbers = [store.add(snapshots[0], facts).number for _ in range(4)]

    def activate(number: int) -> bool:
        together.wait()
        try:
            VersionStore(store.home).activate(number, expected=2)
        except VersionChanged:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = [number for number, wins in zip(numbers, pool.map(activate, numbers), strict=True) if wins]

    assert won == [store.active()]


def test_activating_with_a_wrong_expectation_changes_nothing(store):
    with pytest.raises(VersionChanged, match="version 2 is active by now, not 1"):
        store.activate(1, expected=1)
    with pytest.raises(UnknownVersion, match="no version 9; there are 1 to 2"):
        store.activate(9)

    assert store.active() == 2


def test_expecting_0_means_that_nothing_is_active_yet(store, tmp_path):
    with pytest.raises(VersionChanged):
        store.activate(1, expected=0)
    (store.home / "active").unlink()
    store.activate(1, expected=0)

    assert store.active() == 1


def test_an_unreadable_active_file_is_an_error_that_activating_cures(store):
    (store.home / "active").write_text("two")

    with pytest.raises(DamagedHome, match="zstci versions activate N"):
        store.active()
    store.activate(1)
    assert store.active() == 1


@pytest.mark.parametrize("content", ["{", "{}", json.dumps({"added": [], "colour": "red"})])
def test_a_version_without_its_facts_is_an_error(store, content):
    (store.folder(1) / "version.json").write_text(content)

    with pytest.raises(DamagedHome, match="is no complete version"):
        store.get(1)


def test_only_one_process_learns_at_a_time(store):
    second = VersionStore(store.home)
    with store.learning(), pytest.raises(AlreadyLearning, match="wait until it has ended"), second.learning():
        pass

    with store.learning() as checkpoints:
        assert checkpoints.parent == store.work


def test_what_a_killed_writer_left_is_cleared_and_checkpoints_are_kept(store):
    left = [store.work / "version-abc", store.work / ".version-abc.partial-1"]
    kept = store.work / "checkpoints"
    for folder in [*left, kept]:
        folder.mkdir()

    with store.learning():
        assert [folder.exists() for folder in [*left, kept]] == [False, False, True]
    assert store.numbers() == [1, 2]
