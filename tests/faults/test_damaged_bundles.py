"""A file of the active version is altered, cut short or gone: it is refused, and the last good version answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import Tell
from tests.pictures import archive, picture
from tests.processes import NET, PATIENCE, Api, Service, wait_until

pytestmark = pytest.mark.slow


def altered(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # one bit
    path.write_bytes(content)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def missing(path: Path) -> None:
    path.unlink()


FIRST = [(altered, "engine.onnx"), (missing, "version.json")]
REST = [
    (damage, name)
    for name in (
        "engine.onnx",
        "index.faiss",
        "serving.safetensors",
        "snapshot.json",
        "training.safetensors",
        "classes.jsonl",
        "names.json",
        "version.json",
    )
    for damage in (altered, truncated, missing)
    if (damage, name) not in FIRST
]


def assert_answers_from_the_first(api: Api) -> None:
    """And says so."""
    assert api.version() == 1
    [answer] = api.post("/v1/classify", 200, content=picture(1, 50))["data"]
    assert answer["version"] == 1
    ready = api.get("/readyz", 503)
    assert ready["checks"]["database"]["ok"]
    assert not ready["checks"]["model"]["ok"]
    assert "version 2 cannot be loaded (A version's files are damaged)" in ready["checks"]["model"]["detail"]
    assert "/" not in ready["checks"]["model"]["detail"], "anybody may read it: no path of a file"
    assert "zstci_version_not_loaded 1.0" in api.http.get("/metrics").text


@pytest.mark.parametrize("damages", [FIRST, pytest.param(REST, marks=pytest.mark.faults)], ids=["first", "rest"])
def test_a_process_that_starts_on_a_damaged_version_answers_from_the_last_good_one(
    sqlite_service: Service, damages: list[tuple[object, str]], tell: Tell
) -> None:
    service = sqlite_service
    api, worker = service.serve("api"), service.worker()
    api.learn(archive([0, 1], count=4), **NET)
    api.learn(archive([2], count=4))
    worker.terminate()
    [folder] = [path.parent for path in service.home.glob("files/versions/*-1-*/version.json")]
    copy = shutil.copytree(folder, service.home.parent / "copy")

    for damage, name in damages:
        damage(folder / name)  # type: ignore[operator]
        [answer] = api.post("/v1/classify", 200, content=picture(1, 50))["data"]
        assert answer["version"] == 2, "what is loaded goes on"
        other = service.serve("api")
        assert_answers_from_the_first(other)
        said = [line for line in other.log.read_text().splitlines() if "version_not_loaded" in line]
        assert any(name in line or "version.json" in line for line in said)
        refused = other.http.post("/v1/versions/2/activate")
        assert (refused.status_code, refused.json()["code"]) == (503, "corrupt_bundle")
        other.process.terminate()
        other.process.wait(PATIENCE)
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        word = damage.__name__  # type: ignore[attr-defined]
        tell(f"active bundle: `{name}` {word}, API starts", "refused; version 1 answers; /readyz 503, metric 1")


@pytest.mark.faults
def test_a_running_process_refuses_a_damaged_version_and_takes_it_when_it_is_mended(
    service: Service, tell: Tell
) -> None:
    warm, _ = service.serve("api"), service.worker()
    warm.learn(archive([0, 1], count=4), **NET)
    warm.learn(archive([2], count=4))
    warm.post("/v1/versions/1/activate", 200)
    follower = service.serve("api")
    [path] = service.home.glob("files/versions/*-1-*/index.faiss")
    whole = path.read_bytes()
    altered(path)

    warm.post("/v1/versions/2/activate", 200)  # it has it in memory, the other one has not
    wait_until(lambda: follower.http.get("/readyz").status_code == 503)
    assert_answers_from_the_first(follower)
    failed = warm.ended(warm.add(archive([3], count=4)))
    assert (failed["state"], failed["error"]["code"]) == ("failed", "corrupt_bundle")
    assert service.images_left() == []

    path.write_bytes(whole)
    wait_until(lambda: follower.version() == 2)
    assert follower.http.get("/readyz").status_code == 200
    warm.learn(archive([3], count=4))
    tell(
        "active bundle: damaged, API follows",
        "refused, version 1 goes on; updates on top fail with the reason; taken when mended",
    )
