import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import ExifTags, Image
from torch.nn import functional as F

from tests.unit.zstci import tiny
from zstci import ImageArrays, ImageFiles
from zstci.config import InputConfig
from zstci.images import _random_box


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_crop_equals_a_loop_over_images_with_the_same_draws():
    inputs, positions = tiny.images("0123", 5).inputs, torch.arange(20)
    config = InputConfig(size=8, resize=8, augment="crop")

    cropped = inputs.augmented(positions, config, generator(7))

    random = generator(7)
    tops, lefts = (torch.randint(9, (20, 1), generator=random).flatten().tolist() for _ in range(2))
    flips = (torch.rand((20, 1), generator=random) < 0.5).flatten().tolist()
    assert 0 < sum(flips) < 20
    for image, result, top, left, flip in zip(
        inputs.plain(positions, config), cropped, tops, lefts, flips, strict=True
    ):
        window = F.pad(image, (4, 4, 4, 4))[:, top : top + 8, left : left + 8]
        assert torch.equal(result, window.flip(2) if flip else window)


def test_crops_reach_every_place():
    # One bright pixel in the middle: where it lands tells the crop's place.
    image = np.zeros((8, 8, 3), np.uint8)
    image[3, 4] = 255
    config = InputConfig(size=8, resize=8, augment="crop")

    crops = ImageArrays([image]).augmented(torch.zeros(3000, dtype=torch.int64), config, generator())

    places = crops[:, 0].nonzero()[:, 1:].tolist()
    assert {row for row, _ in places} == set(range(8))
    assert {column for _, column in places} == set(range(8))


@pytest.mark.parametrize("augment", ["crop", "resized_crop"])
def test_augmentation_is_the_same_for_the_same_generator(augment, tmp_path):
    noise(50, 40).save(tmp_path / "a.png")
    config, positions = InputConfig(size=16, resize=16, augment=augment), torch.zeros(6, dtype=torch.int64)
    for inputs in (ImageArrays([noise(50, 40)]), ImageFiles([tmp_path / "a.png"])):
        first, again, other = (inputs.augmented(positions, config, generator(seed)) for seed in (1, 1, 2))

        assert first.shape == (6, 3, 16, 16)
        assert first.dtype == torch.uint8
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_no_augmentation_is_the_test_transform():
    inputs, positions = tiny.images("01").inputs, torch.arange(8)
    config = InputConfig(size=8, resize=8, augment="none")

    assert torch.equal(inputs.augmented(positions, config, generator()), inputs.plain(positions, config))


@given(width=st.integers(1, 400), height=st.integers(1, 400), seed=st.integers(0, 1000))
def test_a_random_part_lies_inside_the_image(width, height, seed):
    left, top, right, bottom = _random_box(width, height, generator(seed))

    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


def test_random_parts_cover_8_to_100_percent_in_sides_of_3_to_4():
    boxes = [_random_box(400, 300, generator(seed)) for seed in range(500)]
    areas = [(right - left) * (bottom - top) / 120_000 for left, top, right, bottom in boxes]
    ratios = [(right - left) / (bottom - top) for left, top, right, bottom in boxes]

    assert 0.075 < min(areas) < 0.12
    assert 0.9 < max(areas) <= 1.0
    assert 0.73 < min(ratios) < 0.8
    assert 1.25 < max(ratios) < 1.36


@pytest.mark.parametrize("augment", ["none", "crop", "resized_crop"])
@pytest.mark.parametrize("keep", [slice(0, 5, 2), slice(1, 5, 2), slice(7, 5, 8)], ids=["first", "second", "nothing"])
def test_a_share_of_a_batch_is_augmented_as_in_the_whole_batch(augment, keep, tmp_path):
    lying = Image.Exif()
    lying[ExifTags.Base.Orientation] = 6
    for number, (width, height) in enumerate([(50, 40), (20, 200), (16, 16)]):
        noise(width, height).save(tmp_path / f"{number}.jpg", exif=lying if number == 1 else Image.Exif())
    files = ImageFiles([tmp_path / f"{number}.jpg" for number in range(3)])
    config, positions = InputConfig(size=16, resize=16, augment=augment), torch.tensor([1, 0, 2, 1, 0])
    for inputs in (files, ImageArrays([noise(50, 40), noise(50, 40), noise(50, 40)])):
        random, other = generator(3), generator(3)
        whole = inputs.augmented(positions, config, random)

        assert torch.equal(inputs.augmented(positions, config, other, keep), whole[keep])
        assert torch.equal(random.get_state(), other.get_state()), "the next batch is drawn alike too"
