import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from zstci.seeds import deterministic, generator, init_seed

parts = st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.integers())), max_size=3)


def draw(*purpose: object) -> list[int]:
    return torch.randint(2**62, (4,), generator=generator(*purpose)).tolist()


@settings(deadline=None, max_examples=50)
@given(parts, parts)
def test_draws_depend_on_the_purpose_and_on_nothing_else(first: list[object], second: list[object]) -> None:
    assert draw(*first) == draw(*first)
    assert (draw(*first) == draw(*second)) == (repr(first) == repr(second))


def test_the_number_behind_a_purpose_never_changes() -> None:
    # A resumed run of another day, process or machine must draw the same.
    assert generator(1993, 2, "epoch", 3).initial_seed() == 2_207_953_859_787_661_767


def test_modules_built_with_a_seed_are_equal_and_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)

    weights = []
    for seed in (1, 1, 2):
        with init_seed(seed, "net"):
            weights.append(nn.Linear(3, 3).weight)

    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.rand(3), expected)


def test_the_callers_random_state_comes_back_after_an_error() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()

    with pytest.raises(RuntimeError, match="negative dimension"), init_seed(1):
        torch.rand(3) @ torch.rand(-1)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("enabled", [False, True])
def test_deterministic_kernels_are_on_inside_and_as_before_outside(enabled: bool) -> None:
    torch.use_deterministic_algorithms(enabled)
    try:
        with deterministic():
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.is_deterministic_algorithms_warn_only_enabled()
        with pytest.raises(RuntimeError, match="negative dimension"), deterministic():
            torch.rand(-1)

        assert torch.are_deterministic_algorithms_enabled() is enabled
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
