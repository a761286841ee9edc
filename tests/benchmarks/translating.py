"""For information: what fitting a translator and a metric costs, beside the least that it could."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from tests.benchmarks.inputs import unit_vectors
from tests.benchmarks.measure import Contest, Contestant, Duel, Lap, Stopwatch, repeat
from zstci.classifiers import Scatter, fit_metric
from zstci.config import TranslatorConfig
from zstci.progress import Progress, Watch
from zstci.seeds import deterministic
from zstci.translators import Pairs, Residual, fit_translator

__all__ = ["fitting", "sdc", "translator_steps"]

_DIM = 512
_CLASSES, _PER_CLASS = 10, 500


def translator_steps(folder: Path, quick: bool) -> Contest:
    config = TranslatorConfig(epochs=3 if quick else 4)
    contestants = {"zstci": _training(config), "bare": _bare_training(config, 40 * (config.epochs - 1))}
    duel = Duel("zstci translator, batch 128", "zstci", "bare", "steps")
    return Contest("Translator training over a bare loop, for information", contestants, (duel,))


def sdc(folder: Path, quick: bool) -> Contest:
    """As many prototypes and images as a double loop stands."""
    images, prototypes = unit_vectors(500, _DIM), unit_vectors(20, _DIM, seed=1)
    drift = 0.1 * unit_vectors(500, _DIM, seed=2)
    config = TranslatorConfig()
    pairs = Pairs(images, images + drift, torch.zeros(500, dtype=torch.int64), prototypes)
    fast = fit_translator("sdc", pairs, config, "bench", Watch()).old
    slow = sdc_by_double_loop(prototypes, images, drift, config.sigma)
    assert torch.allclose(fast(prototypes), slow, atol=1e-5)
    seconds = 0.3 if quick else 0.6
    contestants = {
        "sdc": repeat(lambda: fast(prototypes), len(prototypes), seconds),
        "double loop": repeat(
            lambda: sdc_by_double_loop(prototypes, images, drift, config.sigma), len(prototypes), seconds
        ),
    }
    duel = Duel("20 prototypes, 500 images, dim 512", "sdc", "double loop", "vectors")
    return Contest("SDC over a double loop, for information", contestants, (duel,))


def fitting(folder: Path, quick: bool) -> Contest:
    """`whitened` beside the textbook way to the same distances; `auto` beside one of its candidates."""
    seconds = 0.3 if quick else 0.6
    contestants: dict[str, Contestant] = {}
    duels = []
    for dim in (512, 1280):
        scatter = Scatter.empty(dim).grown(*_clouds(dim))
        contestants[f"whitened {dim}"] = repeat(partial(fit_metric, "whitened", scatter, 1.0), 1, seconds)
        contestants[f"eigenvectors {dim}"] = repeat(partial(whiten_by_eigenvectors, scatter, 1.0), 1, seconds)
        duels.append(
            Duel(f"whitened over an eigendecomposition, D = {dim}", f"whitened {dim}", f"eigenvectors {dim}", "fits")
        )
    pairs = _pairs()
    for name in ("auto", "linear"):
        contestants[name] = repeat(
            partial(fit_translator, name, pairs, TranslatorConfig(), "bench", Watch()), 1, seconds
        )
    duels.append(Duel("auto over one linear fit, 10 x 500 images, D = 512", "auto", "linear", "fits"))
    return Contest("Closed-form fits, for information", contestants, tuple(duels), most_rounds=7)


def sdc_by_double_loop(prototypes: Tensor, images: Tensor, drift: Tensor, sigma: float) -> Tensor:
    moved = []
    for prototype in prototypes:
        total, shift = torch.zeros(()), torch.zeros_like(prototype)
        for image, step in zip(images, drift, strict=True):
            weight = torch.exp(-(prototype - image).square().sum() / (2 * sigma**2))
            total, shift = total + weight, shift + weight * step
        moved.append(prototype + shift / total)
    return torch.stack(moved)


def whiten_by_eigenvectors(scatter: Scatter, shrinkage: float) -> Tensor:
    """The symmetric root of the same inverse: other coordinates, the same distances as `whitened`."""
    covariance = scatter.matrix.double() / scatter.freedom
    level = covariance.diagonal().mean()
    values, vectors = torch.linalg.eigh(covariance)
    scale = (values.clamp_min(0) + shrinkage * level).rsqrt()
    root: Tensor = (vectors * scale * level.sqrt()) @ vectors.T
    return root.float()


def _training(config: TranslatorConfig) -> Contestant:
    """From the end of the first epoch to the end of the last, as in fine-tuning."""
    pairs = _pairs()
    steps = (config.epochs - 1) * -(-len(pairs.old) // config.batch_size)

    def lap(watch: Stopwatch) -> Lap:
        done: list[Lap] = []

        def after_each_epoch(progress: Progress) -> None:
            if progress.epoch == 1:
                watch.start()
            elif progress.epoch == progress.epochs:
                done.append(watch.stop(steps))

        with deterministic():
            fit_translator("zstci", pairs, config, "bench", Watch(after_each_epoch))
        return done[0]

    return lap


def _bare_training(config: TranslatorConfig, steps: int) -> Contestant:
    """The two nets pulled together on one ready batch; no triplets, no batches to draw."""

    def lap(watch: Stopwatch) -> Lap:
        old, new = Residual(_DIM, config.hidden), Residual(_DIM, config.hidden)
        optimizer = torch.optim.Adam([*old.parameters(), *new.parameters()], lr=config.lr, fused=True)
        before, after = unit_vectors(config.batch_size, _DIM), unit_vectors(config.batch_size, _DIM, seed=1)
        for step in range(-2, steps):
            if step == 0:
                watch.start()
            optimizer.zero_grad()
            loss = (old(before) - new(after)).abs().sum()
            loss.backward()
            optimizer.step()
        return watch.stop(steps)

    return lap


def _pairs() -> Pairs:
    vectors, targets, _ = _clouds(_DIM)
    drifted = vectors + 0.1 * unit_vectors(len(vectors), _DIM, seed=5)
    return Pairs(vectors, drifted, targets, unit_vectors(50, _DIM, seed=6))


def _clouds(dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Samples around the mean of their class, their classes, and the means."""
    means, targets = unit_vectors(_CLASSES, dim, seed=3), torch.arange(_CLASSES).repeat_interleave(_PER_CLASS)
    return means[targets] + 0.5 * unit_vectors(len(targets), dim, seed=4), targets, means
