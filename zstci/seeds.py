"""Random numbers that depend on what they are for, not on what was drawn before: so a resumed run draws the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["deterministic", "generator", "init_seed"]


def _number(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def generator(*parts: object) -> torch.Generator:
    """A fresh CPU generator for one purpose, such as `generator(seed, task, "epoch", 3)`."""
    return torch.Generator().manual_seed(_number(*parts))


@contextmanager
def init_seed(*parts: object) -> Iterator[None]:
    """Modules built inside draw their initial weights from this seed; the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_number(*parts))
        yield


@contextmanager
def deterministic() -> Iterator[None]:
    """Repeatable kernels where torch has them (it warns where a GPU has none), restored afterwards."""
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    # Filling every new tensor guards against reading garbage; it is not needed to repeat a run and cost up to 19 %.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
