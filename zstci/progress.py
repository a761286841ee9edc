"""How long work talks to its caller: what it has done, whether to stop, and where to continue after a crash."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from zstci.distributed import ALONE, Team
from zstci.errors import Diverged, Stopped
from zstci.hearing import LOOK_SECONDS, look_within, seldom
from zstci.tensors import digest, flat, nested, write

__all__ = ["Checkpoints", "Progress", "Watch"]


STAGES = ("fine_tuning", "translating")  # those that have epochs


@dataclass(frozen=True)
class Progress:
    """`fraction` is that of the stage, 0 to 1."""

    stage: str
    fraction: float
    epoch: int = 0
    epochs: int = 0
    loss: float | None = None


class Checkpoints:
    """The last finished epoch of each stage, as safetensors. `key` ties it to one parent, data set and configuration:
    a checkpoint of anything else is not continued but written over."""

    def __init__(
        self, folder: Path | str | None, key: str = "", every_seconds: float = 5.0, team: Team = ALONE
    ) -> None:
        """In a team the first process alone has a folder, and tells the others what it finds there."""
        self.folder, self.team = Path(folder) if folder is not None and team.first else None, team
        self.key, self.every_seconds = hashlib.sha256(key.encode()).hexdigest(), every_seconds
        self._last = time.monotonic()

    def save(self, stage: str, epoch: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """At most once in `every_seconds`: a small net would otherwise spend its time writing."""
        if self.folder is None or time.monotonic() - self._last < self.every_seconds:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        states = {str(position): state for position, state in optimizer.state_dict()["state"].items()}
        tensors = flat({"state": module.state_dict()}, "module") | flat(states, "optimizer")
        facts = {"key": self.key, "epoch": str(epoch), "sha256": digest(tensors)}
        write(self.folder / f"{stage}.safetensors", tensors, facts)
        self._last = time.monotonic()

    def restore(self, stage: str, module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Put the last finished epoch back into module and optimizer; return how many epochs are done."""
        tensors = self.team.from_first(self._read(stage))
        if not tensors:
            return 0
        module.load_state_dict(nested(tensors, "module")["state"])
        state = {int(position): values for position, values in nested(tensors, "optimizer").items()}
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        for parameter, values in optimizer.state.items():
            # Fused Adam walks memory, not strides: its averages must lie as the weight does (channels_last, say).
            moved = {
                name: torch.empty_like(parameter).copy_(v) for name, v in values.items() if v.shape == parameter.shape
            }
            values.update(moved)
        return int(tensors["epoch"])

    def _read(self, stage: str) -> dict[str, Tensor]:
        """Empty where there is nothing to go on from."""
        path = self.folder / f"{stage}.safetensors" if self.folder is not None else None
        if path is None or not path.is_file():
            return {}
        try:
            with safe_open(path, "pt") as stored:
                metadata = stored.metadata() or {}
                if metadata.get("key") != self.key:
                    return {}
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a dict)
        except (SafetensorError, OSError):
            return {}  # a damaged checkpoint costs time, never correctness
        if metadata.get("sha256") != digest(tensors):
            return {}  # safetensors checks its header only, this the numbers
        return tensors | {"epoch": torch.tensor(int(metadata["epoch"]))}

    def clear(self) -> None:
        if self.folder is not None and self.folder.is_dir():
            for stage in STAGES:
                for name in (f"{stage}.safetensors", f"{stage}.safetensors.partial"):
                    (self.folder / name).unlink(missing_ok=True)


class Watch:
    """Carries the caller's three wishes through the stages of one update. In a team, those of the first process."""

    def __init__(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        checkpoints: Checkpoints | None = None,
        team: Team = ALONE,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._on_progress = on_progress or (lambda _: None)
        self._should_stop = should_stop or (lambda: False)
        self.checkpoints = checkpoints or Checkpoints(None, team=team)
        self.team = team
        self.look = seldom(self._look, look_seconds)

    def report(self, progress: Progress) -> None:
        if self.team.first:
            self._on_progress(progress)

    def silent(self) -> Watch:
        """For work inside a stage: it can be stopped, but has no progress and no checkpoint of its own."""
        return Watch(should_stop=self._should_stop, team=self.team)

    def stop_if_asked(self) -> None:
        if self.team.decided(self._should_stop):
            raise Stopped("stopped on request; call learn again with the same checkpoint folder to go on")

    def within(self, *nets: nn.Module) -> AbstractContextManager[None]:
        """Passes of these nets hear a stop between two layers."""
        return look_within(self.look, *nets)

    def _look(self) -> None:
        """In the middle of something. A team only stops where all of it asks, between batches: one that stopped alone
        would leave the others waiting."""
        if self.team.size == 1:
            self.stop_if_asked()

    def epochs(
        self,
        stage: str,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        count: int,
        losses: Callable[[int], Iterator[Tensor]],
    ) -> None:
        """Train `module` for `count` epochs, continuing a checkpoint. `losses(epoch)` yields the loss of each batch."""
        for epoch in range(self.checkpoints.restore(stage, module, optimizer), count):
            total, steps = torch.zeros(()), 0
            for loss in losses(epoch):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, steps = total.to(loss.device) + loss.detach(), steps + 1
                self.stop_if_asked()
            mean = float(total) / max(steps, 1)
            if not torch.isfinite(torch.tensor(mean)):
                raise Diverged(f"{stage}: the loss became {mean} in epoch {epoch + 1}; lower the learning rate")
            self.checkpoints.save(stage, epoch + 1, module, optimizer)
            self.report(Progress(stage, (epoch + 1) / count, epoch + 1, count, mean))


def stable_key(*parts: object) -> str:
    return json.dumps(parts, sort_keys=True, default=str)
