"""kill -9 of an API process: what was acknowledged is there, what was not leaves nothing, and it soon answers again."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from tests.faults.conftest import Tell
from tests.pictures import archive, picture
from tests.processes import NET, PATIENCE, Program, Service, wait_until

pytestmark = pytest.mark.slow

PORTABLE = ["sqlite", pytest.param("postgres", marks=pytest.mark.faults)]


@pytest.mark.parametrize("database_url", PORTABLE, indirect=True)
def test_an_update_that_is_stored_but_not_queued_is_run(service: Service, wrapped: Program, tell: Tell) -> None:
    api = service.serve("api", wrapped, FAULT="row_stored:kill")
    with pytest.raises(httpx.TransportError):
        api.add(archive([0, 1], count=4), **NET)
    assert api.process.wait(PATIENCE) == -signal.SIGKILL

    again = service.serve("api")
    [stored] = again.get("/v1/updates")["data"]
    assert stored["state"] == "queued"
    service.worker()
    assert again.ended(stored["id"])["state"] == "succeeded"
    assert service.images_left() == []
    tell("API: kill -9 between row and job", "the worker finds the row and runs it")


@pytest.mark.parametrize("database_url", PORTABLE, indirect=True)
def test_an_api_killed_while_it_swaps_answers_from_the_new_version(
    service: Service, wrapped: Program, tell: Tell
) -> None:
    api, _ = service.serve("api", wrapped, FAULT="swap:kill"), service.worker()
    api.learn(archive([0, 1], count=4), **NET)
    api.add(archive([2], count=4))
    assert api.process.wait(PATIENCE) == -signal.SIGKILL

    started = time.monotonic()
    again = service.serve("api")
    [answer] = again.post("/v1/classify", 200, content=picture(2, 50))["data"]
    seconds = time.monotonic() - started
    assert answer["version"] == 2
    assert seconds < 30, "a process must answer again within seconds"
    tell("API: kill -9 while it loads a new version", f"a new process answers from it {seconds:.1f} s after its start")


@pytest.mark.faults
def test_an_upload_that_was_stored_without_a_row_is_cleared(service: Service, wrapped: Program, tell: Tell) -> None:
    api = service.serve("api", wrapped, FAULT="upload_stored:kill")
    with pytest.raises(httpx.TransportError):
        api.add(archive([0, 1], count=4), **NET)
    assert api.process.wait(PATIENCE) == -signal.SIGKILL
    assert service.images_left()

    again = service.serve("api")
    assert again.get("/v1/updates")["data"] == []
    service.worker(wrapped)  # with less patience for files without a row
    wait_until(lambda: service.images_left() == [])
    again.learn(archive([0, 1], count=4), **NET)
    tell("API: kill -9 between upload and row", "never acknowledged: no update, its images are swept away")


@pytest.mark.faults
@pytest.mark.parametrize("point", ["copied", "purging"])
def test_what_was_half_copied_or_half_deleted_between_two_disks_is_cleared(
    service: Service, wrapped: Program, tell: Tell, point: str
) -> None:
    """As in containers, where /data and /artifacts are mounted apart: a rename is a copy there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        if os.stat(other).st_dev == os.stat(service.home.parent).st_dev:
            pytest.skip("/dev/shm and the temporary folder are one disk")
        apart = {"ZSTCI_ARTIFACTS_URL": other}
        api = service.serve("api", wrapped, FAULT=f"{'copied' if point == 'copied' else 'upload_stored'}:kill", **apart)
        with pytest.raises(httpx.TransportError):
            api.add(archive([0, 1], count=4), **NET)
        api.process.wait(PATIENCE)
        if point == "purging":  # the sweeper finds it whole, and dies while it deletes it
            dying = service.worker(wrapped, FAULT="purging:kill", **apart)
            assert dying.wait(PATIENCE) == -signal.SIGKILL
        uploads = Path(other, "uploads")
        [half] = uploads.iterdir()
        assert half.name.startswith("."), "hidden, as everything that is not whole"
        assert list(half.glob("images/*"))

        again = service.serve("api", **apart)
        service.worker(wrapped, **apart)
        wait_until(lambda: list(uploads.iterdir()) == [] and service.images_left() == [])
        again.learn(archive([0, 1], count=4), **NET)
    what = {
        "copied": "API: kill -9 while an upload is copied to another disk",
        "purging": "worker: kill -9 half way through deleting an upload without a row",
    }
    tell(what[point], "never acknowledged: the hidden half is swept away")


@pytest.mark.faults
def test_an_upload_that_was_coming_in_is_cleared(service: Service, tell: Tell) -> None:
    api = service.serve("api")
    sent = httpx.Request("POST", api.http.base_url, files={"archive": ("a.tar", archive([0, 1], 200, size=32))})
    head = f"POST /v1/updates HTTP/1.1\r\nHost: localhost\r\nContent-Type: {sent.headers['Content-Type']}\r\n"
    body = sent.read()
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2])
        wait_until(service.images_left)
        api.process.kill()
        api.process.wait()
    assert service.images_left()

    again = service.serve("api")
    assert service.images_left() == []
    assert again.get("/v1/updates")["data"] == []
    tell("API: kill -9 during an upload", "the next process clears the half upload before it answers; no update")
