"""Bridges over the semantic gap: from paired embeddings of the new task's images, guess where old prototypes went.

The old side is always the *common* space of the previous snapshot, not the raw net's output: there the prototypes live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from zstci.config import TranslatorConfig
from zstci.errors import UnknownStrategy
from zstci.losses import batch_hard_triplet
from zstci.progress import Watch
from zstci.prototypes import class_means
from zstci.seeds import generator, init_seed

__all__ = ["TRANSLATORS", "Pairs", "Residual", "Translation", "check_translator", "fit_translator", "linear_fit"]

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
    matrix = linear_fit(pairs.old, pairs.new, config.ridge)
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
    if config.unify == "paper":
        loss = (
            loss
            + config.gamma * batch_hard_triplet(after, labels, config.margin)
            + config.beta * batch_hard_triplet(before, labels, config.margin)
        )
        # The only positives of a prototype are copies of itself, so at the published margin of 0 delta's triplet is 0.
        if config.margin == 0 or not len(pairs.prototypes):
            return loss
    chosen = torch.randperm(len(pairs.prototypes), generator=random)[: config.batch_size]
    prototypes = old(pairs.prototypes[chosen])
    if config.unify == "paper":
        return loss + config.delta * batch_hard_triplet(prototypes, chosen, config.margin)
    everything, every_label = torch.cat([after, before]), torch.cat([labels, labels])
    loss = loss + (
        config.gamma * batch_hard_triplet(after, labels, config.margin, prototypes)
        + config.beta * batch_hard_triplet(before, labels, config.margin, prototypes)
    )
    if len(prototypes):
        # A prototype's own spread is unknown; the mean reach of the new classes stands in as its farthest positive.
        reach = _mean_reach(everything, every_label)
        gaps = torch.cdist(prototypes, everything).amin(1)
        loss = loss + config.delta * (reach - gaps + config.margin).relu().mean()
    return loss


def _mean_reach(vectors: Tensor, labels: Tensor) -> Tensor:
    """Mean distance of samples to their class mean, a constant: prototypes should yield, not the classes shrink."""
    with torch.no_grad():
        members = torch.nn.functional.one_hot(labels).to(vectors.dtype)  # [B, C]
        means = (members.T @ vectors) / members.sum(0).clamp_min(1)[:, None]
        return (vectors - means[labels]).norm(dim=1).mean()


RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FOLDS = 5
Option = tuple[str, TranslatorConfig]


def _auto(pairs: Pairs, config: TranslatorConfig, seed: object, watch: Watch) -> Translation:
    """Leave new classes out, see which translator predicts their new means best, and fit that one on all.

    The left-out classes play the old ones: classes of which the translator saw no image.
    """
    options = _options(config)
    if len(pairs.targets.unique()) < 2:
        # One class cannot be left out; the strongest shrinkage that still follows a common drift is the safe choice.
        stiff = ("linear", replace(config, ridge=max(RIDGES)))
        best, errors = stiff if stiff in options else options[0], {}
    else:
        errors = _left_out_errors(options, pairs, seed, watch)
        best = min(errors, key=lambda option: errors[option])
    chosen = TRANSLATORS[best[0]](pairs, best[1], seed, watch)
    details: dict[str, float | str] = {**chosen.details, "chosen": best[0]}
    if errors:
        details |= {"left_out_error": errors[best], "left_out_error_none": errors[options[0]]}
    return replace(chosen, details=details)


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
    """Mean squared distance between predicted and true new means of left-out classes, over all folds, by option."""
    classes = pairs.targets.unique()
    order = classes[torch.randperm(len(classes), generator=generator(seed, "folds"))]
    folds = [torch.isin(pairs.targets, order[fold::_FOLDS]) for fold in range(min(_FOLDS, len(order)))]
    linear = [option for option in options if option[0] == "linear"]
    errors = dict(zip(linear, _linear_errors([config.ridge for _, config in linear], pairs, folds), strict=True))
    quiet = watch.silent()  # folds have no progress and no checkpoint of their own
    for option in options:
        if option not in errors:
            errors[option] = sum(_fold_error(option, pairs, held, seed, quiet) for held in folds)
    return {option: errors[option] / len(classes) for option in options}


def _fold_error(option: Option, pairs: Pairs, held: Tensor, seed: object, watch: Watch) -> float:
    name, config = option
    seen = replace(pairs, old=pairs.old[~held], new=pairs.new[~held], targets=pairs.targets[~held])
    fitted = TRANSLATORS[name](seen, config, seed, watch)
    before, after = _held_means(pairs, held)
    if fitted.query is None:
        return float((fitted.old(before) - after).square().sum())
    with torch.no_grad():
        # A space that shrinks makes every error small: measure in units of the net's own space.
        scale = _spread(seen.new) / _spread(fitted.query(seen.new))
        return scale * float((fitted.old(before) - fitted.query(after)).square().sum())


def _spread(vectors: Tensor) -> float:
    return float((vectors - vectors.mean(0)).square().sum())


def _linear_errors(ridges: list[float], pairs: Pairs, folds: list[Tensor]) -> list[float]:
    """The same for every ridge at once. Only the left-out means are predicted, so no map is ever built, and a fold's
    sums are those of all images less its own."""
    x, drift = pairs.old.double(), (pairs.new - pairs.old).double()
    gram, cross, eye = x.T @ x, x.T @ drift, torch.eye(x.shape[1], dtype=torch.float64)
    totals = [0.0] * len(ridges)
    for held in folds if ridges else []:
        fold_gram, fold_cross = gram - x[held].T @ x[held], cross - x[held].T @ drift[held]
        before, after = (means.double() for means in _held_means(pairs, held))
        for i, ridge in enumerate(ridges):
            lower = torch.linalg.cholesky(fold_gram + ridge * eye)
            predicted = before + torch.cholesky_solve(before.T, lower).T @ fold_cross
            totals[i] += float((predicted - after).square().sum())
    return totals


def _held_means(pairs: Pairs, held: Tensor) -> tuple[Tensor, Tensor]:
    names, targets = pairs.targets[held].unique(return_inverse=True)
    before, _ = class_means(pairs.old[held], targets, len(names))
    after, _ = class_means(pairs.new[held], targets, len(names))
    return before, after


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
    with torch.no_grad():
        after = fitted.query(pairs.new) if fitted.query else pairs.new
        residual = float((fitted.old(pairs.old) - after).norm(dim=1).mean())
    return replace(fitted, details={**fitted.details, "residual": residual})
