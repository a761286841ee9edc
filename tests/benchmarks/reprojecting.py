"""Moving stored vectors into the new space, against embedding images once more: with ResNet-18, as the paper would, and
with what serves, the net in ONNX Runtime with as many images as it takes at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from service.serving.engine import AT_ONCE, INPUT, OUTPUT, OnnxEngine
from tests.benchmarks.inputs import jpegs, unit_vectors
from tests.benchmarks.measure import Contest, Contestant, Duel, repeat
from zstci._torchvision_ops import make_torchvision_importable
from zstci.config import InputConfig, TranslatorConfig, preset
from zstci.nets import EmbeddingNet, build_net
from zstci.progress import Watch
from zstci.prototypes import Prototypes
from zstci.translators import Pairs, fit_translator

__all__ = ["reprojecting"]

_DIM, _STORED, _BATCH = 512, 20_000, 32
_TARGETS = {"linear": 1000, "zstci": 1000, "sdc": None}


def reprojecting(folder: Path, quick: bool) -> Contest:
    seconds = 0.5 if quick else 1.0
    contestants: dict[str, Contestant] = {}
    for name in _TARGETS:
        contestants[name] = repeat(_translate(name), _STORED, seconds)
    net, files = _resnet18(), jpegs(folder, _BATCH)
    pixels = torch.randn(_BATCH, 3, 224, 224).contiguous(memory_format=torch.channels_last)

    def decode_and_embed() -> object:
        decoded = files.plain(torch.arange(_BATCH), InputConfig())
        return net((decoded.float() / 255).contiguous(memory_format=torch.channels_last))

    contestants["ResNet-18"] = repeat(_without_gradients(lambda: net(pixels)), _BATCH, seconds)
    contestants["JPEG + ResNet-18"] = repeat(_without_gradients(decode_and_embed), _BATCH, seconds)
    duels = [Duel(f"{name}, {_DIM} wide", name, "ResNet-18", "vectors", target) for name, target in _TARGETS.items()]
    duels += [Duel(f"{name}, JPEG decoded", name, "JPEG + ResNet-18", "vectors") for name in _TARGETS]
    duels += _against_onnx(folder, seconds, contestants)
    return Contest("Re-projecting vectors over re-embedding images", contestants, tuple(duels))


def _against_onnx(folder: Path, seconds: float, contestants: dict[str, Contestant]) -> list[Duel]:
    """Also of the default net, whose vectors are wider. No images are decoded here."""
    duels = []
    for backbone in ("resnet18", "efficientnet_lite0"):
        config = preset("default").override(**{"net.backbone": backbone, "net.weights": "none"})
        net = build_net(config.net, config.seed).eval()
        wide, baseline = net.dim, f"{backbone} in ONNX, {AT_ONCE} at once"
        contestants[baseline] = repeat(_in_onnx(net, folder / f"{backbone}.onnx"), AT_ONCE, seconds)
        for name in ("linear", "zstci"):
            contestants.setdefault(f"{name}, {wide}", repeat(_translate(name, wide), _STORED, seconds))
            title = f"{name}, {wide} wide, {baseline}"
            duels.append(Duel(title, f"{name}, {wide}", baseline, "vectors", _TARGETS[name]))
    return duels


def _in_onnx(net: EmbeddingNet, path: Path) -> Callable[[], object]:
    size = InputConfig().size
    pixels = torch.randint(0, 256, (AT_ONCE, 3, size, size), dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tracing is old; the service traces too
        torch.onnx.export(net, (pixels,), path, dynamo=False, input_names=[INPUT], output_names=[OUTPUT])
    engine, images = OnnxEngine(path), pixels.numpy()
    return lambda: engine.embed(images)


def _translate(name: str, dim: int = _DIM) -> Callable[[], object]:
    """What an update does with its prototypes, by a translator fitted on a task of 10 classes of 500 images."""
    old = unit_vectors(5000, dim)
    new = old + 0.1 * unit_vectors(5000, dim, seed=1)
    pairs = Pairs(old, new, torch.arange(10).repeat_interleave(500), unit_vectors(100, dim, seed=2))
    fitted = fit_translator(name, pairs, TranslatorConfig(epochs=1), "bench", Watch())
    counts = torch.ones(_STORED, dtype=torch.int64)
    ids = tuple(str(number) for number in range(_STORED))
    stored = Prototypes(ids, unit_vectors(_STORED, dim, seed=3), counts, torch.zeros_like(counts))
    return _without_gradients(lambda: stored.mapped(fitted.old))


def _without_gradients(work: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return work()

    return run


def _resnet18() -> Callable[[Tensor], Tensor]:
    make_torchvision_importable()
    from torchvision import models

    net: Callable[[Tensor], Tensor] = models.resnet18(weights=None).eval().to(memory_format=torch.channels_last)
    return net
