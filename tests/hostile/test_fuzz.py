"""Thousands of damaged archives and images: each is read or refused by one of our own errors, and leaves nothing."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from service.config import Settings
from service.errors import BadImage
from service.serving.decode import decode
from service.usecases.check_image import check
from service.usecases.read_upload import ReceivedFile, stage
from tests.hostile.fuzzing import ARCHIVES, IMAGES, archive_case, image_case, open_files, resident_bytes
from zstci.config import InputConfig
from zstci.errors import ZstciError

# As in production, where a warning of Pillow about strange bytes ends no request.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CASES = int(os.environ.get("FUZZ_CASES", "400"))
LIMITS = Settings(max_image_bytes=100_000, max_pixels=10**6, max_upload_bytes=2_000_000, max_upload_images=100)
WARM_UP = 100  # cases after which memory is measured first
GROWTH = 48 * 2**20  # bytes: what allocators and caches may keep; a leak of a few kB a case is more in a long run


class Watched:
    """Counts outcomes; no file stays open, and memory does not grow with the number of cases."""

    def __init__(self, what: str) -> None:
        self._what, self._files = what, open_files()
        self._resident = 0
        self.outcomes: Counter[str] = Counter()

    def note(self, number: int, outcome: str) -> None:
        self.outcomes[outcome] += 1
        if number == WARM_UP:
            self._resident = resident_bytes()

    def check(self) -> None:
        growth = resident_bytes() - self._resident
        print(f"\n{self._what}: {self.outcomes.total()} cases, {growth / 2**20:+.1f} MiB, {dict(self.outcomes)}")
        assert open_files() == self._files
        assert growth < GROWTH


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_damaged_archive_is_staged_or_refused_by_name(tmp_path: Path, kind: str) -> None:
    watched = Watched(kind)
    packed, target = tmp_path / "000001", tmp_path / "target"
    for number in range(CASES):
        packed.write_bytes(archive_case(kind, number))
        received = ReceivedFile("archive", "birds", packed, packed.stat().st_size)
        try:
            upload = stage([received], [], [], target, LIMITS, "skip")
            outcome = f"{len(upload.images)} images" if upload.rejected else "all images"
        except ZstciError as error:
            outcome = error.code
        watched.note(number, outcome)
        shutil.rmtree(target, ignore_errors=True)
        assert list(tmp_path.iterdir()) == [packed], f"{kind} {number} wrote beside its folder"
    watched.check()
    assert "internal_error" not in watched.outcomes
    assert watched.outcomes["bad_archive"] > 0


@pytest.mark.parametrize("kind", IMAGES)
def test_a_damaged_image_is_decoded_or_refused_by_name(kind: str) -> None:
    watched = Watched(kind)
    config = InputConfig(size=8, resize=8)
    for number in range(2 * CASES):
        content = image_case(kind, number)
        try:
            assert decode(content, config, LIMITS.max_pixels).shape == (3, 8, 8)
            outcome = "decoded"
        except BadImage as error:
            outcome = error.code
        watched.note(number, outcome)
        assert _checked(content, config) in (outcome, "decoded"), f"{kind} {number}: refused by an update alone"
    watched.check()
    assert len(watched.outcomes) > 1


def _checked(content: bytes, config: InputConfig) -> str:
    try:
        check(content, LIMITS.max_pixels, config)
    except BadImage as error:
        return error.code
    return "decoded"
