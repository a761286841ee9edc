"""From the files that were sent to a folder that can be learnt from: checked images under our own names, and a list.

target/images/000001.jpg ...    bytes as they were sent
target/upload.json              which class each belongs to, its sha256; written last, so without it nothing counts
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from service.config import Settings
from service.domain import RejectedImage, Upload, UploadedImage
from service.errors import (
    BadImage,
    BadUpload,
    DuplicateImage,
    ImageTooLarge,
    RejectedImages,
    TooManyClasses,
    TooManyImages,
)
from service.usecases.archive_entry import Meter, shown
from service.usecases.archives import ReceivedFile, entries
from service.usecases.check_image import check
from service.usecases.class_names import clean
from service.usecases.deadline import Deadline
from service.usecases.disk import full_disk_is_named
from service.usecases.entry_names import class_and_image
from zstci.config import InputConfig
from zstci.errors import LabelMismatch

__all__ = ["LIST", "ReceivedFile", "load", "parse", "stage"]

LIST = "upload.json"
_FORMAT = 1
_DEFAULT_INPUT = InputConfig()
# MPO is what Pillow calls a JPEG with a preview or a depth map behind it, as phones make them.
_SUFFIXES = {"BMP": "bmp", "GIF": "gif", "JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp"}
_OUR_FILE = re.compile(rf"images/\d{{6,}}\.({'|'.join(set(_SUFFIXES.values()))})")


@dataclass(frozen=True)
class _Sent:
    name: str
    class_name: str
    image_name: str
    size: int
    read: Callable[[], bytes]


def stage(
    archives: Sequence[ReceivedFile],
    files: Sequence[ReceivedFile],
    labels: Sequence[str],
    target: Path,
    limits: Settings,
    on_bad_image: Literal["reject", "skip"],
    net_input: InputConfig = _DEFAULT_INPUT,
    deadline: Deadline | None = None,
) -> Upload:
    """Whatever is refused, the caller removes `target`: nothing is written anywhere else."""
    if len(files) != len(labels):
        raise LabelMismatch(f"there are {len(files)} files and {len(labels)} labels; send one label for each file")
    deadline = deadline or Deadline(limits.upload_seconds)
    with full_disk_is_named():
        staging = _Staging(target, limits, net_input, deadline)
        for source in (_packed(archives, limits, deadline), _labelled(files, labels)):
            with closing(source):
                for sent in source:
                    staging.take(sent)
        return staging.finish(on_bad_image)


def load(folder: Path, between: Callable[[], None] = lambda: None) -> Upload:
    """The upload as it was staged; every byte is compared, since what is damaged must not be learnt. `between` is
    called between two images, and may raise to stop."""
    try:
        upload = parse((folder / LIST).read_bytes())
        for image in upload.images:
            between()
            _compare(folder, image)
    except (FileNotFoundError, TypeError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from error
    return upload


def parse(content: bytes) -> Upload:
    """What the list says, without a look at the images."""
    try:
        saved = json.loads(content)
        if saved["format"] != _FORMAT:
            raise _damaged(f"{LIST} has format {saved['format']!r}, not {_FORMAT}")
        images = tuple(UploadedImage(**row) for row in saved["images"])
        rejected = tuple(RejectedImage(**row) for row in saved["rejected"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from error
    return Upload(images, rejected)


class _Staging:
    def __init__(self, target: Path, limits: Settings, net_input: InputConfig, deadline: Deadline) -> None:
        self._target, self._limits, self._net_input, self._deadline = target, limits, net_input, deadline
        self._seen: dict[str, set[str]] = {}  # image names by class
        self._count = 0
        self._images: list[UploadedImage] = []
        self._rejected: list[RejectedImage] = []
        (target / "images").mkdir(parents=True)

    def take(self, sent: _Sent) -> None:
        self._admit(sent)
        content: bytes | None = None
        try:
            if sent.size > self._limits.max_image_bytes:
                raise ImageTooLarge(f"it has more than {self._limits.max_image_bytes} bytes; scale it down")
            content = sent.read()
            kind = check(content, self._limits.max_pixels, self._net_input)
        except BadImage as fault:
            digest = None if content is None else hashlib.sha256(content).hexdigest()
            self._rejected.append(RejectedImage(sent.name, fault.code, str(fault), digest, sent.size))
            return
        file = f"images/{len(self._images) + 1:06}.{_SUFFIXES[kind]}"
        (self._target / file).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        self._images.append(UploadedImage(sent.name, sent.class_name, file, digest, len(content)))

    def finish(self, on_bad_image: Literal["reject", "skip"]) -> Upload:
        if self._rejected and (on_bad_image == "reject" or not self._images):
            raise RejectedImages(self._rejected)
        if not self._images:
            raise BadUpload("there is no image in it; send an archive with class-name/image.jpg, or files with labels")
        upload = Upload(tuple(self._images), tuple(self._rejected))
        partial = self._target / f"{LIST}.partial"
        partial.write_text(json.dumps({"format": _FORMAT, **asdict(upload)}), encoding="utf-8")
        os.replace(partial, self._target / LIST)
        return upload

    def _admit(self, sent: _Sent) -> None:
        """Before its bytes are read: is there room and time for it, and is it new?"""
        self._deadline.check()
        self._count += 1
        if self._count > self._limits.max_upload_images:
            raise TooManyImages(f"there are more than {self._limits.max_upload_images} images; send several updates")
        images = self._seen.setdefault(sent.class_name, set())
        if len(self._seen) > self._limits.max_classes:
            raise TooManyClasses(f"there are more than {self._limits.max_classes} classes; send several updates")
        # One name may be spelt in two ways that look the same.
        image_name = unicodedata.normalize("NFC", sent.image_name)
        if image_name in images:
            raise DuplicateImage(
                f"{shown(sent.image_name)} is there twice in class {shown(sent.class_name)}; remove or rename one"
            )
        images.add(image_name)


def _packed(archives: Sequence[ReceivedFile], limits: Settings, deadline: Deadline) -> Generator[_Sent, None, None]:
    # A Mac adds a hidden entry for each image, and a folder is an entry, too.
    most = 2 * limits.max_upload_images + 2 * limits.max_classes + 1000
    packed = sum(archive.bytes for archive in archives)
    meter = Meter(packed, limits.max_upload_bytes, most, limits.max_ratio, deadline)
    for archive in archives:
        for entry in entries(archive, meter):
            place = class_and_image(entry.name)
            if place is not None:
                yield _Sent(entry.name, clean(place[0]), place[1], entry.size, entry.read)


def _labelled(files: Sequence[ReceivedFile], labels: Sequence[str]) -> Generator[_Sent, None, None]:
    for number, (file, label) in enumerate(zip(files, labels, strict=True), start=1):
        class_name = clean(label)
        image_name = file.filename or f"file {number}"
        yield _Sent(f"{class_name}/{image_name}", class_name, image_name, file.bytes, file.path.read_bytes)


def _compare(folder: Path, image: UploadedImage) -> None:
    if not _OUR_FILE.fullmatch(image.file):
        raise _damaged(f"{LIST} names {image.file!r}")
    content = (folder / image.file).read_bytes()
    if len(content) != image.bytes or hashlib.sha256(content).hexdigest() != image.sha256:
        raise _damaged(f"{image.file} is not as it was sent")


def _damaged(what: str) -> BadUpload:
    return BadUpload(f"the stored upload is damaged ({what}); send it again as a new update")
