"""The work of one query for programs without zstci: the pixels, net, search and answer of the service, in numpy.

The benchmark compares every peer's answer with ours before it measures, so this cannot drift away unnoticed.
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from PIL import Image, ImageOps

__all__ = ["Model", "from_environment"]

_TOP_K, _SCORED = 5, 100  # as the service


class Model:
    def __init__(self, folder: Path) -> None:
        self._facts = json.loads((folder / "facts.json").read_text())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(folder / "engine.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._index = faiss.read_index(str(folder / "index.faiss"))
        metric = folder / "metric.npy"
        self._metric = np.load(metric) if metric.exists() else None
        faiss.omp_set_num_threads(1)

    def decode(self, content: bytes) -> Any:
        """[3, S, S]"""
        size, resize = self._facts["size"], self._facts["resize"]
        with Image.open(BytesIO(content)) as opened:
            image = ImageOps.exif_transpose(opened).convert("RGB")
        width, height = image.size
        if min(width, height) != resize:
            long_side = int(resize * max(width, height) / min(width, height))
            shape = (resize, long_side) if width <= height else (long_side, resize)
            image = image.resize(shape, Image.Resampling.BILINEAR)
        left, top = round((image.width - size) / 2.0), round((image.height - size) / 2.0)
        return np.array(image.crop((left, top, left + size, top + size))).transpose(2, 0, 1)

    def classify(self, pixels: list[Any]) -> list[dict[str, Any]]:
        """An answer of the service's shape for each image."""
        [vectors] = self._session.run(["embeddings"], {"pixels": np.stack(pixels)})
        return self.nearest(vectors)

    def nearest(self, vectors: Any) -> list[dict[str, Any]]:
        projected = vectors if self._metric is None else vectors @ self._metric
        squares, positions = self._index.search(
            np.ascontiguousarray(projected, dtype=np.float32), min(_SCORED, self._index.ntotal)
        )
        return [self._answer(*row) for row in zip(squares.clip(0), positions, strict=True)]

    def _answer(self, squares: Any, positions: Any) -> dict[str, Any]:
        scaled = -squares.astype(np.float64) / (self._facts["gap"] ** 2 / 4)
        shares = np.exp(scaled - scaled.max())
        scores, distances = (shares / shares.sum()).tolist(), np.sqrt(squares).tolist()
        ids, names = self._facts["ids"], self._facts["names"]
        found = list(zip(positions.tolist(), distances, scores, strict=True))[:_TOP_K]
        predictions = [
            {"class_id": ids[p], "name": names[ids[p]], "distance": distance, "score": score}
            for p, distance, score in found
        ]
        return {"data": [{"predictions": predictions, "margin": distances[1] - distances[0], "version": 1}]}


def from_environment() -> Model:
    return Model(Path(os.environ["PEER_FOLDER"]))
