import hashlib
import io
import json
import shutil
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from service.config import Settings
from service.domain import RejectedImage
from service.errors import (
    BadArchive,
    BadClassName,
    BadUpload,
    DuplicateImage,
    RejectedImages,
    StorageFull,
    TooManyClasses,
    TooManyImages,
    WrongLayout,
)
from service.usecases.disk import full_disk_is_named
from service.usecases.read_upload import load, stage
from tests.packing import DIGITS, received, tarred, zipped
from tests.pictures import encoded, picture
from zstci.errors import LabelMismatch

LIMITS = Settings(max_image_bytes=2000, max_upload_bytes=200_000, max_upload_images=8, max_classes=3, max_pixels=1000)
PACKED = {
    "zip": zipped(DIGITS),
    "zip-stored": zipped(DIGITS, method=0),
    "tar": tarred(DIGITS),
    "tar-gnu": tarred(DIGITS, format=1),
    "tar-ustar": tarred(DIGITS, format=0),
    "tar.gz": tarred(DIGITS, "w:gz"),
    "tar.bz2": tarred(DIGITS, "w:bz2"),
    "tar.xz": tarred(DIGITS, "w:xz"),
}


@pytest.fixture
def staged(tmp_path):
    """Stages archives, given as bytes or as entries to zip, and says what came of it."""

    def run(*archives, on_bad_image="reject", limits=LIMITS):
        contents = [zipped(archive) if isinstance(archive, dict) else archive for archive in archives]
        files = [received(tmp_path / "form", content) for content in contents]
        return stage(files, [], [], tmp_path / "target", limits, on_bad_image)

    return run


@pytest.mark.parametrize("kind", PACKED)
def test_every_archive_gives_the_bytes_that_were_packed(staged, tmp_path, kind):
    upload = staged(PACKED[kind])

    assert [(image.name, image.class_name) for image in upload.images] == [(n, n.split("/")[0]) for n in DIGITS]
    for number, image in enumerate(upload.images, start=1):
        content = (tmp_path / "target" / image.file).read_bytes()
        assert image.file == f"images/{number:06}.png"
        assert content == DIGITS[image.name]
        assert (image.sha256, image.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    assert upload.classes == ("digit-3", "digit-4")
    assert load(tmp_path / "target") == upload


def test_files_with_labels_give_the_same_as_an_archive(tmp_path):
    files = [received(tmp_path / "form", content, name.split("/")[1], "files") for name, content in DIGITS.items()]
    labels = [name.split("/")[0] for name in DIGITS]

    upload = stage([], files, labels, tmp_path / "target", LIMITS, "reject")

    archived = stage([received(tmp_path / "form", zipped(DIGITS))], [], [], tmp_path / "other", LIMITS, "reject")
    assert upload == archived == load(tmp_path / "target")


def test_a_label_is_needed_for_each_file(tmp_path):
    files = [received(tmp_path / "form", picture(3), "3.png", "files") for _ in range(2)]

    with pytest.raises(LabelMismatch, match="2 files and 1 labels"):
        stage([], files, ["three"], tmp_path / "target", LIMITS, "reject")


def test_files_without_a_name_are_numbered(tmp_path):
    files = [received(tmp_path / "form", picture(3, i), "", "files") for i in range(2)]

    upload = stage([], files, ["three"] * 2, tmp_path / "target", LIMITS, "reject")

    assert [image.name for image in upload.images] == ["three/file 1", "three/file 2"]


def test_the_suffix_is_that_of_the_content_not_of_the_name(staged):
    scan = Image.open(io.BytesIO(picture(3)))
    entries = {f"3/{kind}.txt": encoded(scan, kind) for kind in ("JPEG", "WEBP", "GIF", "BMP")}
    entries["3/MPO.txt"] = encoded(scan, "MPO", save_all=True, append_images=[scan])

    assert [image.file[-4:] for image in staged(entries).images] == [".jpg", "webp", ".gif", ".bmp", ".jpg"]


def test_several_archives_are_one_upload(staged):
    first, second = ({n: c for n, c in DIGITS.items() if n.startswith(name)} for name in ("digit-3", "digit-4"))

    assert len(staged(first, tarred(second, "w:gz")).images) == 6


def test_what_systems_leave_behind_is_ignored(staged):
    junk = [
        "./",
        "digit-3/",
        "digit-3/.DS_Store",
        "__MACOSX/digit-3/._0.png",
        "Thumbs.db",
        "digit-3/thumbs.db",
        ".git/x/y",
    ]
    entries = dict.fromkeys([*junk, "digit-3/desktop.ini", "digit-3/Icon\r"], b"")

    assert len(staged(entries | {f"./{name}": content for name, content in DIGITS.items()}).images) == 6


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("0.png", "in no folder"),
        ("./0.png", "in no folder"),
        ("photos/digit-3/0.png", "2 folders deep.*cd FOLDER"),
        ("a/b/c/d/0.png", "4 folders deep"),
        ("digit-3\\0.png", "in no folder"),
    ],
)
def test_a_wrong_layout_is_refused_with_advice(staged, name, advice):
    with pytest.raises(WrongLayout, match=advice):
        staged(DIGITS | {name: picture(3)})


@pytest.mark.parametrize("name", ["do\u202eg", "x" * 201, "a\\b", " "])
def test_a_bad_class_name_is_refused(staged, tmp_path, name):
    with pytest.raises(BadClassName):
        staged({f"{name}/0.png": picture(3)})
    with pytest.raises(BadClassName):
        stage([], [received(tmp_path / "form", picture(3))], [name], tmp_path / "files", LIMITS, "reject")


def test_one_name_in_two_spellings_is_one_class(staged):
    composed, apart = "Zürich", unicodedata.normalize("NFD", "Zürich")

    assert staged({f"{composed}/0.png": picture(3), f"{apart}/1.png": picture(3, 1)}).classes == (composed,)


def test_the_same_name_twice_is_refused(staged, tmp_path):
    with pytest.raises(DuplicateImage, match=r"'0.png' is there twice in class 'digit-3'"):
        staged(DIGITS, {"./digit-3/0.png": picture(5)})
    files = [received(tmp_path / "form", picture(3, i), "same.png") for i in range(2)]
    with pytest.raises(DuplicateImage):
        stage([], files, ["three", "three"], tmp_path / "same", LIMITS, "reject")

    assert len(stage([], files, ["three", "four"], tmp_path / "other", LIMITS, "reject").images) == 2


BAD = {
    "digit-3/empty.png": (b"", "empty_image"),
    "digit-3/notes.txt": (b"hello", "not_an_image"),
    "digit-3/inner.zip": (zipped(DIGITS)[:1900], "not_an_image"),
    "digit-3/cut.png": (picture(3)[:-30], "damaged_image"),
    "digit-3/wide.png": (encoded(Image.new("1", (101, 10)), "PNG"), "too_many_pixels"),
    "digit-3/long.png": (picture(3) + b"\0" * 2000, "image_too_large"),
}
GOOD = {"digit-4/0.png": picture(4)}


def test_every_bad_image_is_named_with_its_reason(staged, tmp_path):
    with pytest.raises(RejectedImages, match="6 images cannot be used") as caught:
        staged(GOOD | {name: content for name, (content, _) in BAD.items()})

    assert {image.name: image.code for image in caught.value.rejected} == {n: code for n, (_, code) in BAD.items()}
    assert all(image.detail for image in caught.value.rejected)
    assert not (tmp_path / "target" / "upload.json").exists()


def test_bad_images_can_be_skipped_and_are_reported(staged, tmp_path):
    upload = staged(GOOD | {name: content for name, (content, _) in BAD.items()}, on_bad_image="skip")

    assert [image.name for image in upload.images] == list(GOOD)
    assert {image.name for image in upload.rejected} == set(BAD)
    assert isinstance(upload.rejected[0], RejectedImage)
    assert load(tmp_path / "target") == upload


@pytest.mark.parametrize("on_bad_image", ["reject", "skip"])
def test_nothing_but_bad_images_is_refused_either_way(staged, on_bad_image):
    with pytest.raises(RejectedImages):
        staged({"digit-3/0.png": b""}, on_bad_image=on_bad_image)


@pytest.mark.parametrize("archive", [{}, {"digit-3/": b""}, {".hidden": b"x"}, tarred({})])
def test_an_upload_without_an_image_is_refused(staged, archive):
    with pytest.raises(BadUpload, match="no image"):
        staged(archive)


def test_too_many_images_are_refused_bad_ones_included(staged):
    with pytest.raises(TooManyImages, match="more than 8 images"):
        staged({f"3/{i}.png": b"" for i in range(9)}, on_bad_image="skip")


def test_too_many_classes_are_refused(staged):
    with pytest.raises(TooManyClasses, match="more than 3 classes"):
        staged({f"{i}/0.png": picture(3) for i in range(4)})


def test_names_of_strangers_become_no_paths(staged, tmp_path):
    entries = {f"{name}/{name}.png": picture(3) for name in ("con", "~root", "$HOME")}

    staged(entries)

    written = {path.relative_to(tmp_path / "target").as_posix() for path in (tmp_path / "target").rglob("*")}
    assert written == {"upload.json", "images", *(f"images/{i:06}.png" for i in (1, 2, 3))}


def test_an_older_folder_is_never_mixed_with_a_new_upload(staged, tmp_path):
    staged(DIGITS)

    with pytest.raises(FileExistsError):
        staged(DIGITS)


def _rewrite(folder, change):
    saved = json.loads((folder / "upload.json").read_text())
    change(saved)
    (folder / "upload.json").write_text(json.dumps(saved))


DAMAGE = {
    "list missing": lambda f: (f / "upload.json").unlink(),
    "list cut": lambda f: (f / "upload.json").write_bytes((f / "upload.json").read_bytes()[:-5]),
    "list of another kind": lambda f: (f / "upload.json").write_text("[]"),
    "list is not text": lambda f: (f / "upload.json").write_bytes(b"\xff\xfe\x00"),
    "list of another format": lambda f: _rewrite(f, lambda saved: saved.update(format=2)),
    "a field missing": lambda f: _rewrite(f, lambda saved: saved["images"][0].pop("sha256")),
    "a number for a file": lambda f: _rewrite(f, lambda saved: saved["images"][0].update(file=7)),
    "a file elsewhere": lambda f: _rewrite(f, lambda saved: saved["images"][0].update(file="../../etc/passwd")),
    "image missing": lambda f: (f / "images" / "000002.png").unlink(),
    "image cut": lambda f: (f / "images" / "000002.png").write_bytes(picture(3, 1)[:-1]),
    "image swapped": lambda f: shutil.copy(f / "images" / "000001.png", f / "images" / "000002.png"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_upload_is_not_loaded(staged, tmp_path, damage):
    staged(DIGITS)
    DAMAGE[damage](tmp_path / "target")

    with pytest.raises(BadUpload, match=r"damaged.*send it again"):
        load(tmp_path / "target")


def test_a_full_disk_is_called_that():
    with pytest.raises(StorageFull, match="no room left"), full_disk_is_named():
        Path("/dev/full").write_bytes(b"x")


def test_other_faults_of_the_disk_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError), full_disk_is_named():
        (tmp_path / "missing").read_bytes()


@settings(deadline=None)
@given(
    kind=st.sampled_from(sorted(PACKED)),
    place=st.floats(0, 1, exclude_max=True),
    junk=st.binary(max_size=8),
    keep=st.floats(0, 1),
)
def test_a_damaged_archive_is_read_or_refused_and_never_breaks_anything(tmp_path_factory, kind, place, junk, keep):
    folder = tmp_path_factory.mktemp("damaged")
    start = int(place * len(PACKED[kind]))
    damaged = PACKED[kind][:start] + junk + PACKED[kind][start + len(junk) :]
    archive = received(folder / "form", damaged[: int(keep * len(damaged)) if keep < 0.9 else None])
    try:
        upload = stage([archive], [], [], folder / "target", LIMITS, "skip")
    except (BadUpload, TooManyImages, TooManyClasses):
        pass
    else:
        assert load(folder / "target") == upload
    assert {path.name for path in folder.iterdir()} == {"form", "target"}
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", PACKED)
def test_a_cut_archive_is_refused_wherever_it_was_cut(tmp_path, kind):
    content = PACKED[kind]
    # A tar is padded with zeros: one block of them is its end, the rest says nothing.
    needed = (
        len(content.rstrip(b"\0")) // 512 * 512 + 512 if kind.startswith("tar") and "." not in kind else len(content)
    )

    for number, keep in enumerate(range(0, needed, max(1, needed // 60))):
        with pytest.raises(BadArchive):
            stage([received(tmp_path / "form", content[:keep])], [], [], tmp_path / str(number), LIMITS, "skip")
