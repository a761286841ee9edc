"""Makes torchvision importable beside a torch build that its compiled operators do not fit.

A torchvision wheel built for CUDA cannot load its library beside a CPU torch (libc10_cuda.so is not there). torchvision
forgives that for every operator but two: it registers fake kernels for `nms` and `qnms` without asking whether they
exist, so the import ends with "operator torchvision::nms does not exist". Their schemas alone are enough to go on, and
nothing here detects boxes. timm imports torchvision, so it needs the same.
"""

import importlib.util
from importlib.machinery import PathFinder

import torch

OPERATORS = ("nms", "qnms")
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

# A Library takes its declarations back when it is collected, so it lives as long as the module.
_declarations: torch.library.Library | None = None


def make_torchvision_importable() -> None:
    """Declare what torchvision's import needs, where its compiled operators cannot load.

    Call it before the first import of torchvision or timm; calling it again does nothing.
    """
    global _declarations
    missing = _missing_operators()
    if missing and not _load_compiled_operators():
        _declarations = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            _declarations.define(name + SCHEMA)


def is_cured() -> bool:
    """Whether something had to be declared."""
    return _declarations is not None


def _missing_operators() -> list[str]:
    return [name for name in OPERATORS if not hasattr(torch.ops.torchvision, name)]


def _load_compiled_operators() -> bool:
    """Load them the way torchvision's import would: loading is the only test that cannot be wrong."""
    torchvision = importlib.util.find_spec("torchvision")  # finds, does not import
    compiled = torchvision and PathFinder.find_spec("_C", torchvision.submodule_search_locations)
    if not compiled or not compiled.origin:
        return False
    try:
        torch.ops.load_library(compiled.origin)
    except (ImportError, OSError):
        return False
    return True
