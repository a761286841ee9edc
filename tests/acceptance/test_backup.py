"""A copy that was made while the service ran serves: of the database first, of the files after it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import fresh_database
from tests.pictures import archive, picture
from tests.processes import COMMAND, LONG, NET, Api, Service, wait_until

pytestmark = pytest.mark.slow

README = (Path(__file__).parents[2] / "README.md").read_text()
[AS_WRITTEN] = re.findall(
    r"(?:^    .*\n)+", README.partition("### Backup and restore\n")[2].partition("\n## ")[0], re.M
)


@pytest.fixture
def restored() -> Iterator[list[Service]]:
    """Services and their copies, ended with the test."""
    services: list[Service] = []
    yield services
    for service in services:
        service.end()


def answers(api: Api) -> list[object]:
    return [api.post("/v1/classify?top_k=10", 200, content=picture(digit, 50))["data"] for digit in range(4)]


def in_one_folder(home: Path) -> Service:
    return Service(home, "")  # SQLite in the home, which is the default


def back_up(folder: Path) -> None:
    """The README's own words, from `zstci-data` to `copy`."""
    environment = {**os.environ, "PATH": f"{COMMAND.parent}:/usr/bin:/bin"}
    subprocess.run(["bash", "-euc", AS_WRITTEN], cwd=folder, env=environment, check=True)


def test_a_copy_of_a_running_service_serves_and_learns_on(restored: list[Service], tmp_path: Path) -> None:
    service, copy = in_one_folder(tmp_path / "zstci-data"), in_one_folder(tmp_path / "copy")
    restored += [service, copy]
    api = service.serve()
    api.learn(archive([0, 1], count=6), **NET)
    api.learn(archive([2, 3], count=6))
    expected = answers(api)
    update = api.add(archive([4, 5], count=6), **LONG)
    wait_until(lambda: api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")
    back_up(tmp_path)

    again = copy.serve()
    wait_until(lambda: again.version() == 2)
    assert answers(again) == expected
    entry = again.ended(update)
    assert (entry["state"], entry["error"]["code"]) == ("failed", "bad_upload")
    assert "send them again" in entry["error"]["detail"], "images are not part of a copy"
    assert again.learn(archive([4, 5], count=6))["version"] == 3
    assert api.ended(update)["state"] == "succeeded", "the original is left alone"


def test_a_dump_of_postgres_and_a_copy_of_the_files_serve(postgres, restored: list[Service], tmp_path: Path) -> None:
    with fresh_database(postgres) as original, fresh_database(postgres) as empty:
        service = Service(tmp_path / "home", original)
        restored.append(service)
        service.run("migrate")
        api = service.serve()
        api.learn(archive([0, 1, 2, 3], count=6), **NET)
        expected = answers(api)
        dump = _postgres(postgres, "pg_dump", original)
        shutil.copytree(tmp_path / "home" / "files", tmp_path / "copy" / "files")

        _postgres(postgres, "psql", empty, "-v", "ON_ERROR_STOP=1", "-q", given=dump)
        copy = Service(tmp_path / "copy", empty)
        restored.append(copy)
        copy.run("migrate")  # nothing to do, and no harm
        again = copy.serve()
        wait_until(lambda: again.version() == 1)
        assert answers(again) == expected
        assert again.learn(archive([4], count=6))["version"] == 2
        for each in restored:
            each.end()


def _postgres(server, command: str, url: str, *arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run([server.bin_path / command, url, *arguments], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
