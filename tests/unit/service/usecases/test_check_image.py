import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from service.errors import BadImage, DamagedImage, EmptyImage, NotAnImage, TooManyPixels
from service.serving.decode import decode
from service.usecases.check_image import check
from tests.pictures import encoded, picture
from zstci.config import InputConfig

NOISE = np.random.default_rng(0).integers(0, 255, (120, 200, 4), np.uint8)
RGB = Image.fromarray(NOISE[..., :3])
INPUT = InputConfig(size=8, resize=10)
KINDS = {
    "JPEG": encoded(RGB, "JPEG"),
    "progressive": encoded(RGB, "JPEG", progressive=True),
    "PNG": encoded(RGB, "PNG"),
    "WEBP": encoded(RGB, "WEBP"),
    "GIF": encoded(RGB.quantize(16), "GIF"),
    "BMP": encoded(RGB, "BMP"),
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_a_whole_image_is_known_by_its_format(kind):
    assert check(KINDS[kind], 100_000, INPUT) == kind


def test_a_phone_s_photo_with_a_second_picture_in_it_is_fine():
    content = encoded(RGB, "MPO", save_all=True, append_images=[RGB])

    assert check(content, 100_000, INPUT) == "MPO"


def test_a_scanned_digit_is_fine():
    assert check(picture(3), 100, INPUT) == "PNG"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", EmptyImage),
        (b"hello", NotAnImage),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", NotAnImage),
        (b"PK\x03\x04", NotAnImage),
        (encoded(RGB, "TIFF"), NotAnImage),
        (KINDS["PNG"][:-500], DamagedImage),
        (encoded(Image.new("1", (1001, 100)), "PNG"), TooManyPixels),
        (encoded(Image.new("1", (20_000, 20_000)), "PNG"), TooManyPixels),
        (encoded(Image.new("1", (1, 2000)), "PNG"), TooManyPixels),
    ],
)
def test_what_a_query_refuses_is_refused_for_the_same_reason(content, fault):
    with pytest.raises(fault):
        check(content, 100_000, INPUT)
    with pytest.raises(fault):
        decode(content, INPUT, 100_000)


@pytest.mark.parametrize("kind", ["JPEG", "progressive"])
def test_a_jpeg_is_read_to_its_end_although_it_is_decoded_smaller(kind):
    content = KINDS[kind]
    verdicts = {keep: _opens(content[:keep]) for keep in range(len(content) * 3 // 4, len(content), 37)}

    assert verdicts == {keep: _decodes(content[:keep]) for keep in verdicts}
    assert not any(ok for keep, ok in verdicts.items() if keep < len(content) - 100)


@settings(deadline=None)
@given(kind=st.sampled_from(sorted(KINDS)), place=st.floats(0, 1, exclude_max=True), junk=st.binary(max_size=8))
def test_damaged_bytes_are_an_image_or_a_bad_one_and_never_break_anything(kind, place, junk):
    content = KINDS[kind]
    start = int(place * len(content))

    _opens(content[:start] + junk + content[start + len(junk) :])


def _opens(content: bytes) -> bool:
    try:
        check(content, 100_000, INPUT)
    except BadImage:
        return False
    return True


def _decodes(content: bytes) -> bool:
    """By Pillow alone, in full size."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
    except OSError:
        return False
    return True
