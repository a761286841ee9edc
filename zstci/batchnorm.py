"""BatchNorm over a batch of which each of several processes holds a share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["WholeBatchNorm"]


class WholeBatchNorm(TorchFunctionMode):
    """Stands in for the function below every kind of BatchNorm layer, torchvision's and timm's too. torch's own
    SyncBatchNorm replaces the layers, does not know all of them, and has no CPU."""

    def __init__(self, sum_over_all: Callable[[Tensor], Tensor]) -> None:
        """`sum_over_all` sums a tensor over the processes, and gradients on the way back."""
        super().__init__()
        self._sum_over_all = sum_over_all

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        return self._batch_norm(*args, **kwargs) if func is F.batch_norm else func(*args, **kwargs)

    def _batch_norm(
        self,
        inputs: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        """F.batch_norm, with the mean and the variance of everyone's rows."""
        if not training:
            return F.batch_norm(inputs, running_mean, running_var, weight, bias, False, momentum, eps)
        values = inputs.to(torch.promote_types(inputs.dtype, torch.float32))  # halves cannot hold a sum
        axes, shape = [d for d in range(values.ndim) if d != 1], [1, -1] + [1] * (values.ndim - 2)
        own = values.new_tensor([values.numel() / values.shape[1]])
        sums = self._sum_over_all(torch.cat([values.sum(axes), own]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = values - mean.view(shape)
        # From the centred values: the mean of squares minus the square of the mean would lose what digits it has.
        variance = self._sum_over_all(centred.square().sum(axes)) / count
        with torch.no_grad():
            if running_mean is not None:
                running_mean.lerp_(mean, momentum)
            if running_var is not None:
                running_var.lerp_(variance * count / (count - 1), momentum)
        scale = (variance + eps).rsqrt() if weight is None else weight * (variance + eps).rsqrt()
        result = centred * scale.view(shape)
        return (result if bias is None else result + bias.view(shape)).to(inputs.dtype)
