"""The product as its user has it: commands in a shell and HTTP to a running server."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from service.bootstrap import load_active
from service.config import Settings
from service.usecases.evaluate import evaluate
from tests.brute_force import distances_to
from tests.pictures import TINY_OPTIONS, picture, save_digits
from zstci import Snapshot, TaskData

pytestmark = pytest.mark.slow


def test_learn_twice_query_all_the_while_and_roll_back(zstci, server, wait_until, tmp_path):
    http = server.http
    unready = http.get("/readyz")
    assert (unready.status_code, unready.json()["code"]) == (503, "no_classes_yet")

    zstci.run("learn", save_digits(tmp_path / "a", [0, 1, 2]), *TINY_OPTIONS)
    wait_until(lambda: server.version() == 1)
    with querying(str(http.base_url), picture(1, 30)) as answers:
        # The net moves, so net, translator, prototypes and index must all change at once.
        second = save_digits(tmp_path / "b", [3, 4])
        zstci.run("learn", second, "--regularizer", "finetune", "--translator", "zstci", "--set", "train.epochs=2")
        wait_until(lambda: answers[-1]["version"] == 2)

    snapshots = {number: Snapshot.load(zstci.home / "versions" / str(number)) for number in (1, 2)}
    assert len(snapshots[2].prototypes) == 5
    assert {found["version"] for found in answers} == {1, 2}
    check(answers, snapshots, picture(1, 30), tmp_path)
    for digit in range(5):
        content = picture(digit, 40)
        check(http.post("/v1/classify", content=content).json()["data"], snapshots, content, tmp_path)

    late = http.post("/v1/versions/1/activate", headers={"If-Match": "1"})
    assert (late.status_code, late.json()["code"]) == (412, "version_changed")
    assert http.post("/v1/versions/1/activate", headers={"If-Match": "2"}).status_code == 200
    response = http.post("/v1/classify", content=picture(4), params={"top_k": 10})
    assert response.headers["X-Model-Version"] == "1"
    assert len(response.json()["data"][0]["predictions"]) == 3

    zstci.run("versions", "activate", 2)
    wait_until(lambda: server.version() == 2)
    assert "Application shutdown complete" in server.stop()


@contextmanager
def querying(url: str, content: bytes) -> Iterator[list[dict[str, Any]]]:
    """One client that asks without pause; every answer must be a good one."""
    answers: list[dict[str, Any]] = []
    failures: list[object] = []
    enough = Event()

    def ask() -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            while not enough.is_set():
                response = http.post("/v1/classify", content=content, params={"top_k": 10})
                if response.status_code == 200:
                    answers.extend(response.json()["data"])
                else:
                    failures.append(response.text)

    thread = Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        enough.set()
        thread.join()
    assert failures == []


def check(answers, snapshots, content, tmp_path):
    """Labels, distances and version belong together: brute force on the version that an answer names."""
    path = tmp_path / "query.png"
    path.write_bytes(content)
    expected = {number: distances_to(snapshot, path) for number, snapshot in snapshots.items()}
    for found in answers:
        distances = {entry["class_id"]: entry["distance"] for entry in found["predictions"]}
        truth = dict(list(expected[found["version"]].items())[: len(distances)])
        assert list(distances) == list(truth)
        assert distances == pytest.approx(truth, abs=1e-4)


def test_the_default_backbone_is_live_after_one_command(zstci, tmp_path):
    folder = save_digits(tmp_path / "images", [0, 1, 7], count=4, size=64)
    said, _ = zstci.run("learn", folder)

    assert said.startswith("version 1 is active: 3 classes, 3 of them new, from 12 images")
    live = load_active(Settings(home=zstci.home))
    assert live.snapshot.config.net.backbone == "efficientnet_lite0"
    unseen = TaskData.from_folder(save_digits(tmp_path / "unseen", [0, 1, 7], skip=4, size=64))
    assert evaluate(live, unseen).accuracy > 60  # a third by chance


def test_ctrl_c_stops_learning_and_the_same_command_goes_on(zstci, wait_until, tmp_path):
    folder = save_digits(tmp_path / "images", [0, 1])
    command = ["learn", folder, *TINY_OPTIONS, "--regularizer", "finetune", "--set", "train.epochs=1000000"]
    process = zstci.start(*command)
    checkpoint = zstci.home / "work" / "checkpoints" / "fine_tuning.safetensors"
    wait_until(checkpoint.exists)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()

    assert process.returncode == 130
    assert complaint.splitlines()[-1].endswith("give the same command again to go on from there")
    assert not (zstci.home / "versions").exists()
    # Only a run that goes on from this checkpoint can end soon.
    with safe_open(checkpoint, "pt") as stored:
        metadata = {**stored.metadata(), "epoch": "999999"}
    save_file(load_file(checkpoint), checkpoint, metadata)
    zstci.run(*command)
    assert (zstci.home / "active").read_text() == "1\n"
    assert not checkpoint.exists()


def test_an_error_is_one_line_without_a_trace(zstci, tmp_path):
    said, complaint = zstci.run("classes", code=2)

    assert (said, complaint) == ("", "zstci: no classes yet: run zstci learn DIR\n")
