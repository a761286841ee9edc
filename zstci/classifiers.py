"""The third axis: a linear change of space in front of the same plain L2 search.

`ncm` is the paper's nearest class mean. `whitened` first makes the spread *within* classes round, so that a direction
in which every class varies a lot counts less; it needs one shared scatter matrix, no image.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zstci.errors import InvalidConfig, UnknownStrategy
from zstci.losses import pairwise_distances

__all__ = ["CLASSIFIERS", "Scatter", "check_classifier", "fit_metric", "nearest"]


@dataclass(frozen=True)
class Scatter:
    """Sum over classes of (x - class mean)(x - class mean)^T, and the degrees of freedom behind it."""

    matrix: Tensor  # [D, D]
    freedom: int

    @classmethod
    def empty(cls, dim: int) -> Scatter:
        return cls(torch.zeros(dim, dim), 0)

    def grown(self, vectors: Tensor, targets: Tensor, means: Tensor) -> Scatter:
        """With the spread of new samples around their own class means."""
        centred = (vectors - means[targets]).double()
        return Scatter(
            (self.matrix.double() + centred.T @ centred).float(), self.freedom + len(vectors) - len(targets.unique())
        )

    def joined(self, first: Tensor, first_counts: Tensor, second: Tensor, second_counts: Tensor) -> Scatter:
        """With the gap between two groups of samples that turned out to be one class (a merge), [M, D] each.

        With it the scatter of a class learnt in two parts equals that of the class learnt at once.
        """
        gap = (first - second).double()
        weight = (first_counts * second_counts / (first_counts + second_counts)).double()
        return Scatter((self.matrix.double() + gap.T @ (weight[:, None] * gap)).float(), self.freedom + len(first))

    def transported(self, matrix: Tensor) -> Scatter:
        """Seen through a linear map of the space: x -> x @ matrix."""
        moved = matrix.double().T @ self.matrix.double() @ matrix.double()
        return Scatter(((moved + moved.T) / 2).float(), self.freedom)


def _ncm(scatter: Scatter, shrinkage: float) -> Tensor | None:
    return None


# Rounding the scatter to float32 can cost it 6e-8 of its largest eigenvalue, which is at most D times the mean one.
_LEAST_SHRINKAGE = 1e-4


def _whitened(scatter: Scatter, shrinkage: float) -> Tensor | None:
    """M with M M^T the inverse of (covariance + shrinkage * its mean diagonal * I), [D, D]."""
    if scatter.freedom < 1 or not scatter.matrix.any():
        return None  # no spread known yet: every direction counts the same
    covariance = scatter.matrix.double() / scatter.freedom
    level = covariance.diagonal().mean()
    eye = torch.eye(len(covariance), dtype=torch.float64)
    lower = torch.linalg.cholesky(covariance + max(shrinkage, _LEAST_SHRINKAGE) * level * eye)
    inverse = torch.linalg.solve_triangular(lower, eye, upper=False)
    # In units of the mean spread, so that distances stay comparable with those of `ncm`.
    return (inverse.T * level.sqrt()).float()


CLASSIFIERS = {"ncm": _ncm, "whitened": _whitened}


def check_classifier(name: str) -> str:
    if name not in CLASSIFIERS:
        raise UnknownStrategy("classifier", name, CLASSIFIERS)
    return name


def fit_metric(name: str, scatter: Scatter, shrinkage: float) -> Tensor | None:
    """The matrix that queries and prototypes go through before the search; None leaves the space as it is."""
    return CLASSIFIERS[check_classifier(name)](scatter, shrinkage)


def nearest(queries: Tensor, means: Tensor, metric: Tensor | None, k: int = 1) -> tuple[Tensor, Tensor]:
    """The k nearest means of every query: distances and positions, [B, k] each, nearest first."""
    if k < 1:
        raise InvalidConfig(f"k must be at least 1, got {k}")
    if metric is not None:
        queries, means = queries @ metric, means @ metric
    distances = pairwise_distances(queries, means)
    found = distances.topk(min(k, len(means)), dim=1, largest=False, sorted=True)
    return found.values, found.indices
