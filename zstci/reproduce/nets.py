"""The expensive half: train each regularizer's nets once, and keep what every translator needs of them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from zstci.classifiers import Scatter
from zstci.config import Config
from zstci.data import ALL, TaskData, Vectors
from zstci.devices import on, resolve
from zstci.memory import Features, Memory, advance
from zstci.nets import EmbeddingNet, build_net
from zstci.progress import Watch
from zstci.prototypes import Prototypes
from zstci.regularizers import remembered
from zstci.reproduce.plan import Plan, Regularized
from zstci.streams import Stream, take
from zstci.tensors import flat, nested, write
from zstci.trainer import embed_all, fine_tune, importance_of

__all__ = ["TaskFeatures", "features_of", "fingerprint", "joint_features", "trunk_once"]


@dataclass(frozen=True)
class TaskFeatures:
    """After task k: its training images under both nets, all test images so far, and the true means of all classes."""

    features: Features
    tests: tuple[Tensor, ...]  # task j's test images under f_k, [n_j, D] each
    truth: Memory  # the oracle: prototypes and scatter from images that a real learner no longer has


def trunk_once(plan: Plan) -> tuple[EmbeddingNet, Stream]:
    """Where the trunk never learns, every image goes through it once for all regularizers and all later runs."""
    config = plan.regularizers[0].config
    net = build_net(config.net, config.seed)
    if config.train.trainable != "head":
        return net, plan.stream
    path = plan.out / "nets" / f"trunk-{_digest(plan, config.to_dict()['net'])[:16]}.safetensors"
    tasks = plan.stream.train + plan.stream.test
    if not (plan.resume and path.is_file()):
        device = resolve(config.device)
        trunk = on(net, device).features
        bar = tqdm(tasks, desc=f"{plan.dataset}: {config.net.backbone} features", disable=None)
        features = [embed_all(trunk, task.inputs, config.net.input, device) for task in bar]
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, {str(i): values for i, values in enumerate(features)})
    stored = load_file(path)
    small = [TaskData(Vectors(stored[str(i)]), task.labels) for i, task in enumerate(tasks)]
    count = len(plan.stream)
    return net.on_features(), Stream(tuple(small[:count]), tuple(small[count:]))


def features_of(
    plan: Plan, column: Regularized, start: EmbeddingNet, stream: Stream, done: Callable[[], None]
) -> Iterator[TaskFeatures]:
    """One TaskFeatures a task; from the cache where it is there, else trained and written."""
    folder = plan.out / "nets" / column.label
    if not plan.resume or not _matches(folder, plan, column):
        _reset(folder, plan, column)
    net, importance, negatives = start, dict[str, dict[str, Tensor]](), torch.zeros(0, start.dim)
    for task in range(1, len(stream) + 1):
        path = folder / f"task-{task:02d}.safetensors"
        if path.is_file():
            stored = load_file(path)
            importance = nested(stored, "state")
            net = copy.deepcopy(start)
            net.load_state_dict(importance.pop("net"))
            found = _unpack(stored, stream, task)
        else:
            old = net
            net, importance = _train(old, stream.train[task - 1], column.config, task, importance, negatives)
            found = _measure(old, net, stream, task, column.config, plan.oracle_images)
            write(path, _pack(found) | flat({"net": net.state_dict(), **importance}, "state"))
        # The true means stand in for prototypes, which each translator has its own of: the nets are shared by all.
        negatives = found.truth.prototypes.means
        yield found
        done()


def joint_features(plan: Plan, column: Regularized, start: EmbeddingNet, stream: Stream) -> TaskFeatures:
    """Everything at once: the bound that no incremental learner can be asked to reach."""
    path = plan.out / "nets" / "joint" / f"{fingerprint(plan, column)[:16]}.safetensors"
    if not (plan.resume and path.is_file()):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = TaskData(_Joined(stream), tuple(label for task in stream.train for label in task.labels))
        config = column.config.override(regularizer="finetune")
        net, _ = _train(start, whole, config, 1, {}, torch.zeros(0, start.dim))
        found = _measure(start, net, stream, len(stream), config, plan.oracle_images)
        write(path, _pack(found))
    return _unpack(load_file(path), stream, len(stream))


class _Joined:
    """All tasks' inputs behind one another."""

    def __init__(self, stream: Stream) -> None:
        self.parts = [task.inputs for task in stream.train]
        sizes = [len(part) for part in self.parts]
        self.place = torch.cat([torch.stack([torch.full((n,), i), torch.arange(n)], 1) for i, n in enumerate(sizes)])

    def __len__(self) -> int:
        return len(self.place)

    def plain(self, positions: Tensor, config: object) -> Tensor:
        return self._gather(positions, lambda part, chosen: part.plain(chosen, config))

    def augmented(self, positions: Tensor, config: object, random: torch.Generator, keep: slice = ALL) -> Tensor:
        return self._gather(positions, lambda part, chosen: part.augmented(chosen, config, random))[keep]

    def fingerprint(self) -> str:
        return "".join(part.fingerprint() for part in self.parts)

    def _gather(self, positions: Tensor, load: Callable[..., Tensor]) -> Tensor:
        places = self.place[positions]
        rows = [load(self.parts[i], places[n : n + 1, 1]) for n, i in enumerate(places[:, 0].tolist())]
        return torch.cat(rows)


def _train(
    old: EmbeddingNet,
    data: TaskData,
    config: Config,
    task: int,
    importance: dict[str, dict[str, Tensor]],
    negatives: Tensor,
) -> tuple[EmbeddingNet, dict[str, dict[str, Tensor]]]:
    if config.regularizer == "frozen":
        return old, importance
    net = fine_tune(
        old, data.inputs, data.targets, config, task=task, importance=importance, negatives=negatives, watch=Watch()
    )
    fresh = importance_of(net, data.inputs, data.targets, config, task=task, negatives=negatives)
    return net, remembered(importance, fresh, config.train.accumulate)


def _measure(
    old: EmbeddingNet, net: EmbeddingNet, stream: Stream, task: int, config: Config, oracle_images: int
) -> TaskFeatures:
    device = resolve(config.device)

    def embed(which: EmbeddingNet, data: TaskData) -> Tensor:
        return embed_all(on(which, device), data.inputs, config.net.input, device)

    current = stream.train[task - 1]
    features = Features(embed(old, current), embed(net, current), current.classes, current.targets)
    tests = tuple(embed(net, stream.test[j]) for j in range(task))
    truth, plain = Memory.empty(net.dim), config.override(classifier="ncm")  # metrics are fitted when rows are measured
    for seen in stream.train[:task]:
        few = take(seen, oracle_images)
        vectors = embed(net, few)
        truth = advance(truth, Features(vectors, vectors, few.classes, few.targets), False, plain, 0, Watch())
    return TaskFeatures(features, tests, truth)


def fingerprint(plan: Plan, column: Regularized) -> str:
    """What a cached net depends on; translators and classifiers are not among it."""
    config = column.config.to_dict()
    relevant = {name: config[name] for name in ("net", "train", "regularizer", "seed")}
    weights = Path(relevant["net"]["weights"])
    if weights.is_file():
        relevant["net"] |= {"weights": hashlib.sha256(weights.read_bytes()).hexdigest()}
    return _digest(plan, relevant)


def _digest(plan: Plan, settings: dict[str, Any]) -> str:
    content = json.dumps([plan.dataset, settings, plan.content, plan.oracle_images], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _matches(folder: Path, plan: Plan, column: Regularized) -> bool:
    stamp = folder / "fingerprint"
    return stamp.is_file() and stamp.read_text() == fingerprint(plan, column)


def _reset(folder: Path, plan: Plan, column: Regularized) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "fingerprint").write_text(fingerprint(plan, column))


def _pack(found: TaskFeatures) -> dict[str, Tensor]:
    tensors = {"old": found.features.old, "new": found.features.new}
    tensors |= {f"test.{j}": value for j, value in enumerate(found.tests)}
    truth = found.truth
    return tensors | {
        "truth.means": truth.prototypes.means,
        "truth.counts": truth.prototypes.counts,
        "truth.scatter": truth.scatter.matrix,
        "truth.freedom": torch.tensor(truth.scatter.freedom),
    }


def _unpack(stored: dict[str, Tensor], stream: Stream, task: int) -> TaskFeatures:
    current = stream.train[task - 1]
    ids = tuple(name for seen in stream.train[:task] for name in seen.classes)
    counts = stored["truth.counts"]
    prototypes = Prototypes(ids, stored["truth.means"], counts, torch.zeros_like(counts))
    truth = Memory(prototypes, Scatter(stored["truth.scatter"], int(stored["truth.freedom"])))
    features = Features(stored["old"], stored["new"], current.classes, current.targets)
    return TaskFeatures(features, tuple(stored[f"test.{j}"] for j in range(task)), truth)
