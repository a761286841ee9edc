"""Bridges over the semantic gap: from paired embeddings of the new task's images, guess where old prototypes went.

The old side is always the *common* space of the previous snapshot, not the raw net's output: there the prototypes live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from zstci.config import TranslatorConfig
from zstci.errors import UnknownStrategy
from zstci.hearing import aside
from zstci.losses import batch_hard_triplet
from zstci.progress import Watch
from zstci.seeds import generator, init_seed

__all__ = [
    "TRANSLATORS",
    "Pairs",
    "Residual",
    "Translation",
    "check_translator",
    "fit_translator",
    "linear_fit",
    "ridge_errors",
]

_CHUNK = 4096  # prototypes at a time: a million of them must not build a million x images matrix


@dataclass(frozen=True)
class Pairs:
    """The same images seen by both sides: `old` in common_{t-1}, `new` in f_t, [N, D] each."""

    old: Tensor
    new: Tensor
    targets: Tensor
    prototypes: Tensor  # [C, D] of the old classes, in common_{t-1}
    device: str = "cpu"  # where to train; the tensors themselves stay on the CPU


class Residual(nn.Module):
    """x + g(x), g a two-layer net that learns only what moved."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.g = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim), nn.LeakyReLU(0.2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.g(x)


@dataclass(frozen=True)
class Translation:
    """`old` moves prototypes from common_{t-1} to common_t; `query`, where there is one, moves f_t's output there."""

    name: str
    old: Callable[[Tensor], Tensor]
    query: Residual | None = None
    matrix: Tensor | None = None  # [D, D], where `old` is exactly u @ matrix
    details: dict[str, float | str] = field(default_factory=dict)


def _none(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    return Translation("none", lambda u: u)


def _sdc(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    """Semantic drift compensation: each vector moves like the new images that were near it."""
    drift = pairs.new - pairs.old

    def old(vectors: Tensor) -> Tensor:
        def move(part: Tensor) -> Tensor:
            squares = torch.cdist(part, pairs.old).square()  # [c, N]
            return part + torch.softmax(-squares / (2 * config.sigma**2), dim=1) @ drift

        return torch.cat([move(part) for part in vectors.split(_CHUNK)]) if len(vectors) else vectors

    return Translation("sdc", old, details={"sigma": config.sigma})


def _linear(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    """Closed-form ridge regression of the *drift* on the old embedding: without evidence, nothing moves."""
    matrix = aside(lambda: linear_fit(pairs.old, pairs.new, config.ridge), watch.look)
    return Translation("linear", lambda u: u @ matrix, matrix=matrix, details={"ridge": config.ridge})


def linear_fit(old: Tensor, new: Tensor, ridge: float) -> Tensor:
    """I + argmin_W |old W - (new - old)|^2 + ridge |W|^2, [D, D]."""
    x, drift = old.double(), (new - old).double()
    count, dim = x.shape
    if count < dim:  # the same solution from the smaller of the two systems
        small = x @ x.T + ridge * torch.eye(count, dtype=torch.float64)
        weights = x.T @ torch.linalg.solve(small, drift)
    else:
        weights = torch.linalg.solve(x.T @ x + ridge * torch.eye(dim, dtype=torch.float64), x.T @ drift)
    return (torch.eye(dim, dtype=torch.float64) + weights).float()


def _zstci(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    """Zero-shot translation: two small nets meet in a common space, trained on the new task's images alone."""
    dim = pairs.old.shape[1]
    with init_seed(seed, "translators"):
        maps = nn.ModuleDict({side: Residual(dim, config.hidden) for side in ("old", "new")}).to(pairs.device)
    optimizer = torch.optim.Adam(maps.parameters(), lr=config.lr, fused=True)
    near = replace(
        pairs, **{side: getattr(pairs, side).to(pairs.device) for side in ("old", "new", "targets", "prototypes")}
    )

    def losses(epoch: int) -> Iterator[Tensor]:
        random = generator(seed, "translators", epoch)
        for batch in torch.randperm(len(pairs.old), generator=random).split(config.batch_size):
            yield _translation_loss(maps["old"], maps["new"], near, batch, config, random)

    watch.epochs("translating", maps, optimizer, config.epochs, losses)
    maps.cpu().eval().requires_grad_(False)
    query = maps["new"]
    assert isinstance(query, Residual)
    return Translation("zstci", maps["old"], query)


def _translation_loss(
    old: nn.Module, new: nn.Module, pairs: Pairs, batch: Tensor, config: TranslatorConfig, random: torch.Generator
) -> Tensor:
    """align + gamma tri(m) + beta tri(m~) + delta tri(u~), the published sums over the batch."""
    before, after, labels = old(pairs.old[batch]), new(pairs.new[batch]), pairs.targets[batch]
    loss = (before - after).abs().sum() if config.align else before.new_zeros(())
    if config.unify == "off":
        return loss
    chosen = torch.randperm(len(pairs.prototypes), generator=random)[: config.batch_size]
    crossing = config.unify == "unified"
    # The only positives of a prototype are copies of itself, so at the published margin of 0 delta's triplet is always
    # 0, and prototypes matter only where they are the negatives of others.
    needed = len(chosen) > 0 and (crossing or config.margin > 0)
    prototypes = old(pairs.prototypes[chosen]) if needed else before[:0]
    others = prototypes if crossing else None
    loss = loss + config.gamma * batch_hard_triplet(after, labels, config.margin, others)
    loss = loss + config.beta * batch_hard_triplet(before, labels, config.margin, others)
    if needed and config.margin > 0:
        everything = torch.cat([after, before]) if crossing else None
        loss = loss + config.delta * batch_hard_triplet(prototypes, chosen.to(before.device), config.margin, everything)
    return loss


RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FOLDS = 5
Option = tuple[str, TranslatorConfig]


def _auto(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    """Leave images out, see which translator predicts their new embeddings best, and fit that one on all.

    Images, not whole classes: the net was trained to move the new classes, each its own way, so a left-out class drifts
    as no other does, while old classes drift as images in general do. tests/paper/leave_out.py compares.
    """
    options = _options(config)
    errors = _left_out_errors(options, pairs, seed, watch) if len(pairs.old) > 1 else {options[0]: 0.0}
    best = min(errors, key=lambda option: errors[option])
    chosen = TRANSLATORS[best[0]](pairs, best[1], seed, watch)
    found = {"left_out_error": errors[best], "left_out_error_none": errors[options[0]]}
    return replace(chosen, details={**chosen.details, "chosen": best[0], **found})


def _options(config: TranslatorConfig) -> list[Option]:
    unknown = [name for name in config.candidates if name not in TRANSLATORS or name == "auto"]
    if unknown:
        raise UnknownStrategy("candidate of auto", unknown[0], set(TRANSLATORS) - {"auto"})
    options = [("none", config)]
    for name in config.candidates:
        variants = [replace(config, ridge=ridge) for ridge in RIDGES] if name == "linear" else [config]
        options += [(name, variant) for variant in variants if name != "none"]
    return options


def _left_out_errors(options: list[Option], pairs: Pairs, seed: object, watch: Watch) -> dict[Option, float]:
    """Mean squared distance between predicted and true new embeddings of images that the fit did not see, by option."""
    count = len(pairs.old)
    linear = [option for option in options if option[0] == "linear"]
    ridges = [c.ridge for _, c in linear]
    found = aside(lambda: ridge_errors(pairs.old, pairs.new, ridges), watch.look)
    errors = dict(zip(linear, found, strict=True))
    fold_of = torch.randperm(count, generator=generator(seed, "folds")) % _FOLDS
    quiet = watch.silent()  # folds have no progress and no checkpoint of their own
    for option in options:
        if option not in errors:
            folds = (fold_of == fold for fold in range(min(_FOLDS, count)))
            errors[option] = sum(_fold_error(option, pairs, held, seed, quiet) for held in folds) / count
    return {option: errors[option] for option in options}


def ridge_errors(old: Tensor, new: Tensor, ridges: Sequence[float]) -> list[float]:
    """The same for `linear`, each image left out alone, for all ridges at once and in closed form: what is left of an
    image's drift after a fit on all, divided by 1 - leverage, is what would be left after a fit without it."""
    x, drift = old.double(), (new - old).double()
    # The singular vectors and squared values of x, from the smaller of its two products.
    few = len(x) <= x.shape[1]
    squares, vectors = torch.linalg.eigh(x @ x.T if few else x.T @ x)  # [r]
    squares = squares.clamp_min(float(squares.max()) * 1e-15)
    left = vectors if few else x @ vectors / squares.sqrt()  # [N, r]
    inside = left.T @ drift  # [r, D]
    errors = []
    for ridge in ridges:
        shrink = squares / (squares + ridge)
        leverage = (left.square() * shrink).sum(1, keepdim=True)  # [N, 1]
        missed = (drift - (left * shrink) @ inside) / (1 - leverage)
        errors.append(float(missed.square().sum()) / len(old))
    return errors


def _fold_error(option: Option, pairs: Pairs, held: Tensor, seed: object, watch: Watch) -> float:
    name, config = option
    seen = replace(pairs, old=pairs.old[~held], new=pairs.new[~held], targets=pairs.targets[~held])
    fitted = TRANSLATORS[name](seen, config, seed, watch)
    before, after = pairs.old[held], pairs.new[held]
    if fitted.query is None:
        return float((fitted.old(before) - after).square().sum())
    with torch.no_grad():
        # A space that shrinks makes every error small: measure in units of the net's own space.
        scale = _spread(seen.new) / _spread(fitted.query(seen.new))
        return scale * float((fitted.old(before) - fitted.query(after)).square().sum())


def _spread(vectors: Tensor) -> float:
    return float((vectors - vectors.mean(0)).square().sum())


Fit = Callable[[Pairs, TranslatorConfig, object, Watch], Translation]
TRANSLATORS: dict[str, Fit] = {"none": _none, "sdc": _sdc, "linear": _linear, "zstci": _zstci, "auto": _auto}


def check_translator(name: str, config: TranslatorConfig) -> None:
    if name not in TRANSLATORS:
        raise UnknownStrategy("translator", name, TRANSLATORS)
    if name == "auto":
        _options(config)


def fit_translator(name: str, pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    """Fit by name, and record how far the two sides of the new task's images are apart afterwards."""
    check_translator(name, config)
    fitted = TRANSLATORS[name](pairs, config, seed, watch)
    residual = aside(lambda: _residual(fitted, pairs), watch.look)
    return replace(fitted, details={**fitted.details, "residual": residual})


@torch.no_grad()
def _residual(fitted: Translation, pairs: Pairs) -> float:
    after = fitted.query(pairs.new) if fitted.query else pairs.new
    return float((fitted.old(pairs.old) - after).norm(dim=1).mean())
