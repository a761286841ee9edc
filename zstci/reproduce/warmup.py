"""The start of the published CIFAR-100 runs: convolutions of a softmax net that has seen the first 50 classes."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from zstci.config import Config
from zstci.data import TaskData
from zstci.devices import resolve
from zstci.nets import build_net
from zstci.seeds import generator, init_seed
from zstci.streams import Stream, shared_data

__all__ = ["train_warmup", "warm_weights"]

WARM_FILE = "resnet32_first50.safetensors"
_BATCH, _EPOCHS = 128, 60


def warm_weights(stream: Stream, config: Config, out: Path) -> Path:
    """The published warm-up where it is at hand; else our own, trained once and kept in `out`."""
    shared = shared_data()
    known = [*([shared / "weights" / WARM_FILE] if shared else []), out / WARM_FILE]
    for path in known:
        if path.is_file():
            return path
    half = stream.train[: max(1, len(stream) // 2)]
    train_warmup(half, config, known[-1], _EPOCHS)
    return known[-1]


def train_warmup(tasks: tuple[TaskData, ...], config: Config, path: Path, epochs: int) -> None:
    """SGD with momentum and a one-cycle rate on a softmax over all classes of `tasks`."""
    device = resolve(config.device)
    net = build_net(config.override(**{"net.weights": "none"}).net, config.seed).to(device)
    names = [name for task in tasks for name in task.classes]
    with init_seed(config.seed, "warmup"):
        softmax = nn.Linear(net.head.in_features, len(names)).to(device)
    places = [(task, position) for task in range(len(tasks)) for position in range(len(tasks[task].labels))]
    targets = torch.tensor([names.index(tasks[t].labels[i]) for t, i in places])
    net.trunk.train().requires_grad_(True)
    parameters = [*net.trunk.parameters(), *softmax.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = -(-len(places) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=epochs * steps)
    by_task = torch.tensor(places)
    for epoch in tqdm(range(epochs), desc="warm-up on the first half of the classes", disable=None):
        random = generator(config.seed, "warmup", epoch)
        for batch in torch.randperm(len(places), generator=random).split(_BATCH):
            pixels, order = [], []
            for task in by_task[batch, 0].unique().tolist():
                chosen = batch[by_task[batch, 0] == task]
                pixels.append(tasks[task].inputs.augmented(by_task[chosen, 1], config.net.input, random))
                order.append(targets[chosen])
            logits = softmax(net.features(torch.cat(pixels).to(device)))
            loss = F.cross_entropy(logits, torch.cat(order).to(device), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    partial = path.with_suffix(".partial")
    save_file({name: value.cpu().contiguous() for name, value in net.trunk.state_dict().items()}, partial)
    partial.replace(path)
