from dataclasses import replace

import pytest

from service.domain import Active
from service.errors import UnknownClass, UnknownVersion, VersionChanged
from service.storage.versions import VersionStore
from tests.unit.service.storage.samples import FACTS, a_version


@pytest.fixture
def store(database) -> VersionStore:
    return VersionStore(database)


@pytest.fixture
def three(store) -> VersionStore:
    """Versions 1 to 3, each on top of the one before. The last is active."""
    for parent, bundle in [(None, "versions/a"), (1, "versions/b"), (2, "versions/c")]:
        store.publish(a_version(bundle, parent), expected=parent, activate=True, names={bundle: bundle})
    return store


def test_a_new_database_has_no_version_and_none_is_active(store):
    assert store.active() == Active(None, 0)
    assert (store.list(10), store.names(), store.by_bundle("versions/a")) == (([], None), {}, None)
    with pytest.raises(UnknownVersion, match="no version 1; there is none yet"):
        store.get(1)


def test_a_version_comes_back_as_it_was_published(store):
    new = a_version()
    published = store.publish(new, expected=None, activate=True, names={"c1": "kiwi", "c2": "Möwe"})

    assert store.get(1) == published == store.by_bundle("versions/a")
    assert (published.number, published.facts, published.bytes) == (1, FACTS, 5 * 2**30)
    assert (published.parent, published.kind, published.bundle, published.sha256, published.update_id) == (
        new.parent,
        new.kind,
        new.bundle,
        new.sha256,
        new.update_id,
    )
    assert store.active() == Active(1, 0)
    assert store.names() == {"c1": "kiwi", "c2": "Möwe"}


def test_numbers_count_up_and_the_newest_comes_first(three):
    page, cursor = three.list(2)
    rest, end = three.list(2, cursor)

    assert [version.number for version in page + rest] == [3, 2, 1]
    assert (three.list(3)[1], end) == (None, None)
    assert three.list(5, 2**80) == three.list(5)


@pytest.mark.parametrize("number", [4, 0, -1, 2**31, 2**80])
def test_an_unknown_version_says_which_there_are(three, number):
    with pytest.raises(UnknownVersion, match=f"no version {number}; there are 1 to 3"):
        three.get(number)
    with pytest.raises(UnknownVersion):
        three.activate(number)
    assert three.active().version == 3


def test_publishing_on_top_of_a_version_that_is_not_active_any_more_writes_nothing(three):
    with pytest.raises(VersionChanged, match="version 3 is active by now, not 2"):
        three.publish(a_version("versions/d", 2), expected=2, activate=True, names={"new": "new"})
    with pytest.raises(VersionChanged, match="version 3 is active by now, not 0"):
        three.publish(a_version("versions/d"), expected=None, activate=True, names={"new": "new"})

    assert (three.by_bundle("versions/d"), "new" in three.names(), three.active().version) == (None, False, 3)


def test_a_version_can_be_published_without_becoming_active(three):
    waiting = three.publish(a_version("versions/d", 2), expected=2, activate=False, names={"new": "new"})

    assert (waiting.number, three.active().version) == (4, 3)
    assert three.activate(4, expected=3) == waiting
    assert three.active().version == 4


def test_publishing_again_after_a_crash_gives_the_same_version(three):
    again = three.publish(a_version("versions/b", 1), expected=1, activate=True, names={"new": "new"})

    assert again == three.get(2)
    assert (three.active().version, three.list(9)[0][0].number, "new" in three.names()) == (3, 3, False)


def test_activate_goes_back_and_forward(three):
    assert three.activate(1).number == 1
    assert three.active().version == 1
    assert three.activate(3, expected=1).number == 3
    with pytest.raises(VersionChanged, match="version 3 is active by now, not 1"):
        three.activate(2, expected=1)
    assert three.active().version == 3


def test_expecting_0_means_that_none_is_active(store):
    store.publish(a_version(), expected=None, activate=False, names={})
    assert store.activate(1, expected=0).number == 1
    with pytest.raises(VersionChanged, match="version 1 is active by now, not 0"):
        store.activate(1, expected=0)


def test_a_class_keeps_the_name_that_it_was_given_last(three):
    three.rename("versions/a", "Seeadler")
    three.publish(a_version("versions/d", 3), expected=3, activate=True, names={"versions/a": "old", "d": "new"})

    assert three.names() == {
        "versions/a": "Seeadler",
        "versions/b": "versions/b",
        "versions/c": "versions/c",
        "d": "new",
    }
    assert three.active() == Active(4, 1)


@pytest.mark.parametrize("class_id", ["nobody", "", "\0", "\ud800"])
def test_renaming_an_unknown_class_changes_nothing(three, class_id):
    with pytest.raises(UnknownClass, match="no class"):
        three.rename(class_id, "x")
    assert three.active().names_revision == 0


def test_what_is_no_number_is_left_out_of_the_facts(store):
    facts = replace(FACTS, translation={"loss": float("nan"), "kind": "x"}, metrics={"a": float("inf"), "b": [1.0]})
    store.publish(a_version(facts=facts), expected=None, activate=True, names={})

    assert store.get(1).facts == replace(FACTS, translation={"kind": "x"}, metrics={"a": None, "b": [1.0]})
