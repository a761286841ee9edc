"""Commands as a shell runs them, on real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from service.client import AsyncClient
from service.errors import ClassExists
from tests.pictures import TINY, TINY_OPTIONS, save_digits
from tests.processes import COMMAND, PATIENCE, Service, wait_until

pytestmark = pytest.mark.slow

WIDE = 15.0  # points that old classes lose without translation: less says nothing, with so few images


@pytest.fixture
def kept_demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """With few images, so that it takes little time; with as many as it takes itself, it is in the README."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZSTCI_")}
    words = [
        COMMAND,
        "demo",
        "--data",
        "digits",
        "--images",
        "10",
        "--keep",
        "--json",
        "--out",
        tmp_path / "plots",
        "--home",
        tmp_path / "demo",
    ]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([str(word) for word in words], env=environment, **pipes)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.timeout(900)
def test_the_demo_tells_its_story_and_stays_until_ctrl_c(kept_demo: subprocess.Popen[str], tmp_path: Path) -> None:
    [story] = _document(kept_demo)["stories"]
    assert _check(story, 10) > WIDE, "digits are there to show what is lost"
    processes = _below(kept_demo.pid)
    assert len(processes) == 3, "a service with an API and a worker"

    kept_demo.send_signal(signal.SIGINT)
    assert kept_demo.wait(PATIENCE) == 0
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))


def _check(story: Any, classes: int) -> float:
    """How much the old classes lost without translation."""
    rows = [(row["update"], row["translator"], row["version"]) for row in story["rows"]]
    assert rows == [(1, "auto", 1), (2, "none", 2), (3, "none", 3), (2, "auto", 4), (3, "auto", 5)]
    first, _, without, _, translated = story["rows"]
    assert first["old"] is None
    gap: float = first["new"] - without["old"]
    if gap > WIDE:
        assert translated["old"] > without["old"]
    assert Path(story["plot"]).read_bytes().startswith(b"\x89PNG")

    versions = httpx.get(f"{story['url']}/v1/versions").json()
    assert (versions["active"], [v["parent"] for v in versions["data"]]) == (5, [4, 1, 2, 1, None])
    assert len(httpx.get(f"{story['url']}/v1/classes").json()["data"]) == classes
    return gap


def _document(process: subprocess.Popen[str]) -> Any:
    """The first JSON document, from a process that does not end."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            return json.loads("".join(lines))
    raise AssertionError(process.communicate()[1])


def _below(pid: int) -> list[int]:
    """Its services and what they run."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return found + [child for child, parent in parents.items() if parent in found]


def test_doctor_sees_a_service_that_runs_and_bench_measures_it(sqlite_service: Service, tmp_path: Path) -> None:
    api = sqlite_service.serve()
    here: Any = {"ZSTCI_PORT": str(api.port), "ZSTCI_URL": f"http://127.0.0.1:{api.port}"}
    assert "no classes yet" in sqlite_service.run("bench", code=2, **here)[1]
    checks = json.loads(sqlite_service.run("doctor", "--json", **here)[0])["checks"]
    assert {check["name"]: check["state"] for check in checks}["migrations"] == "ok"
    assert "it cannot answer queries yet" in checks[-1]["detail"]

    folder = save_digits(tmp_path / "digits", [0, 1], count=6)
    learnt = json.loads(sqlite_service.run("add", folder, "--json", *TINY_OPTIONS, **here)[0])
    wait_until(lambda: api.version() == learnt["version"])
    found = json.loads(sqlite_service.run("bench", "--seconds", "1", "--clients", "2", "--json", **here)[0])
    assert (found["refused"], found["versions"]) == ({}, [1])
    assert found["answers"] > 0


def test_the_asynchronous_client_adds_watches_and_asks(sqlite_service: Service, tmp_path: Path) -> None:
    api = sqlite_service.serve()
    folder = save_digits(tmp_path / "digits", [0, 1], count=6)

    async def story() -> None:
        async with AsyncClient(f"http://127.0.0.1:{api.port}") as client:
            assert await client.ready() is None
            update = await client.add(folder, overrides=TINY)
            kinds = [event.kind async for event in update.events()]
            assert (kinds[0], kinds[-1]) == ("state", "done")
            assert (await update.wait()).version == 1
            while (ready := await client.ready()) is None or ready.version != 1:
                await anyio.sleep(0.05)
            paths = sorted(folder.rglob("*.png"))
            assert [answer.version for answer in await client.classify(paths, k=1)] == [1] * 12
            assert (await client.embed(paths)).dim == TINY["net.dim"]
            with pytest.raises(ClassExists):
                await client.add(folder)

    anyio.run(story)
