"""The exported net in 8 bits, for who asks for it: kept only where it names the same class as the one in 32 bits."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (  # type: ignore[import-untyped]
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process  # type: ignore[import-untyped]

from service.serving.engine import AT_ONCE, INPUT, OnnxEngine, Pixels
from service.serving.index import PrototypeIndex

__all__ = ["LEAST_AGREEMENT", "quantize"]

logger = logging.getLogger(__name__)

LEAST_AGREEMENT = 0.99  # of the images whose nearest class is the same
_CALIBRATED_WITH = 32  # images
# Layers of the trunk. The head decides between classes; in 8 bits it costs more agreement than all of these.
_LAYERS = ["Conv", "Clip", "Relu", "Add"]


class _Images(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, pixels: Pixels, between: Callable[[], None]) -> None:
        self._images: Iterator[Pixels] = iter(pixels[:, None])
        self._between = between

    def get_next(self) -> dict[str, Pixels] | None:
        self._between()
        image = next(self._images, None)
        return None if image is None else {INPUT: image}


def quantize(path: Path, pixels: Pixels, index: PrototypeIndex, between: Callable[[], None] = lambda: None) -> float:
    """Replace the file by one in 8 bits, if that agrees on these images; the share of them that it does agree on. Of
    more than one, those that calibrate it are not asked. `between` is called between two pieces of the work."""
    calibrating = np.zeros(len(pixels), dtype=bool)
    calibrating[:: max(2, len(pixels) // _CALIBRATED_WITH)] = True
    asked = pixels[~calibrating] if len(pixels) > 1 else pixels
    with tempfile.TemporaryDirectory() as folder:
        smaller = Path(folder) / "engine.onnx"
        _write(path, smaller, _Images(pixels[calibrating][:_CALIBRATED_WITH], between))
        agreement = float((_nearest(path, asked, index, between) == _nearest(smaller, asked, index, between)).mean())
        kept = agreement >= LEAST_AGREEMENT
        if kept:
            path.write_bytes(smaller.read_bytes())
    about = {"action": "quantized" if kept else "quantization_refused", "agreement": round(agreement, 4)}
    logger.info("8 bits kept" if kept else "8 bits refused", extra=about)
    return agreement


def _write(path: Path, smaller: Path, images: _Images) -> None:
    prepared = smaller.with_name("prepared.onnx")
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(smaller),
        images,
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=_LAYERS,
        per_channel=True,
        # 7 bits for weights: without VNNI, sums of products of 8 bits overflow (cosine 0.86 instead of 0.98).
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def _nearest(
    path: Path, pixels: Pixels, index: PrototypeIndex, between: Callable[[], None]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    engine, parts = OnnxEngine(path), []
    for begin in range(0, len(pixels), AT_ONCE):
        between()
        parts.append(engine.embed(pixels[begin : begin + AT_ONCE]))
    _, positions = index.search(np.concatenate(parts), 1)
    return positions[:, 0]
