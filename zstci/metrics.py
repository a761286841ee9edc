"""What the paper measures: the accuracy matrix a[k, j], A_k, F_k and their relatives."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

__all__ = ["accuracy", "average_accuracy", "average_forgetting", "mean_accuracy", "recall_at", "weighted_accuracy"]

Matrix = Sequence[Sequence[float]]
"""Row k holds a[k, 0..k], in percent: accuracy on task j's classes after task k, over all classes seen so far."""


def accuracy(predicted: Tensor, truth: Tensor) -> float:
    return 100.0 * float((predicted == truth).double().mean())


def average_accuracy(matrix: Matrix) -> list[float]:
    """A_k: mean over the tasks seen so far."""
    return [sum(row) / len(row) for row in matrix]


def weighted_accuracy(matrix: Matrix, classes: Sequence[int]) -> list[float]:
    """A_k with every class counting the same, for tasks of unequal size."""
    return [sum(a * n for a, n in zip(row, classes, strict=False)) / sum(classes[: len(row)]) for row in matrix]


def average_forgetting(matrix: Matrix) -> list[float]:
    """F_k: how far each earlier task has fallen from its best; 0 after the first, where nothing can be forgotten."""
    forgetting = [0.0]
    for k in range(1, len(matrix)):
        falls = [max(matrix[before][j] for before in range(j, k)) - matrix[k][j] for j in range(k)]
        forgetting.append(sum(falls) / len(falls))
    return forgetting


def mean_accuracy(matrix: Matrix) -> float:
    """Mean of A_k over k, which other papers call average incremental accuracy."""
    averages = average_accuracy(matrix)
    return sum(averages) / len(averages)


def recall_at(positions: Tensor, truth: Tensor) -> float:
    """Share of queries, in percent, whose class is among the retrieved ones, [B, k] against [B]."""
    return 100.0 * float((positions == truth[:, None]).any(1).double().mean())
