"""All that a snapshot keeps of old classes, and how one task's features move it on. Pure arithmetic on features."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from zstci.classifiers import Scatter, fit_metric
from zstci.config import Config
from zstci.devices import resolve
from zstci.errors import Diverged
from zstci.hearing import aside
from zstci.progress import Progress, Watch
from zstci.prototypes import Prototypes, class_means
from zstci.translators import Pairs, Residual, Translation, fit_translator, linear_fit

__all__ = ["Features", "Memory", "advance"]


@dataclass(frozen=True)
class Features:
    """The task's images under the previous net and under the new one (the same tensor where the net did not move)."""

    old: Tensor  # [N, D], raw f_{t-1}
    new: Tensor  # [N, D], raw f_t
    ids: tuple[str, ...]
    targets: Tensor  # [N], positions in `ids`


@dataclass(frozen=True)
class Memory:
    prototypes: Prototypes
    scatter: Scatter
    query: Residual | None = None  # f_t -> common_t; None: the net's own output is the common space
    metric: Tensor | None = None  # [D, D] in front of the search
    translation: dict[str, float | str] = field(default_factory=dict)

    @classmethod
    def empty(cls, dim: int) -> Memory:
        return cls(Prototypes.empty(dim), Scatter.empty(dim))

    @cached_property
    def projected(self) -> Tensor:
        """The means behind the metric, where they are searched, [C, D]. Kept: it takes a second of 100,000."""
        means = self.prototypes.means
        return means if self.metric is None else means @ self.metric

    @torch.no_grad()
    def common(self, embeddings: Tensor) -> Tensor:
        """From the net's output to the space that queries and prototypes share."""
        return self.query(embeddings) if self.query is not None else embeddings


def advance(memory: Memory, features: Features, moved: bool, config: Config, seed: object, watch: Watch) -> Memory:
    """Translate what is stored, then add the task's classes. `moved` says whether the net changed."""
    if moved and len(memory.prototypes):
        memory = _translate(memory, features, config, seed, watch)
    elif moved:
        memory = Memory.empty(
            memory.prototypes.means.shape[1]
        )  # nothing is stored, so nothing ties it to the old space
    else:
        memory = replace(memory, translation={})
    watch.report(Progress("reprojecting", 0.5))
    grown = aside(lambda: _add(memory, features), watch.look)
    metric = aside(lambda: fit_metric(config.classifier, grown.scatter, config.shrinkage), watch.look)
    watch.report(Progress("reprojecting", 1.0))
    return replace(grown, metric=metric)


def _translate(memory: Memory, features: Features, config: Config, seed: object, watch: Watch) -> Memory:
    # A class that comes back is no stranger to keep its own images away from.
    again = set(features.ids) & set(memory.prototypes.ids)
    others = memory.prototypes.without(again).means
    pairs = Pairs(memory.common(features.old), features.new, features.targets, others, str(resolve(config.device)))
    fitted = fit_translator(config.translator, pairs, config.translation, seed, watch)
    return aside(lambda: _moved(memory, fitted, pairs, config), watch.look)


@torch.no_grad()
def _moved(memory: Memory, fitted: Translation, pairs: Pairs, config: Config) -> Memory:
    prototypes = memory.prototypes if fitted.name == "none" else memory.prototypes.mapped(fitted.old)
    if not torch.isfinite(prototypes.means).all():
        raise Diverged(
            f"translating with {fitted.name} left the finite numbers; lower translation.lr or raise the ridge"
        )
    scatter = memory.scatter
    wanted = config.translation.transport_covariance
    if wanted or (wanted is None and fitted.matrix is not None):
        scatter = scatter.transported(_linear_part(fitted, pairs, config))
    # Without translation the prototypes stay where they are, so queries must still be brought there.
    query = memory.query if fitted.name == "none" else fitted.query
    return Memory(prototypes, scatter, query, translation={"name": fitted.name, **fitted.details})


def _linear_part(fitted: Translation, pairs: Pairs, config: Config) -> Tensor:
    """What carries the spread of old classes: the translator's own matrix, or else the best linear map for what it does
    to the task's images."""
    if fitted.matrix is not None:
        return fitted.matrix
    return linear_fit(pairs.old, fitted.old(pairs.old), config.translation.ridge)


@torch.no_grad()
def _add(memory: Memory, features: Features) -> Memory:
    raw_means, counts = class_means(features.new, features.targets, len(features.ids))
    means = memory.common(raw_means)  # the mean is translated, not the samples
    samples = memory.common(features.new)
    sample_means, _ = class_means(samples, features.targets, len(features.ids))
    scatter = memory.scatter.grown(samples, features.targets, sample_means)

    position = {name: i for i, name in enumerate(memory.prototypes.ids)}
    known = [i for i, name in enumerate(features.ids) if name in position]
    if known:
        rows = [position[features.ids[i]] for i in known]
        scatter = scatter.joined(
            memory.prototypes.means[rows], memory.prototypes.counts[rows], means[known], counts[known]
        )
    return replace(memory, prototypes=memory.prototypes.merged(features.ids, means, counts), scatter=scatter)
