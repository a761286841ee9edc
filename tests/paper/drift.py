"""Why does E-EWC drift earlier than in the paper? Its net again, with importance taken in another way from a task on.

    python -m tests.paper.drift --data DIR --variant bnmove --since 5 --last 8
    python -m tests.paper.drift --data DIR --regularizer mas --weight 2

prints A_k of plain class means without translation, on 40 test and 50 training images of a class. `--weight`
multiplies the lambda of the paper, `--passes` takes importance from so many epochs instead of one. The variants:

    base      as the preset does it: one epoch in train mode, on a copy of the net
    eval      the same with BatchNorm in eval mode
    bnmove    the statistics that BatchNorm gathers meanwhile stay in the net
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
from torch import Tensor

from zstci.config import Config
from zstci.data import TaskData
from zstci.nets import EmbeddingNet, build_net
from zstci.progress import Watch
from zstci.prototypes import class_means
from zstci.regularizers import default_weight
from zstci.reproduce import make_plan
from zstci.seeds import deterministic
from zstci.streams import Stream, take
from zstci.trainer import _Batches, embed_all, fine_tune, importance_of, set_mode

CPU = torch.device("cpu")
NO_PROTOTYPES = torch.zeros(0, 512)
Importance = dict[str, dict[str, Tensor]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/drift"), help="for a warm-up of our own")
    parser.add_argument("--regularizer", choices=["finetune", "lwf", "ewc", "mas"], default="ewc")
    parser.add_argument("--variant", choices=["base", "eval", "bnmove"], default="base")
    parser.add_argument("--since", type=int, default=1, help="the first task whose importance is taken that way")
    parser.add_argument("--last", type=int, default=10)
    parser.add_argument("--weight", type=float, default=1.0, help="times the paper's lambda")
    parser.add_argument("--weight-decay", type=float, default=2e-4, help="what Adam takes from every weight")
    parser.add_argument("--passes", type=int, default=1, help="epochs that importance is the mean of")
    parser.add_argument("--seed", type=int, default=1993, help="of what is drawn; the order of classes stays")
    parser.add_argument(
        "--epsilon", choices=["plain", "corrected"], default="plain", help="of Adam; today it is corrected"
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    plan = make_plan("cifar100", regularizers=[chosen.regularizer], rows=["none"], data=chosen.data, out=chosen.out)
    config = plan.regularizers[0].config
    weight = default_weight(chosen.regularizer, None) * chosen.weight
    changes = {
        "train.weight": weight,
        "train.weight_decay": chosen.weight_decay,
        "train.epsilon": chosen.epsilon,
        "seed": chosen.seed,
    }
    with deterministic():
        measure(config.override(**changes), plan.stream, chosen)


def measure(config: Config, stream: Stream, chosen: argparse.Namespace) -> None:
    net, importance, means = build_net(config.net, config.seed), Importance(), list[Tensor]()
    for task in range(1, chosen.last + 1):
        data = stream.train[task - 1]
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
        variant = chosen.variant if task >= chosen.since else "base"
        importance, net = _importance(net, data, config, task, variant, chosen.passes)
        few = take(data, 50)
        means.append(class_means(_embed(net, few, config), few.targets, len(few.classes))[0])
        print(f"{variant} T{task} {_accuracy(net, stream, means, config):5.1f}", flush=True)


def _importance(
    net: EmbeddingNet, data: TaskData, config: Config, task: int, variant: str, passes: int
) -> tuple[Importance, EmbeddingNet]:
    settings = config.override(**{"train.batchnorm": "eval"}) if variant == "eval" else config
    drawn = [
        importance_of(
            net,
            data.inputs,
            data.targets,
            settings.override(seed=config.seed + other),
            task=task,
            negatives=NO_PROTOTYPES,
        )
        for other in range(passes)
    ]
    found = {
        kind: {name: torch.stack([one[kind][name] for one in drawn]).mean(0) for name in values}
        for kind, values in drawn[0].items()
    }
    return found, _with_moved_statistics(net, data, config, task) if variant == "bnmove" else net


def _with_moved_statistics(net: EmbeddingNet, data: TaskData, config: Config, task: int) -> EmbeddingNet:
    """The net after the batches of the importance epoch have gone through it in train mode."""
    moved = copy.deepcopy(net).requires_grad_(True)
    set_mode(moved, train=True)
    with torch.no_grad():
        for pixels, _ in _Batches(data.inputs, data.targets, config, task, CPU).epoch(-1):
            moved.raw(pixels)
    return moved.eval().requires_grad_(False)


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
