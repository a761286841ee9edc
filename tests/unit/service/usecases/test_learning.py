import pytest

from service.errors import VersionChanged
from service.storage.versions import VersionStore
from service.usecases.learning import choose_config, learn_folder
from tests.pictures import TINY, save_digits
from zstci import Progress, Snapshot, preset
from zstci.errors import InvalidConfig, InvalidData, Stopped


def test_the_first_version_takes_the_default_preset_or_the_one_that_is_named():
    assert choose_config(None, None, {}) == preset("default")
    assert choose_config(None, "head", {"train.epochs": 3}) == preset("head").override(**{"train.epochs": 3})


def test_a_later_version_goes_on_as_its_parent_was_learnt(snapshots):
    assert choose_config(snapshots[1], None, {}) == snapshots[1].config


def test_a_preset_for_a_later_version_leaves_it_the_net_of_its_parent(snapshots):
    config = choose_config(snapshots[0], "head", {})

    assert config.net == snapshots[0].config.net
    assert config.regularizer == preset("head").regularizer


def test_two_folders_one_after_the_other_become_two_versions(tmp_path):
    store = VersionStore(tmp_path / "home")
    learn_folder(store, save_digits(tmp_path / "a", [0, 1]), overrides=TINY)
    reports: list[Progress] = []
    overrides = {"regularizer": "lwf", "translator": "sdc", "train.epochs": 2}
    version = learn_folder(store, save_digits(tmp_path / "b", [1, 2]), overrides=overrides, on_progress=reports.append)

    facts = version.facts
    assert (version.number, store.active(), facts.parent, facts.task) == (2, 2, 1, 2)
    assert (facts.classes, facts.added, facts.images) == (3, ("digit-2",), 12)
    assert (facts.regularizer, facts.translator, facts.classifier) == ("lwf", "sdc", "whitened")
    assert facts.translation["name"] == "sdc"
    assert {"embedding", "fine_tuning", "reprojecting"} <= {report.stage for report in reports}
    assert Snapshot.load(store.folder(2)).prototypes.counts.tolist() == [6, 12, 6]


def test_another_net_for_a_later_version_is_refused_and_nothing_changes(store, tmp_path):
    with pytest.raises(InvalidConfig, match="a snapshot keeps its net"):
        learn_folder(store, save_digits(tmp_path / "b", [7, 8]), overrides={"net.dim": 32})

    assert (store.numbers(), store.active()) == ([1, 2], 2)


def test_a_folder_that_holds_no_classes_is_refused(store, tmp_path):
    with pytest.raises(InvalidData, match=r"class-name/image\.jpg"):
        learn_folder(store, tmp_path / "nothing")


def test_a_stopped_update_changes_nothing(store, tmp_path):
    with pytest.raises(Stopped):
        learn_folder(store, save_digits(tmp_path / "b", [7, 8]), should_stop=lambda: True)

    assert (store.numbers(), store.active()) == ([1, 2], 2)


def test_when_another_version_was_activated_meanwhile_the_new_one_is_stored_but_not_active(store, tmp_path):
    def somebody_else(progress: Progress) -> None:
        store.activate(1)

    with pytest.raises(VersionChanged, match=r"version 3 is stored but not active.*zstci versions activate 3"):
        learn_folder(store, save_digits(tmp_path / "b", [7, 8]), on_progress=somebody_else)

    assert (store.numbers(), store.active()) == ([1, 2, 3], 1)
