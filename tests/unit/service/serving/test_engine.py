import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from service.errors import CorruptBundle
from service.serving import export as exporting
from service.serving.engine import OnnxEngine, Pixels
from service.serving.export import export
from service.serving.torch_engine import TorchEngine
from tests.unit.service.serving.learnt import KINDS, learnt
from zstci import Snapshot
from zstci.nets import EmbeddingNet


def noise(count: int) -> Pixels:
    return np.random.default_rng(count).integers(0, 256, (count, 3, 8, 8), dtype=np.uint8)


def with_trunk(layer: nn.Module) -> Snapshot:
    """A snapshot whose net does something of its own before everything else."""
    snapshot = learnt("ncm")
    net = snapshot.net
    changed = EmbeddingNet(nn.Sequential(layer, net.trunk), net.head, net.mean, net.std)
    return replace(snapshot, net=changed.eval().requires_grad_(False))


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_answers_like_torch(tmp_path, kind, count):
    snapshot, pixels = learnt(kind), noise(count)
    assert export(snapshot, tmp_path / "engine.onnx") == "onnx"

    found = OnnxEngine(tmp_path / "engine.onnx").embed(pixels)

    assert (str(found.dtype), found.shape) == ("float32", (count, 16))
    expected = snapshot.memory.common(snapshot.net(torch.from_numpy(pixels))).numpy()
    assert np.allclose(found, TorchEngine(snapshot).embed(pixels), atol=1e-5)
    assert np.allclose(found, expected, atol=1e-5)


def test_the_kinds_are_what_they_say():
    # Otherwise the tests above would compare less than they seem to.
    assert learnt("ncm").memory.metric is None
    assert learnt("whitened").memory.metric is not None
    assert learnt("zstci").memory.query is not None


@pytest.mark.slow
def test_both_exporters_give_the_same_answers(tmp_path):
    snapshot, found = learnt("zstci"), []
    for name, write in exporting._EXPORTERS.items():
        with exporting._quiet():
            write(exporting._ToCommonSpace(snapshot).eval(), torch.from_numpy(noise(2)), tmp_path / name, lambda: None)
        found.append(OnnxEngine(tmp_path / name).embed(noise(11)))

    assert np.allclose(found[0], found[1], atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(exporting._EXPORTERS)  # no data beside the file


def test_many_threads_share_one_engine(tmp_path):
    export(learnt("zstci"), tmp_path / "engine.onnx")
    shared = OnnxEngine(tmp_path / "engine.onnx")
    batches = [noise(count) for count in range(1, 17)]
    expected = [shared.embed(batch) for batch in batches]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(shared.embed, batches * 5))

    assert all(np.array_equal(one, other) for one, other in zip(found, expected * 5, strict=True))


def test_exporting_is_silent(tmp_path, capfd, caplog):
    with caplog.at_level(logging.DEBUG, "service"):
        export(learnt("ncm"), tmp_path / "engine.onnx")

    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


class Dice(nn.Module):
    """Answers otherwise each time, so no export can be like it."""

    def forward(self, images: Tensor) -> Tensor:
        return images + 10 * torch.rand_like(images)


class Moody(nn.Module):
    """Looks at the images to choose what to do, though not at any that the check would send."""

    def forward(self, images: Tensor) -> Tensor:
        return -images if images.amax() > 1e6 else images


class Detour(nn.Module):
    """Leaves torch on its way, where a trace cannot follow."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.from_numpy(images.numpy() * 2)


@pytest.mark.slow
def test_what_a_trace_cannot_follow_is_captured(tmp_path):
    snapshot = with_trunk(Detour())
    assert export(snapshot, tmp_path / "engine.onnx") == "onnx"

    assert np.allclose(
        OnnxEngine(tmp_path / "engine.onnx").embed(noise(5)), TorchEngine(snapshot).embed(noise(5)), atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("layer", [Dice(), Moody()], ids=["by chance", "by its input"])
def test_a_net_that_onnx_gets_wrong_is_served_by_torch(tmp_path, caplog, layer):
    assert export(with_trunk(layer), tmp_path / "engine.onnx") == "torch"

    [record] = [record for record in caplog.records if record.name.startswith("service")]
    assert record.action == "engine_not_exported"
    assert "trace: " in record.reason
    assert "capture: " in record.reason
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_onnx_is_refused(tmp_path):
    (tmp_path / "engine.onnx").write_bytes(b"hello")

    with pytest.raises(
        CorruptBundle, match=r"engine.onnx cannot be opened by ONNX Runtime .* activate another version"
    ):
        OnnxEngine(tmp_path / "engine.onnx")


def test_torch_in_batches_answers_everybody_with_their_own_vectors():
    """As on a GPU, computed here."""
    alone, batched = TorchEngine(learnt("zstci")), TorchEngine(learnt("zstci"), in_batches=True)
    images = noise(12)
    with ThreadPoolExecutor(batched.together) as pool:
        found = list(pool.map(batched.embed, np.split(images, 6)))

    assert (alone.together, batched.together) == (1, 32)
    assert np.allclose(np.concatenate(found), alone.embed(images), atol=1e-5)
