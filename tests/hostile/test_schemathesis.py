"""Requests made up from the API's own description, right and wrong ones: no answer may surprise its reader."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.conftest import SMALL, left_behind, with_three_classes
from tests.processes import COMMAND, Api, Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("schemathesis.toml")
SEED, PER_OPERATION, AT_LEAST = 20261118, 75, 2000
# Stored nowhere, so that no generated request can revoke it. Without one the first key that a request happens to make
# would end the rest with 401.
ADMIN_KEY = "of-the-admin-of-generated-requests"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "home", f"sqlite:///{tmp_path / 'zstci.db'}")
    yield service
    service.end()


def generated(api: Api, folder: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    """What schemathesis printed, and its report."""
    report = folder / "report.json"
    run = subprocess.run(
        [
            *(COMMAND.with_name("schemathesis"), "--config-file", CONFIG, "run", f"{api.http.base_url}/openapi.json"),
            *("--checks", "all", "--seed", str(SEED), *options),
            *("--generation-database", "none", "--no-color", "--continue-on-failure"),
            *("--report", "json", "--report-json-path", report),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")},
        capture_output=True,
        text=True,
        timeout=800,
    )
    return run, json.loads(report.read_text()) if report.exists() else None


def test_generated_requests_get_only_documented_answers_and_leave_nothing_behind(
    service: Service, tmp_path: Path
) -> None:
    api = with_three_classes(service, ZSTCI_ADMIN_KEY=ADMIN_KEY)
    header = f"Authorization: Bearer {ADMIN_KEY}"
    run, found = generated(api, tmp_path, "--max-examples", str(PER_OPERATION), "-H", header)

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2000:]
    print(f"\nschemathesis: {found['test_cases']['generated']} cases, {found['running_time']:.0f} s, seed {SEED}")
    assert found["operations"]["tested"] == found["operations"]["total"]
    assert found["test_cases"]["generated"] >= AT_LEAST
    assert api.http.get("/readyz").status_code == 200
    assert "Traceback" not in api.log.read_text()
    assert left_behind(service, api) == []


def test_a_key_of_the_lowest_scope_gets_only_documented_refusals(service: Service, tmp_path: Path) -> None:
    service.run("migrate")
    key = json.loads(service.run("keys", "create", "stranger", "--scope", "query", "--json")[0])["key"]
    api = service.serve("api", **SMALL)
    header = f"Authorization: Bearer {key}"
    # What it may not do is refused although the request is as described.
    run, _ = generated(
        api, tmp_path, "--max-examples", "3", "-H", header, "--exclude-checks", "positive_data_acceptance"
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2000:]
    refused = api.http.get("/v1/keys", headers={"Authorization": f"Bearer {key}"})
    assert refused.status_code == 403
    assert api.http.get("/v1/keys").status_code == 401
    assert "Traceback" not in api.log.read_text()
