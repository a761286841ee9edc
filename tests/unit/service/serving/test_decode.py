import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from service.errors import BadImage, BadImages, DamagedImage, EmptyImage, NotAnImage, TooManyPixels
from service.serving.decode import decode, decode_all
from tests.pictures import encoded
from zstci import ImageFiles
from zstci.config import InputConfig

INPUT = InputConfig(size=8, resize=10)
NOISE = np.random.default_rng(0).integers(0, 255, (12, 20, 4), np.uint8)
RGB = Image.fromarray(NOISE[..., :3])
SIDEWAYS = Image.Exif()
SIDEWAYS[0x0112] = 6

KINDS = {
    "jpeg": encoded(RGB, "JPEG"),
    "png": encoded(RGB, "PNG"),
    "webp": encoded(RGB, "WEBP"),
    "gif": encoded(RGB.quantize(16), "GIF", save_all=True, append_images=[RGB.transpose(Image.Transpose.ROTATE_180)]),
    "bmp": encoded(RGB, "BMP"),
    "grey": encoded(RGB.convert("L"), "PNG"),
    "black-and-white": encoded(RGB.convert("1"), "PNG"),
    "rgba": encoded(Image.fromarray(NOISE), "PNG"),
    "cmyk": encoded(RGB.convert("CMYK"), "JPEG"),
    "16-bit": encoded(Image.fromarray(NOISE[..., 0].astype(np.uint16) * 257), "PNG"),
    "sideways": encoded(RGB, "JPEG", exif=SIDEWAYS),
}


# One colour in each quarter, so that a wrong turn, a wrong channel or a wrong frame shows.
COLOURS = (
    (200, 30, 30),
    (30, 180, 30),
    (30, 30, 220),
    (230, 220, 40),
)  # top left, top right, bottom left, bottom right
QUARTERS = Image.fromarray(np.array(COLOURS, np.uint8).reshape(2, 2, 3).repeat(16, 0).repeat(16, 1))
TURNED = QUARTERS.transpose(Image.Transpose.ROTATE_180)
# What a camera stores for each EXIF orientation, where QUARTERS is what its owner saw.
STORED = {
    1: QUARTERS,
    2: QUARTERS.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    3: TURNED,
    4: QUARTERS.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    5: QUARTERS.transpose(Image.Transpose.TRANSPOSE),
    6: QUARTERS.transpose(Image.Transpose.ROTATE_90),
    7: QUARTERS.transpose(Image.Transpose.TRANSVERSE),
    8: QUARTERS.transpose(Image.Transpose.ROTATE_270),
}


def png_of_16_bits(values: np.ndarray) -> bytes:
    """Pillow reads colour PNGs of 16 bits but does not write them."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, channels = values.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


WIDE = np.asarray(QUARTERS).astype(np.uint16) * 257
COLOURED = {
    "jpeg": encoded(QUARTERS, "JPEG", quality=95),
    "progressive jpeg": encoded(QUARTERS, "JPEG", quality=95, progressive=True),
    "cmyk jpeg": encoded(QUARTERS.convert("CMYK"), "JPEG", quality=95),
    "png": encoded(QUARTERS, "PNG"),
    "palette png": encoded(QUARTERS.quantize(4), "PNG"),
    "rgba png": encoded(QUARTERS.convert("RGBA"), "PNG"),
    "16-bit png": png_of_16_bits(WIDE),
    "16-bit rgba png": png_of_16_bits(np.dstack([WIDE, np.full(WIDE.shape[:2], 65535, np.uint16)])),
    "webp": encoded(QUARTERS, "WEBP", lossless=True),
    "lossy webp": encoded(QUARTERS, "WEBP", quality=95),
    "rgba webp": encoded(QUARTERS.convert("RGBA"), "WEBP", lossless=True),
    "moving webp": encoded(QUARTERS, "WEBP", lossless=True, save_all=True, append_images=[TURNED]),
    "gif": encoded(QUARTERS, "GIF"),
    "moving gif": encoded(QUARTERS, "GIF", save_all=True, append_images=[TURNED]),
    "bmp": encoded(QUARTERS, "BMP"),
    **{f"exif {number}": encoded(STORED[number], "JPEG", quality=95, exif=oriented(number)) for number in STORED},
    **{f"png exif {number}": encoded(STORED[number], "PNG", exif=oriented(number)) for number in STORED},
}
GREY = {
    "grey jpeg": encoded(QUARTERS.convert("L"), "JPEG", quality=95),
    "grey png": encoded(QUARTERS.convert("L"), "PNG"),
    "grey png with alpha": encoded(QUARTERS.convert("LA"), "PNG"),
    "grey 16-bit png": png_of_16_bits(np.asarray(QUARTERS.convert("L"))[..., None].astype(np.uint16) * 257),
    "grey bmp": encoded(QUARTERS.convert("L"), "BMP"),
    "grey webp": encoded(QUARTERS.convert("L"), "WEBP", lossless=True),
}


def quarters(content: bytes) -> list[list[int]]:
    """The colour in the middle of each quarter, as the net reads it."""
    pixels = decode(content, InputConfig(size=16, resize=16), 2000).astype(int)
    return [pixels[:, y, x].tolist() for y in (4, 12) for x in (4, 12)]


@pytest.mark.parametrize("kind", COLOURED)
def test_every_kind_of_image_shows_its_colours_where_they_were_seen(kind):
    assert np.abs(np.array(quarters(COLOURED[kind])) - np.array(COLOURS)).max() <= 12


@pytest.mark.parametrize("kind", GREY)
def test_grey_images_have_three_equal_channels_of_the_right_brightness(kind):
    expected = np.asarray(QUARTERS.convert("L"))[8::16, 8::16].reshape(4, 1)

    assert np.abs(np.array(quarters(GREY[kind])) - expected).max() <= 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_image_gives_the_pixels_that_learning_reads_from_its_file(tmp_path, kind):
    path = tmp_path / "image"
    path.write_bytes(KINDS[kind])

    expected = ImageFiles([path]).plain(torch.tensor([0]), INPUT)[0]

    assert np.array_equal(decode(KINDS[kind], INPUT, 1000), expected)


def test_16_bit_grey_is_scaled_not_clipped():
    assert decode(KINDS["16-bit"], INPUT, 1000).std() > 20


def test_no_bytes_are_no_image():
    with pytest.raises(EmptyImage):
        decode(b"", INPUT, 1000)


@pytest.mark.parametrize("content", [b"hello", b"%PDF-1.7", b"\x89PNG\r\n\x1a\n", encoded(RGB, "TIFF")])
def test_other_files_are_no_images(content):
    with pytest.raises(NotAnImage, match="none of BMP, GIF, JPEG, PNG, WEBP"):
        decode(content, INPUT, 1000)


@pytest.mark.parametrize("kind", ["jpeg", "png", "bmp"])
def test_a_truncated_image_is_refused(kind):
    content = KINDS[kind]

    with pytest.raises(DamagedImage, match="truncated or damaged"):
        decode(content[: len(content) * 3 // 4], INPUT, 1000)


@pytest.mark.parametrize("size", [(10_000, 10_000), (20_000, 20_000)])
def test_a_huge_image_is_refused_by_its_header(size):
    # The second is so large that Pillow itself refuses it.
    content = encoded(Image.new("1", size), "PNG")

    with pytest.raises(TooManyPixels):
        decode(content, INPUT, 50_000_000)


def test_a_thin_image_that_would_grow_without_bound_is_refused():
    content = encoded(Image.new("L", (1, 30_000)), "PNG")

    with pytest.raises(TooManyPixels, match="1 x 30000 is too thin"):
        decode(content, InputConfig(size=224, resize=256), 50_000_000)


def test_all_bad_images_are_named_at_once():
    with pytest.raises(BadImages) as caught:
        decode_all([KINDS["png"], b"", b"hello", KINDS["jpeg"]], INPUT, 1000)

    assert {i: fault.code for i, fault in caught.value.faults.items()} == {1: "empty_image", 2: "not_an_image"}


@given(
    kind=st.sampled_from(["jpeg", "png", "gif", "webp", "bmp", "16-bit", "sideways"]),
    place=st.floats(0, 1, exclude_max=True),
    junk=st.binary(max_size=8),
    keep=st.floats(0, 1),
)
def test_damaged_bytes_are_decoded_or_refused_and_never_break_anything(kind, place, junk, keep):
    content = KINDS[kind]
    start = int(place * len(content))
    damaged = content[:start] + junk + content[start + len(junk) :]
    try:
        pixels = decode(damaged[: int(keep * len(damaged))], INPUT, 1000)
    except BadImage:
        return
    assert pixels.shape == (3, 8, 8)
