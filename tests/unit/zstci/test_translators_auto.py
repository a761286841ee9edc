"""`auto` leaves images out to see which translator would have found them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from zstci.config import TranslatorConfig
from zstci.errors import UnknownStrategy
from zstci.progress import Watch
from zstci.translators import RIDGES, Pairs, Translation, fit_translator, linear_fit, ridge_errors

DIM = 4
CONFIG = TranslatorConfig(hidden=8, epochs=2)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def clusters(seed: int, classes: int, per_class: int = 6) -> tuple[Tensor, Tensor]:
    centres = torch.nn.functional.normalize(normal(seed, classes, DIM))
    targets = torch.arange(classes).repeat_interleave(per_class)
    return centres[targets] + 0.1 * normal(seed + 1, len(targets), DIM), targets


def linear_drift(seed: int, classes: int) -> Pairs:
    old, targets = clusters(seed, classes)
    new = old + 0.4 * old @ normal(seed + 2, DIM, DIM) + 0.01 * normal(seed + 3, *old.shape)
    return Pairs(old, new, targets, torch.nn.functional.normalize(normal(seed + 4, 5, DIM)))


def auto(pairs: Pairs, config: TranslatorConfig = CONFIG, seed: object = 0) -> Translation:
    return fit_translator("auto", pairs, config, seed, Watch())


def naive_left_out_error(pairs: Pairs, ridge: float | None) -> float:
    """One image out at a time, `linear` fitted on the others (None: no translator)."""
    errors = []
    for i in range(len(pairs.old)):
        kept = torch.arange(len(pairs.old)) != i
        matrix = torch.eye(DIM) if ridge is None else linear_fit(pairs.old[kept], pairs.new[kept], ridge)
        errors.append(float((pairs.old[i] @ matrix - pairs.new[i]).square().sum()))
    return sum(errors) / len(errors)


def test_auto_prefers_linear_to_none_where_the_drift_is_linear() -> None:
    pairs = linear_drift(0, 12)

    chosen = auto(pairs)

    assert chosen.name == chosen.details["chosen"] == "linear"
    assert float(chosen.details["left_out_error"]) < float(chosen.details["left_out_error_none"]) / 10


def test_auto_picks_none_where_nothing_drifted() -> None:
    pairs = linear_drift(0, 6)

    chosen = auto(replace(pairs, new=pairs.old))

    assert chosen.details["chosen"] == "none"
    assert torch.equal(chosen.old(pairs.prototypes), pairs.prototypes)


@pytest.mark.parametrize("classes", [1, 2, 12])
def test_the_errors_of_auto_equal_a_loop_that_leaves_each_image_out(classes: int) -> None:
    pairs = linear_drift(0, classes)

    details = auto(pairs, replace(CONFIG, candidates=("linear",)), seed=0).details

    errors = {ridge: naive_left_out_error(pairs, ridge) for ridge in RIDGES}
    assert ridge_errors(pairs.old, pairs.new, RIDGES) == pytest.approx(list(errors.values()), rel=1e-3)
    assert details["left_out_error_none"] == pytest.approx(naive_left_out_error(pairs, None), rel=1e-4)
    assert details["left_out_error"] == pytest.approx(min(errors.values()), rel=1e-3)
    assert details["ridge"] == min(errors, key=lambda ridge: errors[ridge])


def test_the_closed_form_holds_with_fewer_images_than_dimensions() -> None:
    pairs = linear_drift(0, 1)
    few = replace(pairs, old=pairs.old[:3], new=pairs.new[:3], targets=pairs.targets[:3])

    expected = [naive_left_out_error(few, ridge) for ridge in RIDGES]
    assert ridge_errors(few.old, few.new, RIDGES) == pytest.approx(expected, rel=1e-3)


def test_a_net_that_moves_each_new_class_its_own_way_does_not_fool_auto() -> None:
    """Two classes are pulled apart by the training; everything else, old classes among it, turns alike."""
    turn = torch.linalg.qr(torch.eye(DIM) + 0.3 * normal(5, DIM, DIM))[0]
    old, targets = clusters(0, 2, per_class=40)
    pushed = torch.where(targets[:, None] == 0, 0.2, -0.2) * normal(6, 1, DIM)
    pairs = Pairs(old, old @ turn + pushed, targets, torch.nn.functional.normalize(normal(7, 9, DIM)))

    gap = (auto(pairs).old(pairs.prototypes) - pairs.prototypes @ turn).square().sum()

    assert gap < (pairs.prototypes - pairs.prototypes @ turn).square().sum()


def test_the_chosen_translator_is_fitted_on_all_classes() -> None:
    pairs = linear_drift(0, 12)

    chosen = auto(pairs)

    expected = pairs.prototypes @ linear_fit(pairs.old, pairs.new, float(chosen.details["ridge"]))
    torch.testing.assert_close(chosen.old(pairs.prototypes), expected)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 8), noise=st.sampled_from([0.0, 0.05, 1.0]))
def test_auto_is_never_worse_than_none_by_its_own_measure(seed: int, classes: int, noise: float) -> None:
    old, targets = clusters(seed, classes)
    pairs = Pairs(old, old + noise * normal(seed + 2, *old.shape), targets, normal(seed + 3, 3, DIM))

    details = auto(pairs).details

    assert float(details["left_out_error"]) <= float(details["left_out_error_none"])


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_auto_works_with_few_classes(classes: int) -> None:
    pairs = linear_drift(0, classes)

    assert torch.isfinite(auto(pairs).old(pairs.prototypes)).all()


def test_with_a_single_image_there_is_nothing_to_leave_out_and_nothing_moves() -> None:
    pairs = linear_drift(0, 1)
    one = replace(pairs, old=pairs.old[:1], new=pairs.new[:1], targets=pairs.targets[:1])

    assert auto(one).name == "none"


def test_auto_is_the_same_for_the_same_seed() -> None:
    pairs, config = linear_drift(0, 7), replace(CONFIG, candidates=("sdc", "linear", "zstci"))

    first, again = (auto(pairs, config, seed=3) for _ in range(2))

    assert first.details == again.details
    assert torch.equal(first.old(pairs.prototypes), again.old(pairs.prototypes))


def test_auto_can_be_told_its_candidates() -> None:
    pairs = linear_drift(0, 6)

    assert auto(pairs, replace(CONFIG, candidates=())).name == "none"
    assert auto(pairs, replace(CONFIG, candidates=("sdc",))).name in ("none", "sdc")


@pytest.mark.parametrize("name", ["lineal", "auto"])
@pytest.mark.parametrize("classes", [1, 3])
def test_an_unknown_candidate_lists_the_known_ones(name: str, classes: int) -> None:
    with pytest.raises(UnknownStrategy, match=f"'{name}'; choose one of: linear, none, sdc, zstci"):
        auto(linear_drift(0, classes), replace(CONFIG, candidates=("linear", name)))
