"""What turns pixels into vectors of the common space, on a CPU. Without torch, which such a server never loads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray

from service.errors import CorruptBundle

__all__ = ["AT_ONCE", "INPUT", "OUTPUT", "Engine", "EngineName", "OnnxEngine", "Pixels", "Vectors"]

EngineName = Literal["onnx", "onnx-int8", "torch"]
Pixels = NDArray[np.uint8]  # [N, 3, S, S]
Vectors = NDArray[np.float32]  # [N, D]

INPUT, OUTPUT = "pixels", "embeddings"
AT_ONCE = 8  # images; on a CPU more of them cost memory and gain nothing


class Engine(Protocol):
    together: int  # images that are worth waiting for, each with a thread of its own

    def embed(self, pixels: Pixels) -> Vectors:
        """Vectors in the common space. From any thread."""

    def embed_alone(self, pixels: Pixels) -> Vectors:
        """The same on the thread that asks, without waiting for company."""


class OnnxEngine:
    """One session for all threads. Each call computes on the thread that makes it, and no thread spins for work."""

    together = 1

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

    def embed(self, pixels: Pixels) -> Vectors:
        parts = [
            self._session.run([OUTPUT], {INPUT: pixels[begin : begin + AT_ONCE]})[0]
            for begin in range(0, len(pixels), AT_ONCE)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    embed_alone = embed
