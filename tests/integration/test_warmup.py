"""The warm-up of the published CIFAR-100 runs, trained by ourselves where the published file is not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.pictures import save_digits
from zstci.config import preset
from zstci.nets import build_net
from zstci.reproduce import make_plan, warmup
from zstci.reproduce.warmup import warm_weights
from zstci.streams import load_stream


def test_a_warm_up_learns_and_the_next_run_starts_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZSTCI_DATA", raising=False)
    for part in ("train", "test"):
        save_digits(tmp_path / part, range(4), count=6, size=32)
    stream = load_stream("cifar100", tmp_path, tasks=2, seed=1993)
    config = preset("paper-cifar100")

    monkeypatch.setattr(warmup, "_EPOCHS", 2)

    path = warm_weights(stream, config, tmp_path)

    written = path.read_bytes()
    path.unlink()
    assert warm_weights(stream, config, tmp_path).read_bytes() == written
    assert warm_weights(stream, config.override(seed=7), tmp_path) != path
    plan = make_plan("cifar100", regularizers=["lwf"], rows=["none"], data=tmp_path, tasks=2, out=tmp_path)
    warm = build_net(plan.regularizers[0].config.net, 1993)
    cold = build_net(config.net, 1993)
    warm_weight, cold_weight = (net.state_dict()["trunk.conv1.weight"] for net in (warm, cold))
    assert not torch.equal(warm_weight, cold_weight)
    assert torch.equal(warm.head.weight, cold.head.weight)
