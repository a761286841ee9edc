"""Files as they come from cameras, phones and the web: each must arrive as the upright RGB image that a person sees."""

import contextlib
import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from zstci import ImageFiles
from zstci.config import InputConfig
from zstci.errors import UnreadableImage
from zstci.pixels import upright_rgb

SIZE = InputConfig(size=16, resize=16)
SUFFIXES = ["jpg", "png", "webp", "gif", "bmp"]
NOTHING: dict[str, Any] = {}
LOSSLESS: dict[str, dict[str, Any]] = {"webp": {"lossless": True}}

# Four flat corners of different colour and unequal grey: any turn, flip or swap of channels shows.
UPRIGHT = np.zeros((16, 16, 3), np.uint8)
UPRIGHT[:8, :8] = (220, 40, 40)
UPRIGHT[:8, 8:] = (40, 200, 60)
UPRIGHT[8:, :8] = (50, 60, 210)
UPRIGHT[8:, 8:] = (120, 120, 20)
GREY = UPRIGHT[..., 0].copy()


def decoded(path: Path) -> np.ndarray:
    pixels = ImageFiles([path]).plain(torch.tensor([0]), SIZE)
    assert pixels.dtype == torch.uint8
    return pixels[0].permute(1, 2, 0).numpy()


def as_rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., None], 3, axis=2)


def assert_nearly(result: np.ndarray, expected: np.ndarray, tolerance: float = 8) -> None:
    """On average: lossy formats blur the edges between the corners."""
    assert np.abs(result.astype(int) - expected).mean() <= tolerance


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "webp"])
def test_a_lossless_file_arrives_pixel_for_pixel(tmp_path, suffix):
    Image.fromarray(UPRIGHT).save(tmp_path / f"a.{suffix}", **LOSSLESS.get(suffix, {}))

    assert np.array_equal(decoded(tmp_path / f"a.{suffix}"), UPRIGHT)


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "webp"])
def test_a_lossy_file_arrives_with_nearly_its_colours(tmp_path, suffix):
    Image.fromarray(UPRIGHT).save(
        tmp_path / f"a.{suffix}", quality=95, **({"subsampling": 0} if suffix != "webp" else NOTHING)
    )

    assert_nearly(decoded(tmp_path / f"a.{suffix}"), UPRIGHT)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
def test_greyscale_becomes_three_equal_channels(tmp_path, suffix):
    Image.fromarray(GREY).save(tmp_path / f"a.{suffix}", quality=100)

    result = decoded(tmp_path / f"a.{suffix}")

    assert np.array_equal(result, as_rgb(result[..., 0]))
    assert_nearly(result, as_rgb(GREY), 4 if suffix == "jpg" else 0)


@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_an_alpha_channel_is_left_out(tmp_path, suffix):
    alpha = np.full((16, 16, 1), 255, np.uint8)
    rgba = Image.fromarray(np.concatenate([UPRIGHT, alpha], axis=2))
    rgba.save(tmp_path / f"a.{suffix}", **LOSSLESS.get(suffix, {}))

    assert np.array_equal(decoded(tmp_path / f"a.{suffix}"), UPRIGHT)


def test_grey_with_alpha_becomes_rgb(tmp_path):
    Image.fromarray(np.stack([GREY, np.full_like(GREY, 255)], axis=2)).save(tmp_path / "a.png")

    assert np.array_equal(decoded(tmp_path / "a.png"), as_rgb(GREY))


@pytest.mark.parametrize("transparency", [None, 0, b"\x00\x80\xff\xff"])
def test_a_palette_is_looked_up_with_or_without_transparency(tmp_path, transparency):
    palette = Image.fromarray(UPRIGHT).convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    palette.save(tmp_path / "a.png", **({} if transparency is None else {"transparency": transparency}))

    assert np.array_equal(decoded(tmp_path / "a.png"), UPRIGHT)


def test_a_black_and_white_file_becomes_black_and_white(tmp_path):
    Image.fromarray(GREY).point(lambda value: 255 * (value > 100)).convert("1").save(tmp_path / "a.png")

    assert np.array_equal(decoded(tmp_path / "a.png"), as_rgb(np.where(GREY > 100, 255, 0)))


def test_a_cmyk_file_becomes_rgb(tmp_path):
    Image.fromarray(UPRIGHT).convert("CMYK").save(tmp_path / "a.jpg", quality=100, subsampling=0)

    assert_nearly(decoded(tmp_path / "a.jpg"), UPRIGHT)


def test_a_large_16_bit_image_is_scaled_in_little_memory():
    wide = np.arange(4_000_000, dtype=np.uint16).reshape(1000, 4000)
    tracemalloc.start()
    try:
        shown = np.asarray(upright_rgb(Image.fromarray(wide)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (shown[..., 0] == (wide / 65535 * 255).round()).all()
    assert peak < 24 * 2**20, "in doubles it would be 32 MB, and several times that on the way"


@pytest.mark.parametrize("brightest", [255, 120, 3])
def test_16_bits_show_the_same_image_as_8_bits(tmp_path, brightest):
    # A dark image stays dark: brightness must not depend on the brightest pixel.
    grey = np.minimum(GREY, brightest)
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "a.png")

    assert np.array_equal(decoded(tmp_path / "a.png"), as_rgb(grey))


def test_an_animation_is_its_first_frame(tmp_path):
    first, second = Image.fromarray(UPRIGHT), Image.fromarray(255 - UPRIGHT)
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second], duration=50)

    assert np.array_equal(decoded(tmp_path / "a.gif"), UPRIGHT)


# How a camera stores the scene for each EXIF orientation: the inverse of what a viewer has to do.
STORED = {
    1: UPRIGHT,
    2: UPRIGHT[:, ::-1],
    3: UPRIGHT[::-1, ::-1],
    4: UPRIGHT[::-1],
    5: UPRIGHT.transpose(1, 0, 2),
    6: np.rot90(UPRIGHT, 1),
    7: np.rot90(UPRIGHT, 2).transpose(1, 0, 2),
    8: np.rot90(UPRIGHT, -1),
}


@pytest.mark.parametrize("orientation", STORED)
def test_a_photo_taken_sideways_is_turned_upright(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation]))
    stored.save(tmp_path / "a.png", exif=exif)
    stored.save(tmp_path / "a.jpg", exif=exif, quality=95, subsampling=0)

    assert np.array_equal(decoded(tmp_path / "a.png"), UPRIGHT)
    assert_nearly(decoded(tmp_path / "a.jpg"), UPRIGHT)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_a_file_that_is_no_image_is_named(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UnreadableImage, match=r"a\.png cannot be read as an image .*; remove or replace it"):
        decoded(tmp_path / "a.png")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableImage, match=r"a\.png"):
        decoded(tmp_path / "a.png")


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp"])
def test_a_truncated_file_is_named(tmp_path, suffix):
    whole = encoded(suffix)
    (tmp_path / f"a.{suffix}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableImage, match=f"a.{suffix}"):
        decoded(tmp_path / f"a.{suffix}")


def encoded(suffix: str) -> bytes:
    exif, buffer = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    exif[0x010F] = "camera"
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    kind = {"jpg": "JPEG"}.get(suffix, suffix.upper())
    Image.fromarray(noise).save(buffer, kind, **({"exif": exif} if suffix in ("jpg", "png", "webp") else {}))
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore")  # Pillow warns of odd metadata; only an exception would end the caller's work
@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(deadline=None)
@given(data=st.data())
def test_whatever_is_damaged_in_a_file_it_is_read_or_named(tmp_path_factory, suffix, data):
    content = bytearray(encoded(suffix))
    end = data.draw(st.integers(0, len(content)))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / f"a.{suffix}"
    path.write_bytes(content[:end])
    with contextlib.suppress(UnreadableImage):
        assert decoded(path).shape == (16, 16, 3)
