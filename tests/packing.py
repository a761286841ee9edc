"""Archives for tests: honest ones, and the parts that dishonest ones are made of."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from service.usecases.read_upload import ReceivedFile
from tests.pictures import picture

# Two classes of three real images.
DIGITS = {f"digit-{digit}/{number}.png": picture(digit, number) for digit in (3, 4) for number in range(3)}


def zipped(entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(entries: Mapping[str, bytes], mode: str = "w", format: int = tarfile.PAX_FORMAT) -> bytes:
    members = [(tar_member(name, len(content)), content) for name, content in entries.items()]
    return tar_of(members, mode, format)


def tar_of(
    members: Sequence[tuple[tarfile.TarInfo, bytes]], mode: str = "w", format: int = tarfile.PAX_FORMAT
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=format) as archive:  # type: ignore[call-overload]
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def tar_member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member


def received(folder: Path, content: bytes, filename: str = "birds.zip", field: str = "archive") -> ReceivedFile:
    """The file as if it had come with a form."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{len(list(folder.iterdir())) + 1:06}"
    path.write_bytes(content)
    return ReceivedFile(field, filename, path, len(content))
