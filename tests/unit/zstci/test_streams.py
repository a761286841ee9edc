from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.unit.zstci import tiny
from zstci import ImageArrays, ImageFiles, TaskData, Vectors
from zstci.errors import InvalidConfig, MissingData, TooFewImages, UnknownStrategy
from zstci.streams import Stream, load_stream, shared_data, take


@pytest.fixture(autouse=True)
def no_shared_data(monkeypatch) -> None:
    monkeypatch.delenv("ZSTCI_DATA", raising=False)


@pytest.fixture(scope="module")
def digits() -> Stream:
    return load_stream("digits", None, tasks=5, seed=1993)


def folders(root: Path, names: list[str], train: int = 2, test: int = 1, size: int = 4) -> Path:
    """train/<name>/ and test/<name>/, each image in a grey of its own."""
    for place, name in enumerate(names):
        for part, count in (("train", train), ("test", test)):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                grey = (7 * place + number) % 256
                Image.new("RGB", (size, size), (grey, grey, grey)).save(root / part / name / f"{number}.png")
    return root


def published_order(classes: int, seed: int = 1993) -> list[int]:
    state = np.random.get_state()
    np.random.seed(seed)
    order = np.random.permutation(classes)
    np.random.set_state(state)
    return list(map(int, order))


def test_digits_are_five_tasks_of_two_classes_in_the_published_order(digits):
    assert len(digits) == 5
    assert [len(task.classes) for task in digits.train] == [2] * 5
    assert digits.classes == tuple(map(str, published_order(10)))
    assert [task.classes for task in digits.test] == [task.classes for task in digits.train]


def test_no_class_is_in_two_tasks_and_no_image_in_train_and_test(digits):
    from sklearn.datasets import load_digits

    assert sorted(digits.classes) == list("0123456789")
    parts = [*digits.train, *digits.test]
    pixels = [image.numpy().tobytes() for part in parts for image in part.inputs.pixels]
    original = (load_digits().images * (255 / 16)).astype(np.uint8)
    assert sorted(pixels) == sorted(np.repeat(image[None], 3, axis=0).tobytes() for image in original)
    assert sum(len(part.labels) for part in digits.test) == 449


def test_every_image_keeps_its_label(digits):
    from sklearn.datasets import load_digits

    scans = load_digits()
    name_of = {
        (image * (255 / 16)).astype(np.uint8).tobytes(): str(name)
        for image, name in zip(scans.images, scans.target, strict=True)
    }
    for part in [*digits.train, *digits.test]:
        assert isinstance(part.inputs, ImageArrays)
        for image, label in zip(part.inputs.pixels, part.labels, strict=True):
            assert name_of[image[0].numpy().tobytes()] == label


def test_another_seed_gives_another_order():
    assert load_stream("digits", None, 5, seed=7).classes == tuple(map(str, published_order(10, 7)))


def test_tasks_may_be_unequal_one_or_as_many_as_classes():
    assert [len(task.classes) for task in load_stream("digits", None, 3, 1).train] == [4, 3, 3]
    assert [len(task.classes) for task in load_stream("digits", None, 1, 1).train] == [10]
    assert [len(task.classes) for task in load_stream("digits", None, 10, 1).train] == [1] * 10


@pytest.mark.parametrize("tasks", [-1, 0, 11])
def test_a_number_of_tasks_that_cannot_be_cut_is_refused(tasks):
    with pytest.raises(InvalidConfig, match=f"10 classes cannot be cut into {tasks} tasks; choose 1 to 10"):
        load_stream("digits", None, tasks, 1)


def test_a_limit_keeps_the_first_images_of_every_training_class_and_all_of_the_test(digits):
    limited = load_stream("digits", None, 5, 1993, limit=3)

    for whole, few, test in zip(digits.train, limited.train, limited.test, strict=True):
        assert few.labels == tuple(name for name in whole.classes for _ in range(3))
        assert few.fingerprint() == take(whole, 3).fingerprint()
        assert isinstance(few.inputs, ImageArrays)
        assert isinstance(whole.inputs, ImageArrays)
        first = [place for place, label in enumerate(whole.labels) if label == whole.classes[0]][:3]
        assert torch.equal(few.inputs.pixels[:3], whole.inputs.pixels[first])
        assert len(test.labels) > 80


def test_take_works_on_every_kind_of_input_and_0_takes_all(tmp_path):
    root = folders(tmp_path, ["a", "b"], train=4)
    files = TaskData.from_folder(root / "train")
    vectors = TaskData(Vectors(torch.arange(6.0)[:, None]), ("b", "a", "b", "a", "b", "a"))

    few_files, few_vectors = take(files, 2), take(vectors, 2)

    assert isinstance(few_files.inputs, ImageFiles)
    assert [(path.parent.name, path.name) for path in few_files.inputs.paths] == [
        ("a", "0.png"),
        ("a", "1.png"),
        ("b", "0.png"),
        ("b", "1.png"),
    ]
    assert isinstance(few_vectors.inputs, Vectors)
    assert few_vectors.inputs.values.flatten().tolist() == [0, 2, 1, 3]
    assert few_vectors.labels == ("b", "b", "a", "a")
    assert take(vectors, 0) is vectors
    assert len(take(tiny.images("01"), 99).labels) == 8


@pytest.mark.parametrize("limit", [-1, -5])
def test_a_negative_limit_is_refused(limit):
    with pytest.raises(InvalidConfig, match="the limit must not be negative"):
        take(tiny.vectors("01"), limit)
    with pytest.raises(InvalidConfig, match="the limit must not be negative"):
        load_stream("digits", None, 5, 1, limit=limit)


def test_cifar100_as_class_folders_has_the_published_order(tmp_path):
    root = folders(tmp_path, [str(name) for name in range(100)])

    stream = load_stream("cifar100", root, tasks=10, seed=1993)

    assert stream.classes[:5] == ("68", "56", "78", "8", "23")
    assert stream.classes == tuple(map(str, published_order(100)))
    assert [len(task.classes) for task in stream.train] == [10] * 10
    assert isinstance(stream.train[0].inputs, ImageFiles)
    assert {path.parent.name for path in stream.train[0].inputs.paths[:2]} == {"68"}


def test_class_folders_with_names_are_numbered_in_alphabetical_order(tmp_path):
    names = [f"{letter}{number}" for letter in "abcdefghij" for number in range(10)]

    assert load_stream("cifar100", folders(tmp_path, names), 10, 1993).classes[:3] == ("g8", "f6", "h8")


def test_the_data_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    folders(tmp_path / "cub-mini", ["001.Crow", "002.Gull"])
    folders(tmp_path / "cifar100", ["x", "y", "z"])
    monkeypatch.setenv("ZSTCI_DATA", str(tmp_path))

    assert shared_data() == tmp_path
    assert sorted(load_stream("cub", None, 2, 1).classes) == ["001.Crow", "002.Gull"]
    assert sorted(load_stream("cifar100", None, 3, 1).classes) == ["x", "y", "z"]


def test_a_given_folder_goes_before_the_environments_even_when_it_holds_nothing(tmp_path, monkeypatch):
    folders(tmp_path / "shared" / "cub", ["a", "b"])
    given = folders(tmp_path / "given", ["c", "d"])
    monkeypatch.setenv("ZSTCI_DATA", str(tmp_path / "shared"))

    assert sorted(load_stream("cub", given, 2, 1).classes) == ["c", "d"]
    for name in ("cub", "cifar100"):
        with pytest.raises(MissingData):
            load_stream(name, tmp_path / "a-slip-of-the-pen", 2, 1)


def test_missing_data_says_where_to_put_it(tmp_path):
    with pytest.raises(
        MissingData, match=r"no CIFAR-100 here .*cifar-100-python.*; give --data DIR, or set ZSTCI_DATA"
    ):
        load_stream("cifar100", None, 10, 1993)
    with pytest.raises(MissingData, match="no CUB here; give --data DIR, or set ZSTCI_DATA, with train/<species>/"):
        load_stream("cub", tmp_path, 10, 1993)


def test_a_restorer_beside_the_data_is_named(tmp_path, monkeypatch):
    (tmp_path / "cifar100").mkdir()
    (tmp_path / "cifar100" / "restore.py").write_text("")
    monkeypatch.setenv("ZSTCI_DATA", str(tmp_path))

    with pytest.raises(MissingData, match=r"run: python .*cifar100/restore.py DIR, then give --data DIR"):
        load_stream("cifar100", None, 10, 1993)


def test_a_half_copied_cifar100_is_told_apart_from_a_whole_one(tmp_path):
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"half of it")

    with pytest.raises(MissingData, match=r"cifar-100-python .*incomplete or damaged"):
        load_stream("cifar100", tmp_path, 10, 1993)


def test_train_and_test_must_hold_the_same_classes(tmp_path):
    more = folders(tmp_path / "more", ["a", "b"])
    (more / "test" / "c").mkdir()
    Image.new("RGB", (4, 4)).save(more / "test" / "c" / "0.png")
    with pytest.raises(InvalidConfig, match=r"test classes without training images: \['c'\]; add images"):
        load_stream("cub", more, 2, 1)

    fewer = folders(tmp_path / "fewer", ["a", "b", "c"])
    (fewer / "test" / "c" / "0.png").unlink()
    with pytest.raises(TooFewImages, match="class 'c' is empty"):
        load_stream("cub", fewer, 2, 1)
    (fewer / "test" / "c").rmdir()
    with pytest.raises(InvalidConfig, match=r"training classes without test images: \['c'\]; add images"):
        load_stream("cub", fewer, 2, 1)


def test_an_unknown_stream_lists_the_known_ones():
    with pytest.raises(UnknownStrategy, match="unknown stream 'mnist'; choose one of: cifar100, cub, digits"):
        load_stream("mnist", None, 5, 1)
