"""Every trick with files that we know of, sent to a running service: the status and the code are part of the API."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from service.config import Settings
from service.errors import CheckTooLong, TooManyImages
from service.usecases.read_upload import stage
from tests.hostile.conftest import left_behind
from tests.hostile.fuzzing import resident_bytes
from tests.packing import DIGITS, received, tar_member, tar_of, tarred, zipped
from tests.pictures import encoded, picture
from tests.processes import Api, Service

pytestmark = pytest.mark.slow

RGB = Image.fromarray(np.random.default_rng(5).integers(0, 256, (32, 32, 3), np.uint8))
JPEG, PNG = encoded(RGB, "JPEG"), encoded(RGB, "PNG")
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def zip_entry(name: str, kind: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = (kind | 0o644) << 16
        archive.writestr(info, "/etc/passwd")
    return buffer.getvalue()


def tar_entry(name: str, kind: bytes) -> bytes:
    member = tar_member(name, kind=kind)
    member.linkname = "/etc/passwd"
    return tar_of([(member, b"")])


def twice() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("a/0.png", picture(3))
    return buffer.getvalue()


def encrypted() -> bytes:
    content = bytearray(zipped({"a/0.png": picture(3)}))
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + offset] |= 1
    return bytes(content)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_with(extra: bytes) -> bytes:
    """After the header, before the pixels."""
    return PNG[:33] + extra + PNG[33:]


def png_bomb(side: int) -> bytes:
    rows = zlib.compress(bytes((side // 8 + 1) * side), 9)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


ARCHIVES: dict[str, tuple[bytes, int, str]] = {
    "a zip that climbs out of its folder": (zipped({"../../evil/0.png": picture(3)}), 422, "bad_archive"),
    "a tar that climbs out of its folder": (tarred({"a/../../evil.png": picture(3)}), 422, "bad_archive"),
    "an absolute name in a zip": (zipped({"/etc/0.png": picture(3)}), 422, "bad_archive"),
    "an absolute name in a tar": (tarred({"/etc/0.png": picture(3)}), 422, "bad_archive"),
    "an absolute name of Windows": (zipped({"C:\\evil\\0.png": picture(3)}), 422, "bad_archive"),
    "a symbolic link in a zip": (zip_entry("a/0.png", stat.S_IFLNK), 422, "bad_archive"),
    "a symbolic link in a tar": (tar_entry("a/0.png", tarfile.SYMTYPE), 422, "bad_archive"),
    "a hard link": (tar_entry("a/0.png", tarfile.LNKTYPE), 422, "bad_archive"),
    "a character device": (tar_entry("a/0.png", tarfile.CHRTYPE), 422, "bad_archive"),
    "a block device": (tar_entry("a/0.png", tarfile.BLKTYPE), 422, "bad_archive"),
    "a named pipe": (tar_entry("a/0.png", tarfile.FIFOTYPE), 422, "bad_archive"),
    "a zip bomb": (zipped({f"a/{i}.png": bytes(200_000) for i in range(30)}), 413, "too_large"),
    "a gzip bomb": (gzip.compress(tarred({f"a/{i}.png": bytes(200_000) for i in range(30)})), 413, "too_large"),
    "an archive in an archive": (zipped({"a/0.zip": zipped(DIGITS), "a/1.png": picture(3)}), 422, "rejected_images"),
    "a million tiny entries": (gzip.compress(tar_entry(".x", b"0")[:512] * 10_000) * 100, 413, "too_many_images"),
    "a name in an old code page": (zipped({"d_g/0.png": picture(3)}).replace(b"d_g", b"d\xf6g"), 422, "bad_archive"),
    "the same entry twice": (twice(), 422, "duplicate_image"),
    "an encrypted zip": (encrypted(), 422, "bad_archive"),
    "a cut zip": (zipped(DIGITS)[:-30], 422, "bad_archive"),
    "a photo with a zip behind it": (JPEG + zipped(DIGITS), 422, "bad_archive"),
    "a class that turns the text around": (zipped({"do\u202eg/0.png": picture(3)}), 422, "bad_class_name"),
    "a class that nobody can see": (zipped({"\u3164/0.png": picture(3)}), 422, "bad_class_name"),
    "an SVG with a script": (zipped({"a/0.svg": b"<svg onload='alert(1)'/>", "a/1.png": PNG}), 422, "rejected_images"),
}
BAD_IMAGES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "empty_image"),
    "an SVG": (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "not_an_image"),
    "a packed SVG": (gzip.compress(b"<svg/>"), "not_an_image"),
    "a TIFF": (encoded(RGB, "TIFF"), "not_an_image"),
    "a PDF with a photo behind it": (b"%PDF-1.7\n" + JPEG, "not_an_image"),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run", "not_an_image"),
    "a GIF that is a script": (b"GIF89a/*\x00\x00\x00*/=1;alert(document.cookie)//", "not_an_image"),
    "a cut photo": (JPEG[:-200], "damaged_image"),
    "a cut PNG": (PNG[: len(PNG) // 2], "damaged_image"),
    "a colour profile that unpacks to 50 MB": (
        png_with(chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(5 * 10**7), 9))),
        "not_an_image",
    ),
    "a comment that unpacks to 50 MB": (
        png_with(chunk(b"zTXt", b"x\0\0" + zlib.compress(bytes(5 * 10**7), 9))),
        "not_an_image",
    ),
    "four hundred million pixels in 50 kB": (png_bomb(20_000), "too_many_pixels"),
    "four million pixels": (png_bomb(2_000), "too_many_pixels"),
}
GOOD_IMAGES: dict[str, bytes] = {
    "a photo with a zip behind it": JPEG + zipped(DIGITS),
    "a photo with HTML in its comment": encoded(RGB, "JPEG", comment=b"<script>alert(1)</script>"),
    "a moving GIF": encoded(RGB.quantize(8), "GIF", save_all=True, append_images=[RGB.quantize(8)] * 50),
    "a moving PNG": encoded(RGB, "PNG", save_all=True, append_images=[RGB.rotate(i) for i in range(9)]),
    "a moving WebP": encoded(RGB, "WEBP", save_all=True, append_images=[RGB.rotate(i) for i in range(9)]),
    "CMYK": encoded(RGB.convert("CMYK"), "JPEG"),
    "a colour profile": encoded(RGB, "JPEG", icc_profile=SRGB),
    "a colour profile of nonsense": encoded(RGB, "JPEG", icc_profile=b"nonsense" * 5000),
    "64 kB of EXIF": encoded(RGB, "JPEG", exif=b"Exif\0\0" + b"II*\0\x08\0\0\0\0\0" + bytes(65_000)),
    "EXIF of nonsense": png_with(chunk(b"eXIf", b"MM\0*" + b"\xff" * 100_000)),
}


@pytest.mark.parametrize("trick", ARCHIVES)
def test_an_archive_that_plays_tricks_is_refused_by_its_code(service: Service, api: Api, trick: str) -> None:
    content, status, code = ARCHIVES[trick]

    refused = api.http.post("/v1/updates", files={"archive": ("birds", content)})

    assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text
    assert left_behind(service, api) == []


@pytest.mark.parametrize("trick", BAD_IMAGES)
def test_an_image_that_cannot_be_used_is_refused_by_its_code_in_a_query_and_in_an_update(api: Api, trick: str) -> None:
    content, code = BAD_IMAGES[trick]

    query = api.http.post("/v1/classify", content=content)
    update = api.http.post("/v1/updates?dry_run=true", files={"archive": ("x", zipped({"a/0": content, "a/1": PNG}))})

    assert (query.status_code, query.json()["code"]) == (422, code), query.text
    assert update.status_code == 422
    assert [fault["code"] for fault in update.json()["errors"]] == [code]


@pytest.mark.parametrize("kind", GOOD_IMAGES)
def test_a_strange_image_that_shows_something_is_an_image(api: Api, kind: str) -> None:
    before = resident_bytes(api.process.pid)
    content = GOOD_IMAGES[kind]

    query = api.http.post("/v1/classify", content=content)
    update = api.http.post("/v1/updates?dry_run=true", files={"archive": ("x", zipped({"a/0": content, "a/1": PNG}))})

    assert query.status_code == 200, query.text
    assert update.status_code == 200, update.text
    assert resident_bytes(api.process.pid) - before < 64 * 2**20


def test_a_zip_of_a_million_tiny_entries_is_refused_in_little_memory_by_the_default_limits(tmp_path):
    names = [f".{number:07}".encode() for number in range(1_000_000)]
    central = b"".join(struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *[0] * 9, 8, *[0] * 6) + name for name in names)
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 10**6, 10**6, len(central), 4)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 4 + len(central), 1)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    archive = received(tmp_path / "form", b"PK\x03\x04" + central + end + locator + last)
    del names, central
    before = resident_bytes()

    with pytest.raises(TooManyImages, match="entries"):
        stage([archive], [], [], tmp_path / "target", Settings(), "reject")

    assert resident_bytes() - before < 16 * 2**20


def folders_only() -> bytes:
    return tarred({f"folder-{number}/.hidden": b"" for number in range(50)})


def empty_members() -> bytes:
    """A million bytes that unpack to nothing, and then a tar."""
    return gzip.compress(b"") * 50_000 + gzip.compress(tarred(DIGITS))


def long_tail() -> bytes:
    return gzip.compress(tarred(DIGITS) + bytes(2**22))


class Clock:
    """A deadline that passes after so many questions: only time is faked."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left > 0 else 1e9


@pytest.mark.parametrize("packed", [folders_only, empty_members, long_tail])
def test_what_gives_no_image_is_timed_too(tmp_path, monkeypatch, packed):
    archive = received(tmp_path / "form", packed())
    monkeypatch.setattr("service.usecases.deadline.time.monotonic", Clock(20 if packed is not long_tail else 30))

    with pytest.raises(CheckTooLong, match="several updates"):
        stage([archive], [], [], tmp_path / "target", Settings(), "skip")


def test_an_upload_that_takes_too_long_to_check_is_given_up(tmp_path):
    archive = received(tmp_path / "form", zipped(DIGITS))

    with pytest.raises(CheckTooLong, match="several updates"):
        stage([archive], [], [], tmp_path / "target", Settings(upload_seconds=1e-9), "reject")
