"""What turns pixels into vectors of the common space: ONNX Runtime on a CPU, torch wherever that cannot be."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import onnxruntime  # type: ignore[import-untyped]
import torch
from torch import Tensor, nn

from service.errors import CorruptBundle
from zstci import Snapshot
from zstci.devices import on, resolve

__all__ = ["Engine", "EngineName", "OnnxEngine", "TorchEngine", "export"]

EngineName = Literal["onnx", "torch"]
logger = logging.getLogger(__name__)

_INPUT, _OUTPUT = "pixels", "embeddings"
_AT_ONCE = {"cpu": 8, "cuda": 64}  # images; on a CPU more of them cost memory and gain nothing
_TOLERANCE = 1e-4
_CHATTY = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


class Engine(Protocol):
    def embed(self, pixels: Tensor) -> Tensor:
        """uint8 pixels [N, 3, S, S] -> float32 vectors in the common space, [N, D]. From any thread."""


class OnnxEngine:
    """One session for all threads. Each call computes on the thread that makes it, and no thread spins for work."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3  # errors
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has a class of its own for each kind of bad file
            raise CorruptBundle(
                f"{path} cannot be opened by ONNX Runtime {onnxruntime.__version__} ({error}); use the version of this "
                "program that wrote it, or activate another version"
            ) from error

    def embed(self, pixels: Tensor) -> Tensor:
        parts = [self._session.run([_OUTPUT], {_INPUT: part.numpy()})[0] for part in pixels.split(_AT_ONCE["cpu"])]
        return torch.cat([torch.from_numpy(part) for part in parts])


class TorchEngine:
    """In full precision on a GPU too: distances must not depend on where they are computed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._device = resolve(snapshot.config.device)
        self._net, self._memory = on(snapshot.net, self._device), snapshot.memory

    @torch.inference_mode()
    def embed(self, pixels: Tensor) -> Tensor:
        parts = [self._net(part.to(self._device)).float().cpu() for part in pixels.split(_AT_ONCE[self._device.type])]
        return self._memory.common(torch.cat(parts))


class _ToCommonSpace(nn.Module):
    """Net and query translator as one, so that one file holds all of the way."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.net, self.query = snapshot.net, snapshot.memory.query

    def forward(self, pixels: Tensor) -> Tensor:
        embeddings = self.net(pixels)
        return self.query(embeddings) if self.query is not None else embeddings


def export(snapshot: Snapshot, path: Path) -> EngineName:
    """Write the net as ONNX and see that it answers like torch; "torch" if that cannot be had, and then no file."""
    if resolve(snapshot.config.device).type != "cpu":
        _stay_with_torch("a GPU is there, where torch is faster")
        return "torch"
    model, reasons = _ToCommonSpace(snapshot).eval(), []
    for name, write in _EXPORTERS.items():
        try:
            with _quiet():
                write(model, _images(snapshot, 2), path)
            _check(snapshot, path)
            return "onnx"
        except Exception as error:  # exporters raise nearly anything; torch always answers
            path.unlink(missing_ok=True)
            reasons.append(f"{name}: {(str(error).strip() or type(error).__name__).splitlines()[0]}")
    _stay_with_torch("; ".join(reasons))
    return "torch"


def _by_tracing(model: nn.Module, example: Tensor, path: Path) -> None:
    # It warns where the net looks at its numbers to decide what to do next; the file would always do the same.
    warnings.simplefilter("error", torch.jit.TracerWarning)  # type: ignore[attr-defined]  # missing from its __all__
    axes = {name: {0: "images"} for name in (_INPUT, _OUTPUT)}
    torch.onnx.export(
        model, (example,), path, dynamo=False, input_names=[_INPUT], output_names=[_OUTPUT], dynamic_axes=axes
    )


def _by_capturing(model: nn.Module, example: Tensor, path: Path) -> None:
    torch.onnx.export(
        model,
        (example,),
        path,
        dynamo=True,
        external_data=False,
        verbose=False,
        input_names=[_INPUT],
        output_names=[_OUTPUT],
        dynamic_shapes={"pixels": {0: torch.export.Dim("images")}},
    )


# Tracing is deprecated but takes 0.9 s for the default backbone, capturing 13 s: that would be most of an instant
# update. Capturing understands more nets, and is there for the rest.
_EXPORTERS: dict[str, Callable[[nn.Module, Tensor, Path], None]] = {"trace": _by_tracing, "capture": _by_capturing}


def _check(snapshot: Snapshot, path: Path) -> None:
    """Also for one image and for more than go in at once: a trace may have kept the number it was made with."""
    engine, reference = OnnxEngine(path), TorchEngine(snapshot)
    pixels = _images(snapshot, _AT_ONCE["cpu"] + 3)
    expected = reference.embed(pixels)
    found = torch.cat([engine.embed(pixels[:1]), engine.embed(pixels[1:])])
    difference = (found - expected).abs().max().item()
    metric = snapshot.memory.metric
    if metric is not None:  # it stretches some directions, and with them what went wrong in those
        lengths = (expected @ metric).norm(dim=1)
        difference = max(difference, (((found - expected) @ metric).norm(dim=1) / lengths).max().item())
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
