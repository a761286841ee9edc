"""Python and the libraries, each of them used, not only found."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from service.cli.doctor.findings import REINSTALL, Finding

__all__ = ["MACHINE"]

_OLDEST = (3, 11)
_DEVICES = Path("/dev")
_NO_CUDA = "install a torch that is built with CUDA; in containers: --build-arg TORCH_INDEX=..."
_NO_DRIVER = "see what nvidia-smi says, and that CUDA_VISIBLE_DEVICES does not hide it; the driver must fit this torch"


def _python() -> Finding:
    detail = f"{platform.python_version()} at {sys.executable}"
    if tuple(sys.version_info) < _OLDEST:
        return Finding("python", "bad", detail, "install Python 3.11 or newer: make PYTHON=/path/to/python3.11 serve")
    return Finding("python", "ok", detail)


def _torch() -> Finding:
    """Imported for real: versions that do not fit each other show only then."""
    import torch

    from zstci import _torchvision_ops

    _torchvision_ops.make_torchvision_importable()
    import torchvision

    cured = " (its compiled operators do not fit this torch and are not needed)" if _torchvision_ops.is_cured() else ""
    return Finding("torch", "ok", f"{torch.__version__}, torchvision {torchvision.__version__}{cured}")


def _device() -> Finding:
    import torch

    cores = os.cpu_count() or 1
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        memory = f"{device.total_memory / 2**30:.0f} GiB"
        return Finding("device", "ok", f"{device.name}, {memory}, beside {cores} CPU cores")
    if nodes := sorted(node.name for node in _DEVICES.glob("nvidia[0-9]*")):
        detail = (
            f"CPU with {cores} cores; there is a GPU ({', '.join(nodes)}) that torch {torch.__version__} cannot use"
        )
        return Finding("device", "warn", detail, _NO_CUDA if torch.version.cuda is None else _NO_DRIVER)
    return Finding("device", "ok", f"CPU with {cores} cores")


def _onnxruntime() -> Finding:
    """A net of one step, computed: a library that loads may still not run on this processor."""
    import numpy as np
    import onnx
    import onnxruntime  # type: ignore[import-untyped]
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"x": np.ones(1, np.float32)})
    if found.tolist() != [2.0]:
        return Finding("onnxruntime", "bad", f"{onnxruntime.__version__} says that 1 + 1 is {found[0]}", REINSTALL)
    return Finding("onnxruntime", "ok", f"{onnxruntime.__version__}, onnx {onnx.__version__}")


def _faiss() -> Finding:
    import faiss
    import numpy as np

    index = faiss.IndexFlatL2(2)
    index.add(np.eye(2, dtype=np.float32))
    _, [[nearest]] = index.search(np.array([[0.1, 0.9]], dtype=np.float32), 1)
    if nearest != 1:
        return Finding("faiss", "bad", f"{faiss.__version__} finds the wrong neighbour", REINSTALL)
    return Finding("faiss", "ok", str(faiss.__version__))


MACHINE: dict[str, Callable[[], Finding]] = {
    "python": _python,
    "torch": _torch,
    "device": _device,
    "onnxruntime": _onnxruntime,
    "faiss": _faiss,
}
