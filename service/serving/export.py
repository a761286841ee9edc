"""Write a snapshot's net as ONNX, and see that it answers like torch before it may serve."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from service.errors import CorruptBundle
from service.serving.engine import AT_ONCE, INPUT, OUTPUT, EngineName, OnnxEngine
from service.serving.torch_engine import TorchEngine
from zstci import Snapshot
from zstci.devices import resolve
from zstci.errors import Stopped
from zstci.hearing import aside, look_within, seldom

__all__ = ["export", "still_right"]

logger = logging.getLogger(__name__)

_TOLERANCE = 1e-4
_CHATTY = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


class _ToCommonSpace(nn.Module):
    """Net and query translator as one, so that one file holds all of the way."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.net, self.query = snapshot.net, snapshot.memory.query

    def forward(self, pixels: Tensor) -> Tensor:
        embeddings = self.net(pixels)
        return self.query(embeddings) if self.query is not None else embeddings


def export(snapshot: Snapshot, path: Path, between: Callable[[], None] = lambda: None) -> EngineName:
    """Write the net as ONNX and see that it answers like torch; "torch" if that cannot be had, and then no file."""
    if resolve(snapshot.config.device).type != "cpu":
        _stay_with_torch("a GPU is there, where torch is faster")
        return "torch"
    model, reasons = _ToCommonSpace(snapshot).eval(), []
    for name, write in _EXPORTERS.items():
        between()
        try:
            with _quiet():
                write(model, _images(snapshot, 2), path, between)
            aside(lambda: _check(snapshot, path), between)
            return "onnx"
        except Stopped:
            raise
        except Exception as error:  # exporters raise nearly anything; torch always answers
            path.unlink(missing_ok=True)
            reasons.append(f"{name}: {(str(error).strip() or type(error).__name__).splitlines()[0]}")
    _stay_with_torch("; ".join(reasons))
    return "torch"


def still_right(snapshot: Snapshot, path: Path, between: Callable[[], None] = lambda: None) -> bool:
    """Whether an engine of the same net may serve this snapshot as well: another metric stretches other errors, and
    where a GPU has come torch is faster."""
    if resolve(snapshot.config.device).type != "cpu":
        return False
    try:
        aside(lambda: _check(snapshot, path), between)
    except (ValueError, CorruptBundle) as error:
        logger.warning("Engine exported anew", extra={"action": "engine_not_taken_over", "reason": str(error)})
        return False
    return True


def _by_tracing(model: nn.Module, example: Tensor, path: Path, between: Callable[[], None]) -> None:
    # It warns where the net looks at its numbers to decide what to do next; the file would always do the same.
    warnings.simplefilter("error", torch.jit.TracerWarning)  # type: ignore[attr-defined]  # missing from its __all__
    axes = {name: {0: "images"} for name in (INPUT, OUTPUT)}
    with look_within(seldom(between), model):
        torch.onnx.export(
            model, (example,), path, dynamo=False, input_names=[INPUT], output_names=[OUTPUT], dynamic_axes=axes
        )


def _by_capturing(model: nn.Module, example: Tensor, path: Path, between: Callable[[], None]) -> None:
    """The one piece of an update without a look: hooks are captured as if they were part of the net."""
    torch.onnx.export(
        model,
        (example,),
        path,
        dynamo=True,
        external_data=False,
        verbose=False,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes={"pixels": {0: torch.export.Dim("images")}},
    )


# Tracing is deprecated but takes 0.9 s for the default backbone, capturing 13 s: that would be most of an instant
# update. Capturing understands more nets, and is there for the rest.
_Write = Callable[[nn.Module, Tensor, Path, Callable[[], None]], None]
_EXPORTERS: dict[str, _Write] = {"trace": _by_tracing, "capture": _by_capturing}


def _check(snapshot: Snapshot, path: Path) -> None:
    """Also for one image and for more than go in at once: a trace may have kept the number it was made with."""
    engine, reference = OnnxEngine(path), TorchEngine(snapshot)
    pixels = _images(snapshot, AT_ONCE + 3).numpy()
    expected = reference.embed(pixels)
    wrong = np.concatenate([engine.embed(pixels[:1]), engine.embed(pixels[1:])]) - expected
    difference = float(np.abs(wrong).max())
    if snapshot.memory.metric is not None:  # it stretches some directions, and with them what went wrong in those
        metric = snapshot.memory.metric.numpy()
        lengths = np.linalg.norm(expected @ metric, axis=1)
        difference = max(difference, float((np.linalg.norm(wrong @ metric, axis=1) / lengths).max()))
    if not difference <= _TOLERANCE:  # also where it is NaN
        raise ValueError(f"its answers differ from those of torch by {difference:.2g}")


def _images(snapshot: Snapshot, count: int) -> Tensor:
    """Noise of growing contrast, the same every time."""
    config = snapshot.config.net.input
    random = torch.Generator().manual_seed(0)
    noise = torch.rand(count, len(config.mean), config.size, config.size, generator=random)
    return (noise * torch.linspace(64, 255, count).view(-1, 1, 1, 1)).to(torch.uint8)


@contextmanager
def _quiet() -> Iterator[None]:
    """Deprecations and hints of the exporters are ours to read, not those of whoever reads the log."""
    loggers = {name: logging.getLogger(name) for name in _CHATTY}
    before = {name: found.level for name, found in loggers.items()}
    try:
        for found in loggers.values():
            found.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, found in loggers.items():
            found.setLevel(before[name])


def _stay_with_torch(reason: str) -> None:
    logger.warning("Serving with torch: %s", reason, extra={"action": "engine_not_exported", "reason": reason})
