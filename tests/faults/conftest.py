"""Real processes, really killed. `make faults` runs everything here and writes results.md; `make test` the shortest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults import points
from tests.processes import Program

Tell = Callable[[str, str], None]
RESULTS = Path(__file__).with_name("results.md")
HEAD = "| Fault | Database | Outcome |\n|---|---|---|"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == RESULTS.parent:
            item.add_marker(pytest.mark.timeout(1800))  # many processes, one after the other
    if os.environ.get("FAULTS") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("faults")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def wrapped() -> Program:
    """The real command, struck where the variable FAULT says."""
    return (sys.executable, Path(str(points.__file__)))


@pytest.fixture
def tell(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Tell:
    """A row of the table: what was done, and what came of it."""
    kind = "Postgres" if "postgres" in request.node.name else "SQLite"

    def add(fault: str, outcome: str) -> None:
        record_property("fault", f"| {fault} | {kind} | {outcome} |")

    return add


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 64 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


class _Table:
    def __init__(self) -> None:
        self.rows: list[str] = []
        self._begun = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the process that gathers the reports of all others."""
        if report.when == "call" or report.outcome != "passed":
            self.rows += [str(value) for name, value in report.user_properties if name == "fault"]
            if report.outcome != "passed":
                self.rows.append(f"| {report.nodeid.rpartition('::')[2]} | | **{report.outcome}** |")

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        table = "\n".join([HEAD, *sorted(self.rows)])
        terminalreporter.section("faults tried")
        terminalreporter.write_line(table)
        if not _is_complete(config, exitstatus):
            terminalreporter.write_line(f"{RESULTS.name} is left as it was: this was a part of them only")
            return
        counts = {kind: len(terminalreporter.stats.get(kind, ())) for kind in ("passed", "failed", "error", "skipped")}
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        minutes = (time.monotonic() - self._begun) / 60
        when = datetime.now(UTC).date()
        head = f"Written by `make faults` on {when}: {len(self.rows)} rows, {told} tests, {minutes:.0f} minutes."
        RESULTS.write_text(f"# Faults tried, and what came of each\n\n{head}\n\n{table}\n")


def _is_complete(config: pytest.Config, exitstatus: int) -> bool:
    """All of them, to the end, whatever came of each."""
    chosen = config.option.keyword or config.option.markexpr or config.option.maxfail or config.option.deselect
    chosen = chosen or getattr(config.option, "lf", False)
    paths = {Path(argument).resolve() for argument in config.args}
    return not chosen and exitstatus in (0, 1) and bool(paths & {RESULTS.parent, *RESULTS.parents[1:3]})


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("FAULTS") == "all" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Table())
