"""What takes the steps, against the formulas written out."""

import math

import pytest
import torch

from zstci import preset
from zstci.config import TrainConfig
from zstci.optimizers import EPSILON, adam

# Tiny as those of a dead channel, middling, and so large that epsilon says nothing.
GRADIENTS = torch.tensor([1e-8, 1e-7, 1.0])
STEPS = 5


def stepped(train: TrainConfig, start: torch.Tensor) -> torch.Tensor:
    weights = torch.nn.Parameter(start.clone())
    optimizer = adam([weights], train)
    for step in range(1, STEPS + 1):
        weights.grad = GRADIENTS * step
        optimizer.step()
    return weights.detach()


def by_hand(train: TrainConfig, start: torch.Tensor, plain: bool) -> torch.Tensor:
    weights, mean, square = start.double(), torch.zeros(3).double(), torch.zeros(3).double()
    for step in range(1, STEPS + 1):
        gradient = GRADIENTS.double() * step + train.weight_decay * weights
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        first, second = 1 - 0.9**step, 1 - 0.999**step
        if plain:  # as PyTorch had it before 1.3
            weights = weights - train.lr * math.sqrt(second) / first * mean / (square.sqrt() + EPSILON)
        else:
            weights = weights - train.lr * (mean / first) / ((square / second).sqrt() + EPSILON)
    return weights


@pytest.mark.parametrize("epsilon", ["corrected", "plain"])
@pytest.mark.parametrize("decay", [0.0, 2e-4])
def test_adam_is_the_formula(epsilon, decay):
    train = TrainConfig(lr=0.1, weight_decay=decay, epsilon=epsilon)
    start = torch.tensor([0.0, 1e-3, 1.0])

    torch.testing.assert_close(
        stepped(train, start).double(), by_hand(train, start, epsilon == "plain"), rtol=1e-4, atol=1e-6
    )


def test_a_plain_epsilon_holds_back_tiny_gradients_and_no_others():
    start = torch.zeros(3)
    plain, corrected = (stepped(TrainConfig(lr=0.1, epsilon=epsilon), start) for epsilon in ("plain", "corrected"))

    assert plain[0] / corrected[0] < 0.5
    assert plain[2] / corrected[2] == pytest.approx(1, abs=1e-4)


def test_a_state_that_was_loaded_goes_on_at_its_step():
    """A resumed run must scale epsilon as the run that was stopped would have."""
    train = TrainConfig(lr=0.1, epsilon="plain")
    weights = torch.nn.Parameter(torch.zeros(3))
    first = adam([weights], train)
    for step in range(1, 4):
        weights.grad = GRADIENTS * step
        first.step()
    again = torch.nn.Parameter(weights.detach().clone())
    second = adam([again], train)
    second.load_state_dict(first.state_dict())
    for step in range(4, STEPS + 1):
        again.grad = GRADIENTS * step
        second.step()

    assert torch.equal(again.detach(), stepped(train, torch.zeros(3)))


def test_the_papers_presets_take_its_steps_and_the_products_take_todays():
    assert {name: preset(name).train.epsilon for name in ("default", "head", "paper-cifar100", "paper-cub")} == {
        "default": "corrected",
        "head": "corrected",
        "paper-cifar100": "plain",
        "paper-cub": "plain",
    }
