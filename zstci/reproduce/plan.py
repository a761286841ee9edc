"""What one `zstci reproduce` is to do: the data, the configuration and the rows of the table."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from zstci.choices import REGULARIZERS
from zstci.classifiers import CLASSIFIERS
from zstci.config import Config, InputConfig, NetConfig, TrainConfig, TranslatorConfig, preset
from zstci.errors import InvalidConfig, UnknownStrategy
from zstci.reproduce.warmup import warm_weights
from zstci.streams import STREAMS, Stream, load_stream

__all__ = ["ROWS", "Plan", "Regularized", "Start", "make_plan"]

Start = Literal["warm", "cold"]

ROWS: dict[str, dict[str, Any]] = {
    "none": {"translator": "none"},
    "sdc": {"translator": "sdc"},
    "zstci": {"translator": "zstci", "translation.unify": "paper"},
    "zs": {"translator": "zstci", "translation.unify": "off"},
    "ur": {"translator": "zstci", "translation.align": False},
    "unified": {"translator": "zstci", "translation.unify": "unified"},
    "linear": {"translator": "linear"},
    "auto": {"translator": "auto"},
}
"""Rows of the table with the settings behind them; `oracle` and `joint` are bounds and need no translator."""

# A cold net on scikit-learn's digits: learns within seconds, and drifts so far meanwhile that the gap is plain to see.
DIGITS = Config(
    net=NetConfig(
        "resnet32", "none", 64, input=InputConfig(size=8, resize=8, mean=(0.3,) * 3, std=(0.38,) * 3, augment="none")
    ),
    train=TrainConfig(
        trainable="all", epochs=20, lr=1e-4, classes_per_batch=2, images_per_class=16, batchnorm="train_first"
    ),
    translation=TranslatorConfig(hidden=256, epochs=40, gamma=20.0, beta=10.0, delta=10.0),
    translator="zstci",
    classifier="ncm",
)


@dataclass(frozen=True)
class Regularized:
    """One column of nets: a regularizer and its weight, such as `lwf` or `lwf=0.1`."""

    label: str
    config: Config

    @property
    def trains(self) -> bool:
        return self.config.regularizer != "frozen"


@dataclass(frozen=True)
class Plan:
    dataset: str
    stream: Stream
    regularizers: tuple[Regularized, ...]
    rows: tuple[str, ...]
    classifiers: tuple[str, ...]
    out: Path
    resume: bool
    start: Start
    oracle_images: int  # a class, for the true means; 0 takes all
    warmup: str = ""  # where the convolutions of a warm start come from

    @functools.cached_property
    def content(self) -> tuple[str, ...]:
        """Changes when any image or label does: what was computed from others is not gone on with."""
        return tuple(task.fingerprint() for task in self.stream.train + self.stream.test)


def make_plan(
    dataset: str,
    *,
    regularizers: Sequence[str],
    rows: Sequence[str],
    classifiers: Sequence[str] = ("ncm", "whitened"),
    start: Start = "warm",
    seed: int = 1993,
    tasks: int = 0,
    limit: int = 0,
    data: Path | None = None,
    out: Path = Path("results"),
    resume: bool = False,
    oracle_images: int = 100,
    overrides: dict[str, Any] | None = None,
) -> Plan:
    if dataset not in STREAMS:
        raise UnknownStrategy("data set", dataset, STREAMS)
    for row in rows:
        if row not in (*ROWS, "oracle", "joint"):
            raise UnknownStrategy("translator", row, [*ROWS, "oracle", "joint"])
    for classifier in classifiers:
        if classifier not in CLASSIFIERS:
            raise UnknownStrategy("classifier", classifier, CLASSIFIERS)
    taken = sorted(set(overrides or {}) & {"regularizer", "translator", "classifier", "seed"})
    if taken:
        raise InvalidConfig(f"{taken[0]} has an option of its own; write --{taken[0]} instead of --set")
    out.mkdir(parents=True, exist_ok=True)
    stream = load_stream(dataset, data, tasks or (5 if dataset == "digits" else 10), seed, limit)
    config = replace(_config(dataset), seed=seed).override(**(overrides or {}))
    warmup = warm_weights(stream, config, out, data) if dataset == "cifar100" and start == "warm" else None
    if warmup is not None:
        config = config.override(**{"net.weights": str(warmup.path)})
    return Plan(
        dataset,
        stream,
        tuple(_regularized(spec, config) for spec in regularizers),
        tuple(rows),
        tuple(classifiers),
        out,
        resume,
        start,
        oracle_images,
        warmup.source if warmup is not None else "",
    )


def _config(dataset: str) -> Config:
    """CUB is measured with what the product uses: the default backbone, not the paper's ResNet-18."""
    cub = replace(preset("head"), translation=preset("paper-cub").translation)
    return {"cifar100": preset("paper-cifar100"), "cub": cub, "digits": DIGITS}[dataset]


def _regularized(spec: str, config: Config) -> Regularized:
    name, _, weight = spec.partition("=")
    if name not in REGULARIZERS:
        raise UnknownStrategy("regularizer", name, REGULARIZERS)
    try:
        value = float(weight) if weight else None
    except ValueError as error:
        raise InvalidConfig(f"the weight in {spec!r} must be a number, such as {name}=0.1") from error
    if value is None:
        return Regularized(spec, config.override(regularizer=name))
    if name in ("frozen", "finetune"):
        raise InvalidConfig(f"{name} has no weight; write --regularizer {name}")
    return Regularized(spec, config.override(**{"regularizer": name, "train.weight": value}))
