"""none, sdc and linear against loops; `zstci` and `auto` have files of their own."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import zstci.translators
from zstci.config import TranslatorConfig
from zstci.errors import UnknownStrategy
from zstci.progress import Watch
from zstci.translators import Pairs, Translation, fit_translator, linear_fit

DIM = 4
TINY = TranslatorConfig(hidden=8, epochs=2)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(seed: int, count: int) -> Tensor:
    return torch.nn.functional.normalize(normal(seed, count, DIM))


def some_pairs(classes: int = 4, per_class: int = 5, prototypes: int = 3) -> Pairs:
    """Images that drifted by a linear map and a little noise."""
    count = classes * per_class
    old, drift = unit(0, count), 0.3 * normal(1, DIM, DIM)
    targets = torch.arange(classes).repeat_interleave(per_class)
    return Pairs(old, old + old @ drift + 0.01 * normal(2, count, DIM), targets, unit(3, prototypes))


def fitted(name: str, pairs: Pairs, config: TranslatorConfig = TINY) -> Translation:
    return fit_translator(name, pairs, config, (1993, 2), Watch())


def residual(translation: Translation) -> float:
    return float(translation.details["residual"])


def test_none_leaves_every_vector_where_it_is() -> None:
    pairs = some_pairs()

    translation = fitted("none", pairs)

    assert torch.equal(translation.old(pairs.prototypes), pairs.prototypes)
    assert translation.query is None
    assert residual(translation) == pytest.approx(float((pairs.old - pairs.new).norm(dim=1).mean()))


def naive_sdc(prototype: list[float], pairs: Pairs, sigma: float) -> list[float]:
    old, new = pairs.old.double().tolist(), pairs.new.double().tolist()
    weights = []
    for z in old:
        square = sum((z[d] - prototype[d]) ** 2 for d in range(DIM))
        weights.append(math.exp(-square / (2 * sigma**2)))
    moved = list(prototype)
    for d in range(DIM):
        for i, weight in enumerate(weights):
            moved[d] += weight / sum(weights) * (new[i][d] - old[i][d])
    return moved


@pytest.mark.parametrize("sigma", [0.1, 0.3, 5.0])
@pytest.mark.parametrize("chunk", [1, 3, 4096])
def test_sdc_moves_a_prototype_like_the_images_around_it(
    sigma: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zstci.translators, "_CHUNK", chunk)
    pairs = some_pairs(prototypes=7)

    moved = fitted("sdc", pairs, replace(TINY, sigma=sigma)).old(pairs.prototypes)

    expected = [naive_sdc(prototype, pairs, sigma) for prototype in pairs.prototypes.double().tolist()]
    torch.testing.assert_close(moved, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_sdc_moves_a_prototype_that_is_far_from_every_image_by_a_finite_amount() -> None:
    pairs = some_pairs()  # exp(-|z - u|^2 / (2 sigma^2)) is 0 in floating point for each image

    moved = fitted("sdc", pairs).old(torch.full((1, DIM), 100.0))

    assert torch.isfinite(moved).all()


def test_an_empty_set_of_prototypes_stays_empty() -> None:
    for name in ("none", "sdc", "linear", "zstci"):
        assert fitted(name, some_pairs(prototypes=0)).old(torch.zeros(0, DIM)).shape == (0, DIM)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 100.0])
@pytest.mark.parametrize("per_class", [2, 5, 1], ids=["as many images as dimensions", "more", "fewer"])
def test_linear_solves_the_ridge_regression_of_the_drift(ridge: float, per_class: int) -> None:
    pairs = some_pairs(classes=2, per_class=per_class)

    translation = fitted("linear", pairs, replace(TINY, ridge=ridge))

    # Ridge as ordinary least squares: DIM more rows that ask for W = 0.
    rows = torch.cat([pairs.old.double(), math.sqrt(ridge) * torch.eye(DIM, dtype=torch.float64)])
    wanted = torch.cat([(pairs.new - pairs.old).double(), torch.zeros(DIM, DIM, dtype=torch.float64)])
    drift = torch.linalg.lstsq(rows, wanted).solution
    expected = pairs.prototypes.double() + pairs.prototypes.double() @ drift
    torch.testing.assert_close(translation.old(pairs.prototypes), expected.float(), rtol=1e-4, atol=1e-5)
    assert translation.query is None


def test_linear_without_drift_is_the_identity_bit_for_bit() -> None:
    pairs = some_pairs()

    translation = fitted("linear", replace(pairs, new=pairs.old))

    assert torch.equal(translation.old(pairs.prototypes), pairs.prototypes)


def test_linear_with_a_tiny_ridge_recovers_a_true_linear_drift() -> None:
    old, matrix = unit(0, 30), normal(1, DIM, DIM)

    torch.testing.assert_close(linear_fit(old, old @ matrix, 1e-8), matrix, rtol=1e-4, atol=1e-5)


def test_linear_with_fewer_images_than_dimensions_does_not_move_what_it_never_saw() -> None:
    old = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    new = torch.tensor([[1.0, 1.0, 0.0, 0.0]])

    matrix = linear_fit(old, new, 1e-6)

    torch.testing.assert_close(matrix[0], torch.tensor([1.0, 1.0, 0.0, 0.0]), rtol=1e-4, atol=1e-5)
    assert torch.equal(matrix[1:], torch.eye(DIM)[1:])


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownStrategy, match="'lineal'; choose one of: auto, linear, none, sdc, zstci"):
        fitted("lineal", some_pairs())
