"""Tar files that somebody made to do harm, or that broke on the way."""

import bz2
import gzip
import lzma
import shutil
import struct
import tarfile
import tracemalloc

import pytest

from service.config import Settings
from service.errors import BadArchive, BadUpload, DuplicateImage, RejectedImages, TooLarge, TooManyImages
from service.usecases.read_upload import stage
from tests.packing import DIGITS, received, tar_member, tar_of, tarred
from tests.pictures import picture

LIMITS = Settings(max_image_bytes=100_000, max_upload_bytes=1_000_000, max_upload_images=20, max_classes=3)
HONEST = [(tar_member(name, len(content)), content) for name, content in DIGITS.items()]
ZEROS = bytes(1024)


@pytest.fixture
def staged(tmp_path):
    def run(content, on_bad_image="reject", limits=LIMITS):
        target = tmp_path / "target"
        shutil.rmtree(target, ignore_errors=True)
        try:
            return stage([received(tmp_path / "form", content)], [], [], target, limits, on_bad_image)
        finally:
            assert {path.name for path in tmp_path.iterdir()} == {"form", "target"}
            assert all(path.is_file() and not path.is_symlink() for path in (target / "images").iterdir())

    return run


def block(name: str, size: int, kind: bytes) -> bytes:
    return tar_member(name, size, kind).tobuf(tarfile.USTAR_FORMAT)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def pax(records: dict[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    lines = b""
    for key, value in records.items():
        line = f" {key}={value}\n".encode()
        length = len(line) + len(str(len(line) + 2))
        lines += str(length).encode() + line
    return block("x", len(lines), kind) + padded(lines)


IMAGE = block("digit-3/0.png", len(picture(3)), tarfile.REGTYPE) + padded(picture(3))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "name", ["../evil.png", "digit-3/../../evil.png", "/etc/evil.png", "..", "/" + "x/" * 70 + "evil"]
)
def test_a_name_that_points_outside_is_refused_in_every_dialect(staged, format, name):
    with pytest.raises(BadArchive, match="points outside"):
        staged(tarred(DIGITS | {name: picture(3)}, format=format))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("name", ["digit-3/link.png", ".hidden"])
@pytest.mark.parametrize("link", ["/etc/passwd", "x/" * 80])
def test_links_and_devices_are_refused(staged, kind, name, link):
    member = tar_member(name, kind=kind)
    member.linkname = link

    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with pytest.raises(BadArchive, match="link or a device"):
            staged(tar_of([*HONEST, (member, b"")], format=format))


def test_folders_are_ignored(staged):
    assert len(staged(tar_of([(tar_member("digit-3", kind=tarfile.DIRTYPE), b""), *HONEST])).images) == 6


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names_are_read_in_both_dialects(staged, format):
    name = "Zürich " + "x" * 100 + "/" + "y" * 150 + ".png"

    upload = staged(tarred({name: picture(3), "digit-4/0.png": picture(4)}, format=format))

    assert [image.name for image in upload.images] == [name, "digit-4/0.png"]


def test_a_long_name_belongs_to_one_file_only(staged):
    content = pax({"path": "digit-5/a.png"}) + IMAGE + IMAGE + ZEROS

    assert [image.name for image in staged(content).images] == ["digit-5/a.png", "digit-3/0.png"]


def test_the_remarks_of_git_and_mac_are_ignored(staged):
    content = (
        pax({"comment": "a3f9"}, tarfile.XGLTYPE)
        + pax({"LIBARCHIVE.xattr.com.apple": "x", "mtime": "1.5"})
        + IMAGE
        + ZEROS
    )

    assert len(staged(content).images) == 1


@pytest.mark.parametrize(
    "content",
    [
        block("digit-3/0.png", 0, tarfile.GNUTYPE_SPARSE) + ZEROS,
        pax({"GNU.sparse.major": "1", "GNU.sparse.realsize": "99999999"}) + IMAGE + ZEROS,
        pax({"GNU.sparse.size": "99999999"}) + IMAGE + ZEROS,
        pax({"size": "7"}, tarfile.XGLTYPE) + IMAGE + ZEROS,
        pax({"path": "a/b"}, tarfile.XGLTYPE) + IMAGE + ZEROS,
        pax({"size": "-7"}) + IMAGE + ZEROS,
        pax({"size": "9" * 30}) + IMAGE + ZEROS,
        pax({"size": "٣"}) + IMAGE + ZEROS,
        block("digit-3/0.png", 0, b"V") + ZEROS,
        block("digit-3/0.png", 0, b"M") + ZEROS,
        block("digit-3/0.png", 0, b"?") + ZEROS,
        block("x", 2**30, tarfile.XHDTYPE) + ZEROS,
        block("x", 2**30, tarfile.GNUTYPE_LONGNAME) + ZEROS,
        block("x", 10, tarfile.XHDTYPE) + padded(b"99 path=a\n") + IMAGE + ZEROS,
        block("x", 10, tarfile.XHDTYPE) + padded(b"0 path=aa\n") + IMAGE + ZEROS,
        block("x", 10, tarfile.XHDTYPE) + padded(b"path=aaaa\n") + IMAGE + ZEROS,
        block("x", 10, tarfile.XHDTYPE) + padded(b"10 pathaa\n") + IMAGE + ZEROS,
        block("x", 10, tarfile.XHDTYPE) + padded(b"10 path=aa") + IMAGE + ZEROS,
        pax({"path": "digit-3/a\0b.png"}) + IMAGE + ZEROS,
    ],
)  # fmt: skip
def test_tricks_with_headers_are_refused(staged, content):
    with pytest.raises(BadArchive):
        staged(content)


def test_a_negative_size_is_refused(staged):
    header = bytearray(block("digit-3/0.png", 0, tarfile.REGTYPE))
    header[124:136] = b"\xff" * 11 + b"\x00"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)

    with pytest.raises(BadArchive, match="negative size"):
        staged(bytes(header) + IMAGE + ZEROS)


def test_a_size_of_its_own_header_is_believed_and_checked(staged):
    with pytest.raises(BadArchive, match="truncated"):
        staged(pax({"size": "90000"}) + IMAGE + ZEROS)


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_name_that_is_not_utf_8_is_refused(staged, format):
    for name in ("digit-3/\udcff.png", "digit-3/" + "\udcff" * 90 + ".png"):
        with pytest.raises(BadArchive, match="not UTF-8"):
            staged(tarred({name: picture(3)}, format=format))


def test_a_pax_name_that_is_not_utf_8_is_refused(staged):
    raw = b"24 path=digit-3/\xff\xff\xff.png\n"

    with pytest.raises(BadArchive, match="not UTF-8"):
        staged(block("x", len(raw), tarfile.XHDTYPE) + padded(b"%d" % len(raw) + raw[2:]) + IMAGE + ZEROS)


def test_an_owner_with_a_name_in_an_old_code_page_is_fine(staged):
    member = tar_member("digit-3/0.png", len(picture(3)))
    member.uname = "J\udcfcrgen"

    assert len(staged(tar_of([(member, picture(3))], format=tarfile.GNU_FORMAT)).images) == 1


def test_the_same_entry_twice_is_refused(staged):
    with pytest.raises(DuplicateImage):
        staged(tar_of([*HONEST, HONEST[0]]))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_image_that_is_too_large_is_skipped_without_reading_it(staged, mode):
    big = {"digit-3/big.png": bytes(100_001)}

    upload = staged(tarred(big | DIGITS, mode), on_bad_image="skip")

    assert [image.code for image in upload.rejected] == ["image_too_large"]
    assert len(upload.images) == 6


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_what_unpacks_to_too_much_is_stopped_even_if_it_is_to_be_ignored(staged, mode):
    with pytest.raises(TooLarge, match="unpacks to more than 1000000 bytes"):
        staged(tarred({".hidden": bytes(2_000_000)} | DIGITS, mode))


def test_what_follows_the_end_counts_too(staged):
    with pytest.raises(TooLarge):
        staged(gzip.compress(tarred(DIGITS) + bytes(2_000_000)))


def test_a_bomb_is_stopped_in_little_memory(staged):
    """bzip2 packs 45 MB into 45 bytes; ten of them behind each other are one stream."""
    header = block(".hidden", 2**33 - 1, tarfile.REGTYPE)
    bomb = bz2.compress(header) + bz2.compress(bytes(45_000_000)) * 10
    assert len(bomb) < 2000
    tracemalloc.start()
    try:
        with pytest.raises(BadArchive, match="100 times"):
            staged(bomb, limits=Settings(max_upload_bytes=2**33))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


def test_an_xz_file_that_asks_for_gigabytes_of_memory_is_refused(staged):
    content = bytearray(lzma.compress(tarred(DIGITS), lzma.FORMAT_ALONE))
    struct.pack_into("<L", content, 1, 3 * 2**30)

    with pytest.raises(BadArchive, match=r"[Mm]emory"):
        staged(bytes(content))


def test_the_older_format_of_xz_is_read(staged):
    assert len(staged(lzma.compress(tarred(DIGITS), lzma.FORMAT_ALONE)).images) == 6


def test_very_many_tiny_entries_are_stopped(staged):
    with pytest.raises(TooManyImages, match="entries"):
        staged(block(".hidden", 0, tarfile.REGTYPE) * 1100 + ZEROS)


def test_a_chain_of_headers_without_a_file_is_stopped(staged):
    with pytest.raises(TooManyImages, match="entries"):
        staged(
            pax({"path": "a/b"}) * 500 + pax({"path": "a/b"}) * 600 + ZEROS,
            limits=LIMITS.model_copy(update={"max_upload_bytes": 10**8}),
        )


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2"])
def test_a_wrong_checksum_is_found_although_the_tar_inside_had_ended(staged, mode):
    content = bytearray(tarred(DIGITS, mode))
    content[{"w:gz": -6, "w:bz2": -3, "w:xz": -1}[mode]] ^= 0xFF

    with pytest.raises(BadArchive, match="truncated or damaged"):
        staged(bytes(content))


def test_a_damaged_header_is_refused(staged):
    content = bytearray(tarred(DIGITS))
    content[1024 + 5] ^= 1

    with pytest.raises(BadArchive):
        staged(bytes(content))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"hello" * 1000,
        gzip.compress(b""),
        gzip.compress(b"hello" * 500),
        b"\x28\xb5\x2f\xfd" + ZEROS,
        picture(3),
    ],
    ids=["empty", "text", "long text", "empty gzip", "gzip of text", "zstd", "picture"],
)
def test_what_is_no_archive_is_refused(staged, content):
    with pytest.raises(BadArchive, match="neither a zip nor a tar"):
        staged(content)


def test_an_archive_in_an_archive_is_just_no_image(staged):
    with pytest.raises(RejectedImages) as caught:
        staged(tarred({"digit-3/inner.tar.gz": tarred(DIGITS, "w:gz")} | DIGITS))

    assert [image.code for image in caught.value.rejected] == ["not_an_image"]


def test_a_tar_of_nothing_holds_no_image(staged):
    with pytest.raises(BadUpload, match="no image"):
        staged(bytes(10240))
