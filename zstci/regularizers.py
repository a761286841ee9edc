"""What holds the net near its past while it learns new classes: a penalty beside the triplet loss.

Each is built once for a task and then called at every step with the net, its inputs and their embeddings. In a team of
processes the inputs are the own share, and the embeddings those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from zstci.choices import REGULARIZERS
from zstci.distributed import ALONE, Team
from zstci.errors import UnknownStrategy
from zstci.nets import EmbeddingNet

__all__ = [
    "IMPORTANCES",
    "Finetune",
    "LwF",
    "Regularizer",
    "WeightAnchor",
    "check_regularizer",
    "default_weight",
    "estimate_importance",
    "remembered",
]

Importance = Mapping[str, Tensor]


class Regularizer(Protocol):
    def __call__(self, net: EmbeddingNet, inputs: Tensor, embeddings: Tensor) -> Tensor: ...


class Finetune:
    """E-FT: nothing holds the net back."""

    def __call__(self, net: EmbeddingNet, inputs: Tensor, embeddings: Tensor) -> Tensor:
        return embeddings.new_zeros(())


class LwF:
    """Learning without forgetting: the new embedding of an image stays near its old one."""

    def __init__(self, parent: EmbeddingNet, weight: float, team: Team = ALONE) -> None:
        self.parent, self.weight, self.team = parent, weight, team

    def __call__(self, net: EmbeddingNet, inputs: Tensor, embeddings: Tensor) -> Tensor:
        with torch.no_grad():
            before = self.team.whole(self.parent(inputs), len(embeddings))
        return self.weight / 2 * (embeddings - before).square().sum()


class WeightAnchor:
    """EWC and MAS: each weight is tied to its old value by a spring as stiff as the weight was important."""

    def __init__(self, parent: EmbeddingNet, importance: Importance, weight: float, team: Team = ALONE) -> None:
        self.team = team
        anchors = dict(parent.named_parameters())
        self.names = list(importance)
        self.weight = weight
        # One long vector: a hundred small tensors would cost more to launch than to compute.
        self.anchor = torch.cat([anchors[name].detach().flatten() for name in self.names])
        self.importance = torch.cat([importance[name].to(self.anchor.device).flatten() for name in self.names])

    def __call__(self, net: EmbeddingNet, inputs: Tensor, embeddings: Tensor) -> Tensor:
        current = dict(net.named_parameters())
        weights = torch.cat([current[name].flatten() for name in self.names])
        return self.team.once(self.weight / 2 * (self.importance * (weights - self.anchor).square()).sum())


def check_regularizer(name: str) -> str:
    if name not in REGULARIZERS:
        raise UnknownStrategy("regularizer", name, REGULARIZERS)
    return name


def default_weight(name: str, weight: float | None) -> float:
    return REGULARIZERS[check_regularizer(name)] if weight is None else weight


Loss = Callable[[Tensor, Tensor], Tensor]


def _fisher_loss(raw: Tensor, labels: Tensor, triplet: Loss) -> Tensor:
    return triplet(torch.nn.functional.normalize(raw), labels)


def _mas_loss(raw: Tensor, labels: Tensor, triplet: Loss) -> Tensor:
    return raw.norm(dim=1).sum()


IMPORTANCES: dict[str, Callable[[Tensor, Tensor, Loss], Tensor]] = {
    "ewc": _fisher_loss,
    "mas": _mas_loss,
}


def estimate_importance(
    net: EmbeddingNet,
    batches: Iterable[tuple[Tensor, Tensor]],
    kind: str,
    triplet: Loss,
    team: Team = ALONE,
) -> dict[str, Tensor]:
    """Mean over batches of the squared *batch* gradient, for every trainable parameter.

    `batches` are the own share of the inputs and the labels of the whole batch, whose gradient it is that is squared.
    The net is used in the mode it is in; pass a copy, because a forward in train mode moves BatchNorm's statistics.
    """
    parameters = {name: p for name, p in net.named_parameters() if p.requires_grad}
    sums = {name: torch.zeros_like(p) for name, p in parameters.items()}
    count = 0
    for inputs, labels in batches:
        with team.whole_batch_statistics():
            raw = team.whole(net.raw(inputs).float(), len(labels))
        loss = IMPORTANCES[kind](raw, labels, triplet)
        # A loss that is exactly 0 everywhere still gives gradients (zeros): the weight mattered to nothing here.
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        used = [name for name, gradient in zip(parameters, gradients, strict=True) if gradient is not None]
        for name, gradient in zip(used, team.summed([g for g in gradients if g is not None]), strict=True):
            sums[name] += gradient.square()
        count += 1
    return {name: total / max(count, 1) for name, total in sums.items()}


def remembered(
    before: Mapping[str, Importance], fresh: Mapping[str, Importance], accumulate: bool
) -> dict[str, dict[str, Tensor]]:
    """Importance after a task: of each weight the estimate of the last task that trained it, or the sum over all such
    tasks. What did not learn this time (the trunk, in a task of the head) keeps what it had."""
    kept = {kind: dict(values) for kind, values in before.items()}
    for kind, values in fresh.items():
        known = kept.setdefault(kind, {})
        known |= {n: known[n] + value if accumulate and n in known else value for n, value in values.items()}
    return kept
