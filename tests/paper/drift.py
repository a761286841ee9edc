"""Why did E-EWC and E-MAS drift earlier than in the paper? Their nets with Adam's epsilon as it was, and as it is.

    python -m tests.paper.drift --data DIR --regularizer ewc

prints A_k of plain class means without translation, on 40 test and 50 training images of a class: `plain` as PyTorch
had it when the paper's experiments ran, `corrected` as it has it since 1.3. See zstci/optimizers.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from zstci.config import Config
from zstci.data import TaskData
from zstci.nets import EmbeddingNet, build_net
from zstci.progress import Watch
from zstci.prototypes import class_means
from zstci.reproduce import make_plan
from zstci.reproduce.published import PUBLISHED
from zstci.seeds import deterministic
from zstci.streams import Stream, take
from zstci.trainer import embed_all, fine_tune, importance_of

CPU = torch.device("cpu")
NO_PROTOTYPES = torch.zeros(0, 512)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/drift"), help="for a warm-up of our own")
    parser.add_argument("--regularizer", choices=["finetune", "lwf", "ewc", "mas"], default="ewc")
    parser.add_argument("--last", type=int, default=10, help="task")
    parser.add_argument("--seed", type=int, default=1993, help="of what is drawn; the order of classes stays")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    plan = make_plan("cifar100", regularizers=[chosen.regularizer], rows=["none"], data=chosen.data, out=chosen.out)
    for epsilon in ("plain", "corrected"):
        config = plan.regularizers[0].config.override(**{"train.epsilon": epsilon, "seed": chosen.seed})
        print(f"{chosen.regularizer} {epsilon:<10}", end="", flush=True)
        with deterministic():
            for accuracy in measure(config, plan.stream, chosen.last):
                print(f"{accuracy:6.1f}", end="", flush=True)
        print()
    published = PUBLISHED["cifar100"][chosen.regularizer, "none"]
    print(f"{chosen.regularizer} {'paper':<10}" + "".join(f"{value:6.1f}" for value in published[: chosen.last]))


def measure(config: Config, stream: Stream, last: int) -> Iterator[float]:
    """A_k after every task."""
    net, importance, means = build_net(config.net, config.seed), dict[str, dict[str, Tensor]](), list[Tensor]()
    for task, data in enumerate(stream.train[:last], start=1):
        net = fine_tune(
            net,
            data.inputs,
            data.targets,
            config,
            task=task,
            importance=importance,
            negatives=NO_PROTOTYPES,
            watch=Watch(),
        )
        importance = importance_of(net, data.inputs, data.targets, config, task=task, negatives=NO_PROTOTYPES)
        few = take(data, 50)
        means.append(class_means(_embed(net, few, config), few.targets, len(few.classes))[0])
        yield _accuracy(net, stream, means, config)


def _accuracy(net: EmbeddingNet, stream: Stream, means: list[Tensor], config: Config) -> float:
    """Percent of the nearest means that are right, each task counting the same."""
    every, first, found = torch.cat(means), 0, []
    for task, own in zip(stream.test, means, strict=False):
        few = take(task, 40)
        nearest = torch.cdist(_embed(net, few, config), every).argmin(1)
        found.append((nearest == few.targets + first).float().mean().item() * 100)
        first += len(own)
    return sum(found) / len(found)


def _embed(net: EmbeddingNet, data: TaskData, config: Config) -> Tensor:
    return embed_all(net, data.inputs, config.net.input, CPU)


if __name__ == "__main__":
    main()
