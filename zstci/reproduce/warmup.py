"""The start of the published CIFAR-100 runs: convolutions of a softmax net that has seen the first 50 classes."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from zstci.config import Config
from zstci.data import TaskData
from zstci.devices import resolve
from zstci.nets import build_net
from zstci.progress import Checkpoints, Watch
from zstci.seeds import generator, init_seed
from zstci.streams import Stream, shared_data
from zstci.tensors import write

__all__ = ["Warmup", "train_warmup", "warm_weights"]

WARM_FILE = "resnet32_first50.safetensors"
_BATCH, _EPOCHS, _RATE = 128, 60, 0.1


@dataclass(frozen=True)
class Warmup:
    path: Path
    source: str  # for people: the two give different numbers


def warm_weights(stream: Stream, config: Config, out: Path, data: Path | None = None, epochs: int = _EPOCHS) -> Warmup:
    """The published warm-up where it is at hand and fits (it has seen the first 50 classes of seed 1993); else our own,
    trained once for these classes and kept in `out`."""
    folders = [shared_data(), data, data and data.resolve().parent]
    places = [folder / "weights" / WARM_FILE for folder in folders if folder]
    published = next((path for path in places if path.is_file()), None)
    fits = config.seed == 1993 and len(stream.classes) == 100
    if published is not None and fits:
        return Warmup(published, f"published warm-up {WARM_FILE}")
    tasks = stream.train[: max(1, len(stream) // 2)]
    content = repr([config.seed, epochs, [(task.classes, len(task.labels)) for task in tasks]])
    own = out / f"warmup-{hashlib.sha256(content.encode()).hexdigest()[:12]}.safetensors"
    if not own.is_file():
        why = f"no weights/{WARM_FILE} in ZSTCI_DATA or beside --data" if fits else f"{WARM_FILE} is for other classes"
        tqdm.write(f"{why}: training a warm-up of our own, {epochs} epochs", file=sys.stderr)
        out.mkdir(parents=True, exist_ok=True)
        train_warmup(tasks, config, own, epochs)
    return Warmup(own, f"own warm-up, {epochs} epochs")


def train_warmup(tasks: tuple[TaskData, ...], config: Config, path: Path, epochs: int) -> None:
    """SGD with momentum and a falling rate on a softmax over all classes of `tasks`; a killed run goes on."""
    device = resolve(config.device)
    net = build_net(config.override(**{"net.weights": "none"}).net, config.seed).to(device)
    names = [name for task in tasks for name in task.classes]
    with init_seed(config.seed, "warmup"):
        softmax = nn.Linear(net.head.in_features, len(names)).to(device)
    places = torch.tensor([(t, i) for t, task in enumerate(tasks) for i in range(len(task.labels))])
    targets = torch.tensor([names.index(label) for task in tasks for label in task.labels])
    net.trunk.train().requires_grad_(True)
    learner = nn.ModuleDict({"trunk": net.trunk, "softmax": softmax})
    optimizer = torch.optim.SGD(learner.parameters(), lr=_RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)

    def losses(epoch: int) -> Iterator[Tensor]:
        optimizer.param_groups[0]["lr"] = _RATE * (1 + math.cos(math.pi * epoch / epochs)) / 2
        random = generator(config.seed, "warmup", epoch)
        for batch in torch.randperm(len(places), generator=random).split(_BATCH):
            batch = batch[torch.argsort(places[batch, 0], stable=True)]  # by task: each has inputs of its own
            groups = [(t, batch[places[batch, 0] == t]) for t in places[batch, 0].unique().tolist()]
            pixels = [tasks[t].inputs.augmented(places[own, 1], config.net.input, random) for t, own in groups]
            logits = softmax(net.features(torch.cat(pixels).to(device)))
            yield F.cross_entropy(logits, targets[batch].to(device), label_smoothing=0.1)

    with tqdm(total=epochs, desc="warm-up on the first half of the tasks", disable=None) as bar:
        checkpoints = Checkpoints(path.with_suffix(".checkpoints"), path.name)
        watch = Watch(lambda done: bar.update(done.epoch - bar.n), checkpoints=checkpoints)
        watch.epochs("fine_tuning", learner, optimizer, epochs, losses)
    write(path, net.trunk.state_dict())
    checkpoints.clear()
