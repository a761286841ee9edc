"""What a query asks of the live model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from service.domain import Answer, Prediction
from service.serving.engine import Vectors
from service.serving.live import LiveModel

__all__ = ["answer"]

# Farther classes add nothing that shows to the sum that scores are shares of.
_SCORED = 100


def answer(live: LiveModel, names: Mapping[str, str], embeddings: Vectors, top_k: int) -> list[Answer]:
    """The `top_k` nearest classes of every embedding. A class that `names` does not know is shown by its id."""
    distances, positions = live.index.search(embeddings, max(top_k, _SCORED))
    scores = _scores(distances, live.index.gap)
    return [
        Answer(
            tuple(
                Prediction(live.ids[position], names.get(live.ids[position], live.ids[position]), distance, score)
                for position, distance, score in list(zip(*row, strict=True))[:top_k]
            ),
            row[1][1] - row[1][0] if len(live.ids) > 1 else None,
        )
        for row in zip(positions.tolist(), distances.tolist(), scores.tolist(), strict=True)
    ]


def _scores(distances: Vectors, gap: float) -> NDArray[np.float64]:
    """Shares of a softmax over squared distances, [N, k].

    The scale is set by how far apart neighbouring classes are: half-way between two typical neighbours the odds are
    1 : 1, at the mean of one of them e^4 : 1. A ranking in familiar units, not a calibrated probability.
    """
    scale = max(gap**2 / 4, float(np.finfo(np.float32).tiny))
    exponents = -np.square(distances.astype(np.float64)) / scale
    shares = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
