"""How much of a training step is the net itself: `fine_tune` against a bare forward + backward + Adam loop."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from tests.benchmarks.inputs import jpegs, small_images
from tests.benchmarks.measure import Contest, Contestant, Duel, Lap, Stopwatch
from zstci.config import Config, preset
from zstci.data import Inputs
from zstci.nets import build_net, choose_trainable
from zstci.progress import Progress, Watch
from zstci.seeds import deterministic
from zstci.trainer import fine_tune, set_mode

__all__ = ["efficientnet", "resnet32"]

_TASK = 2  # the first with a past, so that lwf has something to hold on to
_CLASSES = 10  # of CIFAR-100 in ten tasks: two batches of 4 x 8 an epoch, so the cost of an epoch's start counts too
_RUN_IN = 2  # steps of the bare loop before its stopwatch starts; ours runs in for one epoch


def resnet32(folder: Path, quick: bool) -> Contest:
    inputs, targets = small_images(_CLASSES, 500)
    config = preset("paper-cifar100").override(**{"train.epochs": 5 if quick else 9})
    steps = (config.train.epochs - 1) * (_CLASSES // config.train.classes_per_batch)
    contestants: dict[str, Contestant] = {}
    duels = []
    for kind in ("finetune", "lwf"):
        chosen = config.override(regularizer=kind)
        contestants |= {f"zstci {kind}": _ours(chosen, inputs, targets), f"bare {kind}": _bare(chosen, steps)}
        title = f"{kind}, ResNet-32, 32 images of 32 x 32"
        duels.append(Duel(title, f"zstci {kind}", f"bare {kind}", "images", 0.85))
    return Contest("Fine-tuning over a bare loop", contestants, tuple(duels))


def efficientnet(folder: Path, quick: bool) -> Contest:
    """Few steps of a small batch: an image takes 0.1 seconds on one core. Images are decoded from JPEG files."""
    inputs = jpegs(folder, 80)
    targets = torch.arange(len(inputs)) % _CLASSES
    values = {
        "train.epochs": 4,
        "train.images_per_class": 2,
        "train.classes_per_batch": 4,
        "train.trainable": "all",
        "net.weights": "none",
        "regularizer": "finetune",
    }
    config = preset("default").override(**values)
    contestants = {"zstci": _ours(config, inputs, targets), "bare": _bare(config, steps=6)}
    duel = Duel("finetune, efficientnet_lite0, 8 JPEG files at 224", "zstci", "bare", "images", 0.85)
    return Contest("Fine-tuning over a bare loop", contestants, (duel,), most_rounds=5)


def _ours(config: Config, inputs: Inputs, targets: Tensor) -> Contestant:
    """The trainer as `learn` calls it, from the end of the first epoch to the end of the last."""
    net = build_net(config.net, config.seed)
    train = config.train
    batches_an_epoch = _CLASSES // train.classes_per_batch
    images = (train.epochs - 1) * batches_an_epoch * train.classes_per_batch * train.images_per_class

    def lap(watch: Stopwatch) -> Lap:
        done: list[Lap] = []

        def after_each_epoch(progress: Progress) -> None:
            if progress.epoch == 1:
                watch.start()
            elif progress.epoch == progress.epochs:
                done.append(watch.stop(images))

        none = torch.zeros(0, net.dim)
        with deterministic():
            fine_tune(
                net, inputs, targets, config, task=_TASK, importance={}, negatives=none, watch=Watch(after_each_epoch)
            )
        return done[0]

    return lap


def _bare(config: Config, steps: int) -> Contestant:
    """The least that a step can be: one ready batch of floats, no data, no labels, no loss worth the name."""
    train = config.train
    count = train.classes_per_batch * train.images_per_class

    def lap(watch: Stopwatch) -> Lap:
        for step, _ in enumerate(_bare_steps(config, count, _RUN_IN + steps), start=1):
            if step == _RUN_IN:
                watch.start()
        return watch.stop(steps * count)

    return lap


def _bare_steps(config: Config, count: int, steps: int) -> Iterator[None]:
    net = build_net(config.net, config.seed)
    parent = copy.deepcopy(net) if config.regularizer == "lwf" else None
    choose_trainable(net, config.train.trainable)
    set_mode(net, train=False)
    optimizer = torch.optim.Adam(
        net.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay, fused=True
    )
    size = config.net.input.size
    batch = torch.randn(count, 3, size, size).contiguous(memory_format=torch.channels_last)
    direction = torch.randn(count, net.dim)
    for _ in range(steps):
        optimizer.zero_grad()
        if parent is not None:
            with torch.no_grad():
                direction = parent(batch)
        loss = (net(batch) * direction).sum()
        loss.backward()
        optimizer.step()
        yield
