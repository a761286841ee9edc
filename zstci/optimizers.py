"""What takes the steps of fine-tuning."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from zstci.config import TrainConfig

__all__ = ["EPSILON", "adam"]

EPSILON = 1e-8


def adam(parameters: Iterable[Tensor], train: TrainConfig) -> torch.optim.Adam:
    """Adam divides by the root of v, the mean squared gradient, and by epsilon. v starts at 0, which is corrected for;
    before PyTorch 1.3 epsilon was scaled with it, to 31 times as much in the first step and 3 times after a hundred.

    That is no detail where a net has dead channels, as the paper's warm-up does: batch norm magnifies what becomes
    of them, importance says nothing of them, and their gradients are as small as epsilon. See the README.
    """
    optimizer = torch.optim.Adam(parameters, lr=train.lr, eps=EPSILON, weight_decay=train.weight_decay, fused=True)
    if train.epsilon == "plain":
        optimizer.register_step_pre_hook(_scale_epsilon)
    return optimizer


def _scale_epsilon(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for group in optimizer.param_groups:
        done = next((int(optimizer.state[p]["step"]) for p in group["params"] if p in optimizer.state), 0)
        group["eps"] = EPSILON / math.sqrt(1 - group["betas"][1] ** (done + 1))
