"""The paper's outer loop: old snapshot in, new classes in, new snapshot out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from zstci.classifiers import check_classifier
from zstci.config import Config
from zstci.data import Inputs, TaskData, Vectors
from zstci.devices import on, resolve
from zstci.distributed import ALONE, current
from zstci.errors import InvalidConfig, InvalidData, SnapshotError, TooFewImages
from zstci.hearing import aside
from zstci.memory import Features, Memory, advance
from zstci.nets import EmbeddingNet, build_net
from zstci.progress import Checkpoints, Progress, Watch, stable_key
from zstci.regularizers import check_regularizer, remembered
from zstci.seeds import deterministic
from zstci.snapshot import Snapshot
from zstci.tensors import digest
from zstci.trainer import embed_all, fine_tune, importance_of
from zstci.translators import check_translator

__all__ = ["learn"]


def learn(
    parent: Snapshot | None,
    data: TaskData,
    config: Config,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpoints: Path | str | None = None,
    checkpoint_seconds: float = 5.0,
) -> Snapshot:
    """A new snapshot that knows the parent's classes and the data's. The parent is never touched.

    With a `checkpoints` folder a stopped or killed call goes on from its last epoch, to the same result bit for bit on
    a CPU; the folder is emptied when the snapshot is made.

    Importance for EWC and MAS is kept of every weight that ever learnt. A frozen task estimates none, because it would
    take longer than the task itself: EWC or MAS after it ask the new images how much the old net's weights matter.

    In a team of processes (see `zstci.distributed`) all call this alike and share the work.
    """
    _check(parent, data, config)
    team = current()
    # A frozen task has no epochs to go on from, and to hash all that a parent remembers takes longer than the task.
    keyed = checkpoints and team.first and config.regularizer != "frozen"
    key = ""
    if keyed:  # which reads every image and every weight
        look = Watch(should_stop=should_stop, team=team).look
        key = aside(lambda: stable_key(config.to_dict(), data.fingerprint(), _identity(parent, config)), look)
    watch = Watch(on_progress, should_stop, Checkpoints(checkpoints, key, checkpoint_seconds, team), team)
    with deterministic():
        snapshot = _learn(parent, data, config, watch)
    watch.checkpoints.clear()
    return snapshot


def _learn(parent: Snapshot | None, data: TaskData, config: Config, watch: Watch) -> Snapshot:
    task = parent.task + 1 if parent else 1
    start = parent.net if parent else build_net(config.net, config.seed)
    memory = parent.memory if parent else Memory.empty(start.dim)
    importance = parent.importance if parent else {}
    frozen = config.regularizer == "frozen"
    if watch.team.size > 1:
        numbers = parent.tensors() if parent else start.state_dict()
        watch.team.require_same(stable_key(config.to_dict(), data.labels, task, digest(numbers)))
    small, inputs = _without_trunk(start, data.inputs, config, watch) if _head_only(config) else (start, data.inputs)

    # A step on ready-made vectors is shorter than the talk about it: there everyone does the whole.
    team = ALONE if isinstance(inputs, Vectors) else watch.team

    old = _embed(small, inputs, config, watch)
    net = small
    if not frozen:
        # A class that comes back is no negative of its own images.
        again = set(data.classes) & set(memory.prototypes.ids)
        old_means = memory.prototypes.without(again).means
        net = fine_tune(
            small,
            inputs,
            data.targets,
            config,
            task=task,
            importance=importance,
            negatives=old_means,
            watch=watch,
            query=memory.query,
            team=team,
        )
        fresh = importance_of(
            net,
            inputs,
            data.targets,
            config,
            task=task,
            negatives=old_means,
            query=memory.query,
            team=team,
            watch=watch,
        )
        importance = remembered(importance, fresh, config.train.accumulate)

    new = old if frozen else _embed(net, inputs, config, watch)
    features = Features(old, new, data.classes, data.targets)
    memory = advance(memory, features, not frozen, config, (config.seed, task), watch)
    return Snapshot(_with_trunk(net, start), memory, config, task, importance)


def _check(parent: Snapshot | None, data: TaskData, config: Config) -> None:
    """Everything that can be refused is refused before any work starts."""
    check_regularizer(config.regularizer)
    check_classifier(config.classifier)
    check_translator(config.translator, config.translation)
    resolve(config.device)
    _check_inputs(config.net.backbone, data.inputs)
    if parent is not None and not parent.whole:
        raise SnapshotError("the parent came without its training state; load it with training=True to learn on")
    if parent is not None and replace(config.net, weights="") != replace(parent.config.net, weights=""):
        raise InvalidConfig(
            "a snapshot keeps its net; use the parent's net settings: replace(config, net=parent.config.net)"
        )
    known = set(parent.prototypes.ids) if parent else set()
    counts = torch.bincount(data.targets).tolist()
    for name, count in zip(data.classes, counts, strict=True):
        if count < 2 and name not in known:
            raise TooFewImages(f"class {name!r} has {count} image; a new class needs at least 2")


def _check_inputs(backbone: str, inputs: Inputs) -> None:
    width = backbone.removeprefix("vectors:") if backbone.startswith("vectors:") else None
    if isinstance(inputs, Vectors):
        if width is None:
            raise InvalidData(
                f"the backbone {backbone!r} reads images; give ImageFiles or ImageArrays, or a vectors:N net"
            )
        if str(inputs.values.shape[1]) != width:
            raise InvalidData(
                f"vectors of {inputs.values.shape[1]} numbers, but the backbone {backbone!r} reads {width}"
            )
    elif width is not None:
        raise InvalidData(
            f"the backbone {backbone!r} reads ready-made vectors; give Vectors, or name an image backbone"
        )


def _head_only(config: Config) -> bool:
    return config.train.trainable == "head" or config.regularizer == "frozen"


def _without_trunk(net: EmbeddingNet, inputs: Inputs, config: Config, watch: Watch) -> tuple[EmbeddingNet, Inputs]:
    """The trunk does not learn, so its features are computed once and the rest of the update works on them alone."""
    device = resolve(config.device)
    placed = on(net, device)
    with watch.within(placed):
        features = embed_all(placed.features, inputs, config.net.input, device, watch, watch.team)
    return net.on_features(), Vectors(features)


def _with_trunk(net: EmbeddingNet, start: EmbeddingNet) -> EmbeddingNet:
    if isinstance(net.trunk, torch.nn.Identity):
        return EmbeddingNet(start.trunk, net.head, start.mean, start.std).eval().requires_grad_(False)
    return net


def _embed(net: EmbeddingNet, inputs: Inputs, config: Config, watch: Watch) -> Tensor:
    device = resolve(config.device)
    # Vectors take milliseconds, which are no stage worth a report, nor worth sharing.
    if isinstance(inputs, Vectors):
        return embed_all(on(net, device), inputs, config.net.input, device)
    placed = on(net, device)
    with watch.within(placed):
        return embed_all(placed, inputs, config.net.input, device, watch, watch.team)


def _identity(parent: Snapshot | None, config: Config) -> object:
    """What tells two parents apart: their task, their classes and every number that they hold; without a parent, the
    weights file of the first net."""
    if parent is not None:
        return parent.task, parent.prototypes.ids, digest(parent.tensors())
    weights = Path(config.net.weights)
    return hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else config.net.weights
