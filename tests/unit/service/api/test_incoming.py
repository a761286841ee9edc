"""The folder of an upload that comes in is gone when its request ends, however it ends."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.api import incoming as module
from service.api.incoming import Incoming
from service.app import create_app
from tests.local import local_client
from tests.unit.service.api.sending import NEW, send

ROOT = Path(__file__).parents[4]


def work(settings) -> list[Path]:
    return list((settings.home / "work").iterdir())


def test_the_folder_is_there_during_the_request_and_gone_afterwards(settings):
    async def request() -> None:
        async with Incoming(settings).folder() as folder:
            (folder / "000001").write_bytes(b"image")
            assert sorted(work(settings)) == [folder, folder.with_suffix(".lock")]

    (settings.home / "work").mkdir(exist_ok=True)
    asyncio.run(request())
    assert work(settings) == []


def test_the_folder_is_gone_after_an_error_and_after_a_cancelled_request(settings):
    async def broken() -> None:
        async with Incoming(settings).folder():
            raise RuntimeError

    async def cancelled() -> None:
        async def endless() -> None:
            async with Incoming(settings).folder():
                await asyncio.sleep(60)

        task = asyncio.create_task(endless())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with pytest.raises(RuntimeError):
        asyncio.run(broken())
    asyncio.run(cancelled())
    assert work(settings) == []


def test_the_end_of_the_process_waits_for_folders_whose_requests_are_cut_off(settings, monkeypatch):
    incoming = Incoming(settings)

    def slowly(folder: Path) -> None:
        time.sleep(0.3)
        clear(folder)

    async def cut_off() -> None:
        async def endless() -> None:
            async with incoming.folder():
                await asyncio.sleep(60)

        task = asyncio.create_task(endless())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # also while it clears
        await incoming.all_gone()
        assert work(settings) == []

    clear = module._clear
    monkeypatch.setattr(module, "_clear", slowly)
    asyncio.run(cut_off())


def test_folders_in_use_are_left_alone(settings):
    async def request() -> None:
        async with Incoming(settings).folder() as folder:
            Incoming(settings).clear_leftovers()
            assert folder.is_dir()

    asyncio.run(request())


_KILLED = """
import asyncio, os, signal
from pathlib import Path
from service.api.incoming import Incoming
from service.config import Settings

async def request():
    async with Incoming(Settings(home=Path({home!r}))).folder() as folder:
        (folder / "000001").write_bytes(b"image")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(request())
"""


def test_what_a_killed_process_left_is_cleared_by_the_next_start(settings):
    code = _KILLED.format(home=str(settings.home))
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == -9
    assert [path.suffix for path in sorted(work(settings))] == ["", ".lock"]

    with local_client(create_app(settings)):
        assert work(settings) == []


def test_a_folder_that_was_half_deleted_is_cleared_whatever_went_first(settings):
    for name in ("incoming-1", "incoming-2"):
        (settings.home / "work" / name).mkdir(parents=True)
        (settings.home / "work" / name / "000001").write_bytes(b"image")
    stray, fresh = settings.home / "work" / "incoming-3.lock", settings.home / "work" / "incoming-4.lock"
    for lock in (settings.home / "work" / "incoming-2.lock", stray, fresh):
        lock.touch()
    os.utime(stray, (0, 0))

    Incoming(settings).clear_leftovers()
    assert work(settings) == [fresh], "its folder may come in a moment"


def test_work_of_others_is_not_cleared(settings):
    other = settings.home / "work" / "some-update"
    other.mkdir(parents=True)
    Incoming(settings).clear_leftovers()

    assert work(settings) == [other]


@pytest.mark.parametrize("entries", [NEW, {"no-folder.png": b"x"}])
def test_a_request_leaves_nothing_in_the_work_folder(client, settings, entries):
    send(client, entries)

    assert work(settings) == []
