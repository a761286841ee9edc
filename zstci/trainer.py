"""Fine-tune an embedding net on one task: triplet loss plus the regularizer, in one flat loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from zstci.config import Config, InputConfig
from zstci.data import Inputs, Vectors
from zstci.devices import autocast, on, resolve
from zstci.distributed import ALONE, Team
from zstci.errors import NotFinite
from zstci.hearing import await_result
from zstci.losses import TaskTriplet
from zstci.nets import EmbeddingNet, choose_trainable
from zstci.optimizers import adam
from zstci.progress import Progress, Watch
from zstci.regularizers import (
    IMPORTANCES,
    Finetune,
    Importance,
    LwF,
    Regularizer,
    WeightAnchor,
    check_regularizer,
    default_weight,
    estimate_importance,
)
from zstci.samplers import class_members, epoch_batches
from zstci.seeds import generator

__all__ = ["embed_all", "fine_tune", "importance_of"]

# Inputs at a time. A CPU gains nothing from larger batches, and between small ones a stop is heard within a second.
_EMBED_IMAGES, _EMBED_VECTORS = {"cpu": 16, "cuda": 128}, 8192


def fine_tune(
    start: EmbeddingNet,
    inputs: Inputs,
    targets: Tensor,
    config: Config,
    *,
    task: int,
    importance: Mapping[str, Importance],
    negatives: Tensor,
    watch: Watch,
    query: nn.Module | None = None,
    team: Team = ALONE,
) -> EmbeddingNet:
    """A new net, trained from `start`, which is left as it is. Task 1 has no past, so nothing holds it back.

    `negatives` are the prototypes of other classes, and `query` takes embeddings to the common space that they live in.
    """
    device = resolve(config.device)
    net = copy.deepcopy(start).to(device)
    parent = copy.deepcopy(start).to(device)
    names = choose_trainable(net, config.train.trainable)
    set_mode(net, train=config.train.batchnorm == "train" or (config.train.batchnorm == "train_first" and task == 1))
    draw = _Batches(inputs, targets, config, task, device, watch, team)
    triplet = _triplet(config, negatives, query, device)
    regularizer = _regularizer(parent, importance, names, config, task, draw, triplet)
    optimizer = adam([p for p in net.parameters() if p.requires_grad], config.train)
    team.sum_gradients(optimizer)

    def losses(epoch: int) -> Iterator[Tensor]:
        for pixels, labels in draw.epoch(epoch):
            with autocast(device, config.train.precision), team.whole_batch_statistics():
                embeddings = team.whole(net(pixels), len(labels))
            watch.stop_if_asked()  # what follows, the way back, takes as long again
            yield triplet(embeddings, labels) + regularizer(net, pixels, embeddings)

    with watch.within(net, parent):
        watch.epochs("fine_tuning", net, optimizer, config.train.epochs, losses)
    return net.cpu().eval().requires_grad_(False)


def importance_of(
    net: EmbeddingNet,
    inputs: Inputs,
    targets: Tensor,
    config: Config,
    *,
    task: int,
    negatives: Tensor,
    query: nn.Module | None = None,
    team: Team = ALONE,
    watch: Watch | None = None,
) -> dict[str, dict[str, Tensor]]:
    """EWC's and MAS's importance of every trainable weight, from one epoch of the task."""
    device = resolve(config.device)
    probe = copy.deepcopy(net).to(device)  # train mode moves BatchNorm's statistics: never the net's own
    choose_trainable(probe, config.train.trainable)
    set_mode(probe, train=config.train.batchnorm != "eval")
    draw = _Batches(inputs, targets, config, task, device, watch, team)
    triplet = _triplet(config, negatives, query, device)
    with draw.watch.within(probe):
        found = {kind: estimate_importance(probe, draw.epoch(-1), kind, triplet, draw.team) for kind in IMPORTANCES}
    return {kind: {name: value.cpu() for name, value in values.items()} for kind, values in found.items()}


def _triplet(config: Config, negatives: Tensor, query: nn.Module | None, device: torch.device) -> TaskTriplet:
    near = on(query, device) if query is not None else None
    return TaskTriplet(config.train.margin, negatives.to(device), near)


def set_mode(net: EmbeddingNet, train: bool) -> None:
    """BatchNorm of the learning part in train mode or not; everything else as at test time."""
    net.eval()
    for module in net.modules():
        if train and isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.train(any(p.requires_grad for p in module.parameters()))


@torch.no_grad()
def embed_all(
    forward: Callable[[Tensor], Tensor],
    inputs: Inputs,
    config: InputConfig,
    device: torch.device,
    watch: Watch | None = None,
    team: Team = ALONE,
) -> Tensor:
    """`forward` of every input at test time, [N, D] on the CPU. Decoding runs one batch ahead of the net."""
    at_once = _EMBED_VECTORS if isinstance(inputs, Vectors) else _EMBED_IMAGES[device.type]
    plan = list(team.even_share(len(inputs)).split(at_once))  # as many for everyone: all can stop at the same one
    outputs = []
    look = watch.look if watch is not None else lambda: None
    for done, pixels in enumerate(_ahead(plan, lambda chosen: inputs.plain(chosen, config), look), start=1):
        outputs.append(forward(pixels.to(device)).float().cpu())
        if watch is not None:
            watch.stop_if_asked()
            watch.report(Progress("embedding", done / len(plan)))
    result = team.whole(torch.cat(outputs), len(inputs))
    if not torch.isfinite(result).all():
        raise NotFinite("the net answers NaN or infinity for some images; its weights are damaged or it diverged")
    return result


class _Batches:
    """The task's P x K batches, the same for the same seed, task and epoch, whatever happened before: the inputs of the
    own share, and the labels of all."""

    def __init__(
        self,
        inputs: Inputs,
        targets: Tensor,
        config: Config,
        task: int,
        device: torch.device,
        watch: Watch | None = None,
        team: Team = ALONE,
    ) -> None:
        self.inputs, self.targets, self.config, self.task, self.device = inputs, targets, config, task, device
        self.watch, self.team = watch or Watch(), team
        self.members = class_members(targets)

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        train, random = self.config.train, generator(self.config.seed, self.task, "epoch", epoch)
        plan = epoch_batches(self.members, train.classes_per_batch, train.images_per_class, random)

        def load(positions: Tensor) -> Tensor:
            return self.inputs.augmented(positions, self.config.net.input, random, self.team.share(len(positions)))

        for chosen, pixels in zip(plan, _ahead(plan, load, self.watch.look), strict=True):
            # Here, because an epoch that only measures has to hear a stop as well.
            self.watch.stop_if_asked()
            yield pixels.to(self.device), self.targets[chosen].to(self.device)


def _ahead(plan: list[Tensor], load: Callable[[Tensor], Tensor], look: Callable[[], None]) -> Iterator[Tensor]:
    """Load the next batch in a thread while the net works on this one. One thread keeps the random draws in order."""
    pool = ThreadPoolExecutor(1)
    try:
        waiting = pool.submit(load, plan[0]) if plan else None
        for following in [*plan[1:], None]:
            assert waiting is not None
            ready = await_result(waiting, look)
            waiting = pool.submit(load, following) if following is not None else None
            yield ready
    finally:
        # Who stops does not wait for a batch of photographs that nobody wants any more.
        pool.shutdown(wait=False)


def _regularizer(
    parent: EmbeddingNet,
    importance: Mapping[str, Importance],
    names: list[str],
    config: Config,
    task: int,
    draw: _Batches,
    triplet: TaskTriplet,
) -> Regularizer:
    kind = check_regularizer(config.regularizer)
    weight = default_weight(kind, config.train.weight)
    if task == 1 or kind == "finetune":
        return Finetune()
    if kind == "lwf":
        return LwF(parent, weight, draw.team)
    # Where less learns than before (all -> head), the rest of what is known is not needed.
    known = {name: value for name, value in importance.get(kind, {}).items() if name in names}
    if len(known) < len(names):
        # These weights never learnt: the parent was frozen, or had another part trainable. Its images are gone; how it
        # answers the new ones is the next best evidence. What is known of the others counts more.
        probe = copy.deepcopy(parent)
        for name, parameter in probe.named_parameters():
            parameter.requires_grad_(name in names)
        set_mode(probe, train=config.train.batchnorm != "eval")
        with draw.watch.within(probe):
            estimate = estimate_importance(probe, draw.epoch(-1), kind, triplet, draw.team)
        known = estimate | {name: value.to(draw.device) for name, value in known.items()}
    return WeightAnchor(parent, known, weight, draw.team)
