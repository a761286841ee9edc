"""Zip files that somebody made to do harm, or that broke on the way."""

import io
import stat
import struct
import tracemalloc
import zipfile
import zlib

import pytest

from service.config import Settings
from service.errors import BadArchive, BadUpload, DuplicateImage, RejectedImages, TooLarge, TooManyImages
from service.usecases.archive_entry import Meter
from service.usecases.read_upload import stage
from tests.packing import DIGITS, received, zipped
from tests.pictures import picture

LIMITS = Settings(max_image_bytes=100_000, max_upload_bytes=1_000_000, max_upload_images=20, max_classes=3)
CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"
HONEST = zipped(DIGITS)


@pytest.fixture
def staged(tmp_path):
    def run(content, on_bad_image="reject", limits=LIMITS):
        archive = received(tmp_path / "form", content)
        try:
            return stage([archive], [], [], tmp_path / "target", limits, on_bad_image)
        finally:
            written = {path.name for path in tmp_path.iterdir()}
            assert written == {"form", "target"}
            assert all(path.is_file() and not path.is_symlink() for path in (tmp_path / "target/images").iterdir())

    return run


def with_mode(mode: int, name: str = "digit-3/link.png") -> bytes:
    buffer = io.BytesIO(HONEST)
    with zipfile.ZipFile(buffer, "a") as archive:
        entry = zipfile.ZipInfo(name)
        entry.create_system, entry.external_attr = 3, mode << 16
        archive.writestr(entry, "/etc/passwd")
    return buffer.getvalue()


def patched(content: bytes, magic: bytes, offset: int, shape: str, *values: int) -> bytes:
    """Other numbers in the first record of its kind."""
    changed = bytearray(content)
    struct.pack_into(shape, changed, content.index(magic) + offset, *values)
    return bytes(changed)


def overlapping() -> bytes:
    """As in a zip bomb: many names, and one and the same content for all of them."""
    content = zlib.compress(bytes(90_000), 9)[2:-4]
    crc = zlib.crc32(bytes(90_000))
    body = (
        struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 33, crc, len(content), 90_000, 7, 0) + b"3/0.png" + content
    )
    names = [f"3/{i}.png".encode() for i in range(9)]
    shape = "<4s6H3L5H2L"
    central = b"".join(
        struct.pack(shape, CENTRAL, 20, 20, 0, 8, 0, 33, crc, len(content), 90_000, 7, 0, 0, 0, 0, 0, 0) + name
        for name in names
    )
    return body + central + struct.pack("<4s4H2LH", END, 0, 0, 9, 9, len(central), len(body), 0)


@pytest.mark.parametrize(
    "name",
    [
        "../evil.png",
        "digit-3/../../evil.png",
        "digit-3/..",
        "..\\evil.png",
        "digit-3/..\\..\\evil.png",
        "/etc/cron.d/evil.png",
        "\\\\server\\share\\evil.png",
        "C:\\evil.png",
        "c:/evil.png",
        "../.hidden",
        "../",
        "__MACOSX/../../evil.png",
    ],
)
def test_a_name_that_points_outside_is_refused(staged, name):
    with pytest.raises(BadArchive, match="points outside"):
        staged(zipped(DIGITS | {name: picture(3)}))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
@pytest.mark.parametrize("name", ["digit-3/link.png", ".hidden"])
def test_links_and_devices_are_refused(staged, kind, name):
    with pytest.raises(BadArchive, match="link or a device"):
        staged(with_mode(kind | 0o777, name))


def test_the_modes_of_plain_files_and_folders_are_fine(staged):
    assert len(staged(with_mode(stat.S_IFDIR | 0o755, "digit-3/")).images) == 6


@pytest.mark.parametrize(("magic", "offset"), [(CENTRAL, 8), (b"PK\x03\x04", 6)])
def test_an_encrypted_entry_is_refused(staged, magic, offset):
    with pytest.raises(BadArchive, match=r"without a password|pack it again"):
        staged(patched(HONEST, magic, offset, "<H", 1))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_without_bound_are_refused(staged, method):
    with pytest.raises(BadArchive, match=f"method {method}; pack it as a plain zip"):
        staged(zipped(DIGITS, method))


@pytest.mark.parametrize(
    ("offset", "shape", "value"),
    [
        (24, "<L", 50),  # less than there is
        (24, "<L", 90_000),  # more
        (20, "<L", 10),  # less of the packed bytes
        (20, "<L", 90_000),  # more of them than the file has
        (16, "<L", 7),  # another checksum
        (42, "<L", 3),  # at another place
        (42, "<L", 2**32 - 2),
        (42, "<L", 2**32 - 1),  # "look into the extra field", and there is none
        (10, "<H", 0),  # not packed at all
    ],
)
def test_a_directory_that_lies_about_an_entry_is_found_out(staged, offset, shape, value):
    with pytest.raises(BadArchive):
        staged(patched(HONEST, CENTRAL, offset, shape, value), on_bad_image="skip")


def test_a_size_beyond_all_bounds_is_never_read(staged):
    with pytest.raises(RejectedImages) as caught:
        staged(patched(HONEST, CENTRAL, 24, "<L", 2**32 - 2))

    assert [image.code for image in caught.value.rejected] == ["image_too_large"]


def test_another_name_in_the_directory_than_at_the_entry_is_refused(staged):
    place = HONEST.rindex(b"digit-3/0.png")

    with pytest.raises(BadArchive, match="another file in the directory"):
        staged(HONEST[:place] + b"digit-5/0.png" + HONEST[place + 13 :])


@pytest.mark.parametrize("prefix", [b"MZ an executable", b"PK\x03\x04 looks like a zip", picture(3)])
def test_something_before_the_first_entry_is_refused(staged, prefix):
    with pytest.raises(BadArchive):
        staged(prefix + HONEST)


def test_a_comment_after_the_end_is_fine(staged):
    buffer = io.BytesIO(HONEST)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"holiday" * 5000

    assert len(staged(buffer.getvalue()).images) == 6


def test_a_part_of_a_split_zip_is_refused(staged):
    with pytest.raises(BadArchive, match="split"):
        staged(patched(HONEST, END, 4, "<H", 1))


def test_the_same_entry_twice_is_refused(staged):
    buffer = io.BytesIO(HONEST)
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("digit-3/0.png", picture(5))

    with pytest.raises(DuplicateImage):
        staged(buffer.getvalue())


@pytest.mark.parametrize("flag", [0, 0x0800])
def test_a_name_that_is_not_utf_8_is_refused(staged, flag):
    content = zipped({"digit-3/x.png": picture(3)}).replace(b"/x.png", b"/\xff.png")

    with pytest.raises(BadArchive, match="not UTF-8"):
        staged(patched(content, CENTRAL, 8, "<H", flag))


def test_utf_8_without_a_flag_is_understood_as_macs_write_it(staged):
    content = zipped({"Zürich/0.png": picture(3)})

    unflagged = patched(patched(content, CENTRAL, 8, "<H", 0), b"PK\x03\x04", 6, "<H", 0)

    assert staged(unflagged).classes == ("Zürich",)


def test_a_unicode_name_beside_an_old_one_is_preferred(staged):
    old = "Zürich/0.png".encode("cp437")
    extra = struct.pack("<BL", 1, zlib.crc32(old)) + "Zürich/0.png".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("Z_rich/0.png")
        entry.extra = struct.pack("<2H", 0x7075, len(extra)) + extra
        archive.writestr(entry, picture(3))

    assert staged(buffer.getvalue().replace(b"Z_rich/0.png", old)).classes == ("Zürich",)


@pytest.mark.parametrize("name", ["digit-3/a\x1bb.png", "digit-3/" + "x" * 2000 + ".png"])
def test_names_that_no_camera_gives_are_refused(staged, name):
    with pytest.raises(BadArchive) as caught:
        staged(zipped({name: picture(3)}))

    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_entries_that_share_their_bytes_are_refused(staged):
    with pytest.raises(BadArchive, match="zip bomb"):
        staged(overlapping(), on_bad_image="skip")


def test_what_unpacks_to_too_much_is_stopped(staged):
    bomb = zipped({f"3/{i}.png": bytes(90_000) for i in range(15)})
    assert len(bomb) < 10_000

    with pytest.raises(TooLarge, match="unpacks to more than 1000000 bytes"):
        staged(bomb, on_bad_image="skip")


def test_what_was_packed_a_hundredfold_is_stopped_once_it_is_large():
    meter = Meter(packed_bytes=3 * 2**20, max_bytes=2**40, max_entries=1)
    for _ in range(300):
        meter.add_bytes(2**20)

    with pytest.raises(BadArchive, match="100 times"):
        meter.add_bytes(1)


def test_how_well_an_archive_may_be_packed_is_a_setting():
    meter = Meter(packed_bytes=30 * 2**20, max_bytes=2**40, max_entries=1, max_ratio=10)
    meter.add_bytes(300 * 2**20)

    with pytest.raises(BadArchive, match="more than 10 times"):
        meter.add_bytes(1)


def test_very_many_tiny_entries_are_stopped_in_little_memory(staged):
    """They all are to be ignored, so it is not the number of images that stops them."""
    names = [f".{i:07}".encode() for i in range(100_000)]
    central = b"".join(struct.pack("<4s6H3L5H2L", CENTRAL, *[0] * 9, 8, *[0] * 6) + name for name in names)
    content = b"PK\x03\x04" + central + struct.pack("<4s4H2LH", END, 0, 0, 0, 0, len(central), 4, 0)
    tracemalloc.start()
    try:
        with pytest.raises(TooManyImages, match="more than 1046 entries"):
            staged(content)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_more_entries_than_16_bits_count_are_read_where_they_are_allowed(staged):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i in range(66_000):
            archive.writestr(zipfile.ZipInfo(f".{i}"), b"")
        for name, content in DIGITS.items():
            archive.writestr(name, content)

    assert len(staged(buffer.getvalue(), limits=Settings(max_upload_images=100_000)).images) == 6


def test_sizes_in_64_bits_are_read(staged):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in DIGITS.items():
            with archive.open(name, "w", force_zip64=True) as entry:
                entry.write(content)
    content = buffer.getvalue()
    extra = struct.pack("<2H3Q", 1, 24, len(picture(3)), len(picture(3)), 0)
    place = content.index(CENTRAL)
    wide = bytearray(content[: place + 46 + 13] + extra + content[place + 46 + 13 :])
    struct.pack_into("<2L", wide, place + 20, 2**32 - 1, 2**32 - 1)
    struct.pack_into("<H", wide, place + 30, len(extra))
    struct.pack_into("<L", wide, place + 42, 2**32 - 1)
    end = wide.rindex(END)
    struct.pack_into("<L", wide, end + 12, end - place)

    assert len(staged(bytes(wide)).images) == 6


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"PK\x03\x04", b"PK\x05\x06", b"PK\x03\x04" + bytes(1000), b"Rar!\x1a\x07", b"7z\xbc\xaf'\x1c"],
)
def test_scraps_of_archives_are_refused(staged, content):
    with pytest.raises(BadArchive):
        staged(content)


def test_an_archive_in_an_archive_is_just_no_image(staged):
    with pytest.raises(RejectedImages) as caught:
        staged(zipped({"digit-3/inner.zip": HONEST, "digit-3/0.png": picture(3)}))

    assert [(image.name, image.code) for image in caught.value.rejected] == [("digit-3/inner.zip", "not_an_image")]


def test_an_error_names_the_archive_it_is_about(tmp_path):
    archives = [received(tmp_path / "form", HONEST), received(tmp_path / "form", HONEST[:-9], "second.zip")]

    with pytest.raises(BadUpload, match=r"'second.zip' cannot be read"):
        stage(archives, [], [], tmp_path / "target", LIMITS, "reject")
