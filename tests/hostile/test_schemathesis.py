"""Requests made up from the API's own description, right and wrong ones: no answer may surprise its reader."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.hostile.conftest import left_behind
from tests.processes import COMMAND, Api, Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("schemathesis.toml")
SEED, PER_OPERATION, AT_LEAST = 20261118, 75, 2000


def test_generated_requests_get_only_documented_answers_and_leave_nothing_behind(
    service: Service, api: Api, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    run = subprocess.run(
        [
            *(COMMAND.with_name("schemathesis"), "--config-file", CONFIG, "run", f"{api.http.base_url}/openapi.json"),
            *("--checks", "all", "--seed", str(SEED), "--max-examples", str(PER_OPERATION)),
            *("--generation-database", "none", "--no-color", "--continue-on-failure"),
            *("--report", "json", "--report-json-path", report),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis")},
        capture_output=True,
        text=True,
        timeout=800,
    )

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2000:]
    found = json.loads(report.read_text())
    print(f"\nschemathesis: {found['test_cases']['generated']} cases, {found['running_time']:.0f} s, seed {SEED}")
    assert found["operations"]["tested"] == found["operations"]["total"]
    assert found["test_cases"]["generated"] >= AT_LEAST
    assert api.http.get("/readyz").status_code == 200
    assert "Traceback" not in api.log.read_text()
    assert left_behind(service, api) == []
