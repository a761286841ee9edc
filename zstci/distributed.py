"""Several processes make one update together: all that knows of torch.distributed.

Every process calls `learn` with the same arguments, and all get the same snapshot; the first one reports and writes:

    from zstci import TaskData, learn, preset
    from zstci.distributed import joined

    with joined() as team:
        snapshot = learn(None, TaskData.from_folder("birds"), preset("head"))
        if team.first:
            snapshot.save("birds-1")

    torchrun --standalone --nproc-per-node 2 add_birds.py

All draw the same batches. Of each, process r of n embeds the images r, r + n, r + 2n, ..., so its share of every class;
the embeddings are gathered, every process computes the loss of the whole batch, and the gradients of the shares add up
to the gradient of one process that did it all.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from zstci.batchnorm import WholeBatchNorm
from zstci.errors import InvalidConfig

__all__ = ["ALONE", "Team", "current", "joined"]

_TIMEOUT_SECONDS = 1800.0  # the first may hash all images for its checkpoints before the others hear of it


@dataclass(frozen=True)
class Team:
    """Process `rank` of `size`. In a team of one everything here hands back what it was given."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This process's rows of a batch, one in `size`: some of every class. A tiny batch leaves some with none."""
        return slice(self.rank, count, self.size)

    def even_share(self, count: int) -> Tensor:
        """The same, but as many for everyone: who would have one row less does the last one too. `whole` drops it."""
        rows = -(-count // self.size)
        return (self.rank + self.size * torch.arange(rows)).clamp_max(count - 1)

    def whole(self, part: Tensor, count: int) -> Tensor:
        """All rows from everyone's shares, in their order, [count, ...]; gradients go back to the own share alone."""
        if self.size == 1:
            return part
        whole: Tensor = _Whole.apply(part, count, self.rank, self.size)  # type: ignore[no-untyped-call]
        return whole

    def once(self, value: Tensor) -> Tensor:
        """Of what everyone computes alike from the weights alone, the gradient counts once."""
        return value if self.first else value.detach()

    def summed(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Each summed over all processes, in one message."""
        if self.size == 1 or not gradients:
            return list(gradients)
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in gradients])
        return [part.view(gradient.shape) for part, gradient in zip(parts, gradients, strict=True)]

    def sum_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """From now on every step is that of the whole batch."""

        def before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            own = [p.grad for p in parameters if p.grad is not None]
            for gradient, whole in zip(own, self.summed(own), strict=True):
                gradient.copy_(whole)  # in place: fused Adam wants it to lie in memory as the weight does

        if self.size > 1:
            optimizer.register_step_pre_hook(before_step)

    def whole_batch_statistics(self) -> AbstractContextManager[object]:
        """A forward inside lets BatchNorm in train mode see the whole batch, not the own share of it."""
        return nullcontext() if self.size == 1 else WholeBatchNorm(_Sum.apply)

    def decided(self, ask: Callable[[], bool]) -> bool:
        """What the first process answers; no other is asked, so all go on or all stop."""
        if self.size == 1:
            return ask()
        answer = torch.tensor([self.first and ask()], dtype=torch.uint8)
        dist.broadcast(answer, 0)
        return bool(answer)

    def from_first(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The first process's tensors, for everyone. As safetensors, because torch's own way is pickle."""
        if self.size == 1:
            return dict(tensors)
        content = bytearray(save_tensors(dict(tensors)) if self.first else b"")
        length = torch.tensor([len(content)])
        dist.broadcast(length, 0)
        content = content or bytearray(int(length))
        dist.broadcast(torch.frombuffer(content, dtype=torch.uint8), 0)
        return load_tensors(bytes(content))

    def require_same(self, key: str) -> None:
        """Refuse a team that was not given the same: it would wait for one another for ever, or learn nonsense."""
        own = torch.frombuffer(bytearray(hashlib.sha256(key.encode()).digest()), dtype=torch.uint8)
        keys = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(keys, own)
        if any(not torch.equal(other, own) for other in keys):
            raise InvalidConfig(
                "the processes of this update do not work on the same; call learn in each with the same parent, images "
                "and settings"
            )


ALONE = Team()


def current() -> Team:
    """The team that this process is in."""
    if dist.is_available() and dist.is_initialized():
        return Team(dist.get_rank(), dist.get_world_size())
    return ALONE


@contextmanager
def joined(meeting: Path | None = None, timeout_seconds: float = _TIMEOUT_SECONDS) -> Iterator[Team]:
    """Join the other processes: those that `torchrun` started, or all that name the same new file as `meeting`.

    Whoever waits longer than the timeout for another fails. After an error there is no orderly end, because the others
    may wait for us: let the process end, which ends the waiting too.
    """
    place = int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    if cuda and place >= torch.cuda.device_count():
        raise InvalidConfig(
            f"{place + 1} processes or more, but {torch.cuda.device_count()} GPUs; start as many processes as GPUs, or "
            "hide the GPUs with CUDA_VISIBLE_DEVICES= to learn on the CPU"
        )
    if cuda:
        torch.cuda.set_device(place)  # the one that `cuda` and `auto` mean from here on
    # Before there is a group: its functions keep the group of the moment they are imported as a default argument, and
    # an optimizer's first step imports them. A group that is kept so lives on after its end, and its threads abort
    # some processes on their way out.
    importlib.import_module("torch.distributed.nn")
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        init_method=f"file://{meeting.resolve()}" if meeting else "env://",
        timeout=timedelta(seconds=timeout_seconds),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    yield current()
    dist.destroy_process_group()


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, count: int, rank: int, size: int) -> Tensor:
        ctx.rank, ctx.size = rank, size
        padded = part.new_zeros(-(-count // size), *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in range(size)]
        dist.all_gather(parts, padded)
        return torch.stack(parts, 1).flatten(0, 1)[:count]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        # Everyone computes the loss of the whole batch, so the own rows of its gradient are complete as they are.
        return gradients[0][ctx.rank :: ctx.size], None, None, None


class _Sum(torch.autograd.Function):
    """Over all processes. What each does with the sum, all others feel: gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:  # noqa: ARG004 (torch's signature)
        return _reduced(part)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004
        return _reduced(gradients[0])


def _reduced(part: Tensor) -> Tensor:
    everything = part.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(everything)
    return everything
