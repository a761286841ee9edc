"""The same damage through the whole service: a documented refusal or an answer, and no process that grows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.hostile.conftest import left_behind
from tests.hostile.fuzzing import ARCHIVES, IMAGES, archive_case, image_case, resident_bytes
from tests.processes import Api, Service

pytestmark = pytest.mark.slow

CASES = 40  # of each kind
GROWTH = 64 * 2**20
ANSWERS = {200, 202, 400, 409, 413, 422, 503}


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_damaged_files_are_refused_over_http_and_nothing_is_left_or_leaked(service: Service, api: Api) -> None:
    statuses: Counter[int] = Counter()
    pid, files = api.process.pid, 0
    before = 0
    for number in range(CASES):
        for kind in IMAGES:
            statuses[api.http.post("/v1/classify", content=image_case(kind, number)).status_code] += 1
        for kind in ARCHIVES:
            form = {"archive": ("birds", archive_case(kind, number))}
            how = {"on_bad_image": "skip", "on_existing_class": "merge"}
            address = f"/v1/updates?dry_run={'false' if number % 10 == 0 else 'true'}"
            statuses[api.http.post(address, files=form, data=how).status_code] += 1
        if number == 5:
            before, files = resident_bytes(pid), open_files(pid)
    growth = resident_bytes(pid) - before
    print(f"\nover HTTP: {statuses.total()} cases, {growth / 2**20:+.1f} MiB, {dict(statuses)}")

    assert set(statuses) <= ANSWERS
    assert {200, 422} <= set(statuses)
    assert growth < GROWTH
    assert open_files(pid) <= files + 5, "connections of the database's pool come and go"
    assert "Traceback" not in api.log.read_text()
    assert left_behind(service, api) == []
