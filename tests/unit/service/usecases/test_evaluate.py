import pytest

from service.serving.live import LiveModel
from service.usecases.evaluate import evaluate
from tests.brute_force import distances_to
from tests.pictures import save_digits
from zstci import TaskData
from zstci.errors import InvalidData


def test_accuracy_is_the_share_of_images_whose_nearest_class_is_their_own(store, snapshots, tmp_path):
    folder = save_digits(tmp_path / "images", [0, 1, 2], skip=20)
    found = evaluate(LiveModel.load(store.folder(1), 1), TaskData.from_folder(folder))

    paths = list(folder.rglob("*.png"))
    right = [path.parent.name for path in paths if next(iter(distances_to(snapshots[0], path))) == path.parent.name]
    assert {part.class_id: part.correct for part in found.classes if part.correct} == {
        name: right.count(name) for name in set(right)
    }
    assert found.images == 18
    assert found.accuracy == pytest.approx(100 * len(right) / 18)


def test_classes_that_the_version_does_not_know_are_named_and_not_counted(store, tmp_path):
    data = TaskData.from_folder(save_digits(tmp_path / "images", [2, 3]))
    found = evaluate(LiveModel.load(store.folder(1), 1), data)

    assert [part.class_id for part in found.classes] == ["digit-2"]
    assert (found.unknown, found.images) == (("digit-3",), 6)


def test_a_folder_of_unknown_classes_only_is_refused(store, tmp_path):
    data = TaskData.from_folder(save_digits(tmp_path / "images", [8]))

    with pytest.raises(InvalidData, match="version 1 knows none of these classes"):
        evaluate(LiveModel.load(store.folder(1), 1), data)
