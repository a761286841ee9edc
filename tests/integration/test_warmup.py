"""The warm-up of CIFAR-100: the published one where it is at hand, else one of our own, and the report says which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.pictures import save_digits
from zstci import ImageArrays, TaskData
from zstci.config import preset
from zstci.nets import build_net
from zstci.reproduce import make_plan, write_report
from zstci.reproduce.run import Result
from zstci.reproduce.warmup import WARM_FILE, warm_weights
from zstci.resnet32 import ResNet32
from zstci.streams import Stream, load_stream

CONFIG = preset("paper-cifar100")


@pytest.fixture(autouse=True)
def without_shared_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZSTCI_DATA", raising=False)


def hundred_classes() -> Stream:
    """As CIFAR-100 has, two blank images each."""
    labels = tuple(str(n) for n in range(100) for _ in range(2))
    task = TaskData(ImageArrays(np.zeros((200, 32, 32, 3), np.uint8)), labels)
    return Stream((task,), (task,))


def published(folder: Path) -> Path:
    path = folder / "weights" / WARM_FILE
    path.parent.mkdir(parents=True)
    save_file({name: torch.full_like(value, 0.25) for name, value in ResNet32().state_dict().items()}, path)
    return path


def test_a_warm_up_learns_and_the_next_run_starts_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("train", "test"):
        save_digits(tmp_path / part, range(4), count=6, size=32)
    stream = load_stream("cifar100", tmp_path, tasks=2, seed=1993)

    warmup = warm_weights(stream, CONFIG, tmp_path, epochs=2)

    assert "training a warm-up of our own, 2 epochs" in capsys.readouterr().err
    written = warmup.path.rename(warmup.path.with_name("kept")).read_bytes()
    assert warm_weights(stream, CONFIG, tmp_path, epochs=2).path.read_bytes() == written
    assert warm_weights(stream, CONFIG.override(seed=7), tmp_path, epochs=2).path != warmup.path
    warm = build_net(CONFIG.override(**{"net.weights": str(warmup.path.with_name("kept"))}).net, 1993)
    cold = build_net(CONFIG.net, 1993)
    warm_weight, cold_weight = (net.state_dict()["trunk.conv1.weight"] for net in (warm, cold))
    assert not torch.equal(warm_weight, cold_weight)
    assert torch.equal(warm.head.weight, cold.head.weight)


@pytest.mark.parametrize("given", [".", "cifar100"], ids=["in the folder", "beside it"])
def test_the_published_warm_up_is_found_in_and_beside_the_data(tmp_path: Path, given: str) -> None:
    path = published(tmp_path)
    data = tmp_path / given
    data.mkdir(exist_ok=True)

    warmup = warm_weights(hundred_classes(), CONFIG, tmp_path / "out", data)

    assert warmup.path.resolve() == path.resolve()
    assert warmup.source == f"published warm-up {WARM_FILE}"
    net = build_net(CONFIG.override(**{"net.weights": str(warmup.path)}).net, 1993)
    assert net.state_dict()["trunk.conv1.weight"].eq(0.25).all()


def test_the_published_warm_up_is_not_taken_for_other_classes(tmp_path: Path) -> None:
    path = published(tmp_path)
    for part in ("train", "test"):
        save_digits(tmp_path / part, range(2), count=4, size=32)
    stream = load_stream("cifar100", tmp_path, tasks=1, seed=1993)

    assert warm_weights(stream, CONFIG, tmp_path / "out", tmp_path, epochs=1).path != path


def test_the_report_names_the_warm_up(tmp_path: Path) -> None:
    for part in ("train", "test"):
        save_digits(tmp_path / part, range(2), count=2, size=32)

    plan = make_plan("cifar100", regularizers=["lwf"], rows=["none"], data=tmp_path, tasks=1, out=tmp_path)

    text = write_report(plan, [Result("lwf", "none", "ncm", ((50.0,),))])
    start = build_net(plan.regularizers[0].config.net, 1993)

    cold = build_net(CONFIG.net, 1993)
    assert not torch.equal(start.state_dict()["trunk.conv1.weight"], cold.state_dict()["trunk.conv1.weight"])
    assert "warm start (own warm-up, 60 epochs)" in text.splitlines()[0]
