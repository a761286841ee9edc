import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.unit.zstci import tiny
from zstci import ImageArrays, ImageFiles, TaskData, Vectors
from zstci._torchvision_ops import make_torchvision_importable
from zstci.config import InputConfig
from zstci.errors import InvalidData, LabelMismatch, MixedImages, NotFinite, TooFewImages, UnreadableImage
from zstci.images import to_pixels

INPUT = InputConfig(size=32, resize=36)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def reference(image: Image.Image, config: InputConfig) -> np.ndarray:
    make_torchvision_importable()
    from torchvision.transforms import CenterCrop, Compose, Resize

    return np.array(Compose([Resize(config.resize), CenterCrop(config.size)])(image))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


SIZES = [
    (32, 32),
    (36, 36),
    (37, 36),
    (36, 41),
    (35, 64),
    (64, 35),
    (33, 97),
    (201, 50),
    (7, 5),
    (1, 3),
    (36, 37),
    (99, 99),
]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("config", [INPUT, InputConfig(size=32, resize=32), InputConfig(size=31, resize=36)])
def test_pixels_are_those_of_torchvisions_resize_and_centre_crop(width, height, config):
    image = noise(width, height)

    assert np.array_equal(to_pixels(image, config).permute(1, 2, 0).numpy(), reference(image, config))


@given(width=st.integers(6, 90), height=st.integers(6, 90))
def test_pixels_are_torchvisions_for_images_of_any_size(width, height):
    image = noise(width, height)

    assert np.array_equal(to_pixels(image, INPUT).permute(1, 2, 0).numpy(), reference(image, INPUT))


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1)])
def test_a_strip_is_cut_to_its_middle_before_it_can_fill_the_memory(size):
    strip = Image.new("RGB", size, "white")
    strip.paste("red", (size[0] // 2 - 8, size[1] // 2 - 8, size[0] // 2 + 8, size[1] // 2 + 8))

    pixels = to_pixels(strip, InputConfig())

    assert pixels.shape == (3, 224, 224)
    assert (pixels[0] == 255).all()
    assert (pixels[1] == 0).all()


def test_a_file_and_an_array_of_the_same_image_give_the_same_pixels(tmp_path):
    for size in [(50, 40), (INPUT.size, INPUT.size)]:
        image = noise(*size)
        image.save(tmp_path / "a.png")
        first = torch.tensor([0])

        from_file = ImageFiles([tmp_path / "a.png"]).plain(first, INPUT)

        assert torch.equal(from_file, ImageArrays([image]).plain(first, INPUT))
        assert np.array_equal(from_file[0].permute(1, 2, 0).numpy(), reference(image, INPUT))


def test_images_of_the_nets_own_size_are_passed_on_untouched():
    data = tiny.images("01")
    assert isinstance(data.inputs, ImageArrays)

    pixels = data.inputs.plain(torch.tensor([3, 0]), InputConfig(size=8, resize=8))

    assert torch.equal(pixels, data.inputs.pixels[[3, 0]])


def test_grey_arrays_become_three_equal_channels():
    grey = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)

    pixels = ImageArrays(grey).pixels

    assert pixels.shape == (2, 3, 4, 5)
    assert all(torch.equal(pixels[:, channel], torch.from_numpy(grey)) for channel in range(3))


def test_the_arrays_are_copied_and_may_be_read_only():
    source = np.zeros((2, 1, 1, 3), np.uint8)
    inputs = ImageArrays(source)
    source[:] = 9
    locked = np.zeros((2, 4, 4, 3), np.uint8)
    locked.setflags(write=False)

    assert inputs.pixels.max() == 0
    assert len(ImageArrays(locked)) == 2


def test_vectors_are_handed_out_as_they_are():
    inputs = Vectors(torch.arange(6).reshape(3, 2))

    assert torch.equal(inputs.plain(torch.tensor([2, 0]), INPUT), torch.tensor([[4.0, 5.0], [0.0, 1.0]]))
    assert torch.equal(inputs.augmented(torch.tensor([1]), INPUT, generator()), torch.tensor([[2.0, 3.0]]))


def test_classes_keep_first_seen_order():
    data = TaskData(Vectors(torch.zeros(5, 1)), ("b", "a", "b", "c", "a"))

    assert data.classes == ("b", "a", "c")
    assert data.targets.tolist() == [0, 1, 0, 2, 1]


def test_the_fingerprint_tells_content_and_labels_apart(tmp_path):
    for name, seed in (("a", 0), ("b", 1), ("c", 0)):
        noise(4, 4, seed).save(tmp_path / f"{name}.png")
    of_file = {name: TaskData(ImageFiles([tmp_path / f"{name}.png"]), ("x",)).fingerprint() for name in "abc"}
    arrays, numbers = tiny.images("01"), tiny.vectors("01")

    assert of_file["a"] == of_file["c"] != of_file["b"]
    for data in (arrays, numbers):
        assert data.fingerprint() == TaskData(data.inputs, data.labels).fingerprint()
        assert data.fingerprint() != TaskData(data.inputs, data.labels[::-1]).fingerprint()
    assert arrays.fingerprint() != tiny.images("01", skip=1).fingerprint()
    assert numbers.fingerprint() != tiny.vectors("01", skip=1).fingerprint()


def test_the_fingerprint_of_a_file_that_is_gone_names_the_file(tmp_path):
    with pytest.raises(UnreadableImage, match=r"gone\.png"):
        ImageFiles([tmp_path / "gone.png"]).fingerprint()


def test_a_folder_of_folders_is_a_task(tmp_path):
    for name in ("cat/b.png", "cat/a.JPG", "dog/1.webp", "dog/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        noise(4, 4).save(tmp_path / name) if not name.endswith("txt") else (tmp_path / name).write_text("no image")

    data = TaskData.from_folder(tmp_path)

    assert data.labels == ("cat", "cat", "dog")
    assert isinstance(data.inputs, ImageFiles)
    assert [path.name for path in data.inputs.paths] == ["a.JPG", "b.png", "1.webp"]


def bad(kind: str) -> np.ndarray:
    images = np.zeros((2, 4, 4, 3), np.float32)
    images[1, 0, 0, 0] = np.nan if kind == "nan" else 0.5
    return images


GREY, COLOUR = np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.uint8)
REFUSED = {
    "mixed sizes": ([COLOUR, np.zeros((5, 4, 3), np.uint8)], MixedImages, "bring them to one size"),
    "mixed modes": ([COLOUR, GREY], MixedImages, "bring them to one size and to RGB"),
    "an alpha channel": (np.zeros((2, 4, 4, 4), np.uint8), MixedImages, "must be .* RGB"),
    "palette images": ([noise(4, 4).convert("P")] * 2, MixedImages, "convert.*RGB"),
    "other colour spaces": ([noise(4, 4), noise(4, 4).convert("HSV")], MixedImages, "convert.*RGB"),
    "NaN": (bad("nan"), NotFinite, "remove those images"),
    "float pixels": (bad("half"), InvalidData, "uint8 pixels from 0 to 255, got float32; scale and convert"),
    "64-bit pixels": (np.zeros((2, 4, 4, 3), np.int64), InvalidData, "got int64"),
    "one flat row": (np.zeros((2, 48), np.uint8), MixedImages, "must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_that_are_no_images_of_one_kind_are_refused(case):
    images, error, advice = REFUSED[case]
    with pytest.raises(error, match=advice):
        ImageArrays(images)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e300])
def test_a_vector_that_is_not_finite_is_named(value):
    values = torch.zeros(4, 3, dtype=torch.float64)
    values[2, 1] = value
    with pytest.raises(NotFinite, match="vector 2 holds NaN or infinity; remove it"):
        Vectors(values)


def test_vectors_must_be_a_matrix():
    with pytest.raises(InvalidData, match=r"must be \[N, F\], got shape \[3\]"):
        Vectors(torch.zeros(3))


@pytest.mark.parametrize("labels", [("a",), ("a", "b", "c"), ("a", ""), ("a", 1)])
def test_labels_must_match_the_images(labels):
    with pytest.raises(LabelMismatch, match=r"exactly one label for each image|non-empty string"):
        TaskData(Vectors(torch.zeros(2, 3)), labels)


@pytest.mark.parametrize("inputs", [Vectors(torch.zeros(0, 3)), ImageArrays([]), ImageFiles([])])
def test_a_task_without_images_is_refused(inputs):
    with pytest.raises(TooFewImages, match="at least one class with at least 2 images"):
        TaskData(inputs, ())


def test_an_empty_class_folder_is_named(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    with pytest.raises(TooFewImages, match=r"class 'cat' is empty; add images \(.bmp"):
        TaskData.from_folder(tmp_path)


@pytest.mark.parametrize("made", [True, False])
def test_a_folder_without_class_folders_is_told_the_layout(tmp_path, made):
    folder = tmp_path / "photos"
    if made:
        folder.mkdir()
        noise(4, 4).save(folder / "a.png")
    with pytest.raises(InvalidData, match=r"photos/class-name/image\.jpg"):
        TaskData.from_folder(folder)
