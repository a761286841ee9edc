"""Checkpoints on a real disk, of a real net with Adam's state. Only time is faked."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from zstci.errors import Diverged, Stopped
from zstci.progress import Checkpoints, Progress, Watch

Losses = Callable[[int], Iterator[Tensor]]


def tiny_net() -> tuple[nn.Module, torch.optim.Optimizer]:
    """With BatchNorm for its counters, and in channels_last, as every image net of this package is."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2))
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net, torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=1e-3, fused=True)


def training_of(net: nn.Module) -> Losses:
    def losses(epoch: int) -> Iterator[Tensor]:
        random = torch.Generator().manual_seed(epoch)
        for _ in range(3):
            yield net(torch.randn(2, 3, 4, 4, generator=random)).square().mean()

    return losses


def trained(epochs: int, watch: Watch) -> tuple[nn.Module, torch.optim.Optimizer]:
    net, optimizer = tiny_net()
    watch.epochs("training", net, optimizer, epochs, training_of(net))
    return net, optimizer


def saving(folder: Path, key: str = "this task") -> Watch:
    return Watch(checkpoints=Checkpoints(folder, key, every_seconds=0))


def assert_same(
    found: tuple[nn.Module, torch.optim.Optimizer], expected: tuple[nn.Module, torch.optim.Optimizer]
) -> None:
    for name, value in expected[0].state_dict().items():
        assert torch.equal(found[0].state_dict()[name], value), name
    states = [optimizer.state_dict()["state"] for _, optimizer in (found, expected)]
    assert states[0].keys() == states[1].keys()
    for position, state in states[1].items():
        for name, value in state.items():
            assert torch.equal(states[0][position][name], value), (position, name)


def test_a_checkpoint_restores_module_and_adam_bit_for_bit(tmp_path: Path) -> None:
    expected = trained(2, saving(tmp_path))
    found = tiny_net()

    assert Checkpoints(tmp_path, "this task").restore("training", *found) == 2
    assert_same(found, expected)


def test_a_run_that_goes_on_from_a_checkpoint_ends_bit_for_bit_like_one_that_never_stopped(tmp_path: Path) -> None:
    trained(2, saving(tmp_path))

    assert_same(trained(5, saving(tmp_path)), trained(5, Watch()))


def test_a_finished_stage_is_not_trained_again(tmp_path: Path) -> None:
    expected = trained(2, saving(tmp_path))
    reports: list[Progress] = []

    found = trained(2, Watch(reports.append, checkpoints=Checkpoints(tmp_path, "this task", 0)))

    assert_same(found, expected)
    assert reports == []


def test_each_stage_has_its_own_checkpoint(tmp_path: Path) -> None:
    trained(2, saving(tmp_path))

    assert Checkpoints(tmp_path, "this task").restore("another stage", *tiny_net()) == 0


def test_a_checkpoint_of_other_data_is_ignored_and_written_over(tmp_path: Path) -> None:
    trained(2, saving(tmp_path, "other task"))
    untouched = tiny_net()
    assert Checkpoints(tmp_path, "this task").restore("training", *untouched) == 0
    assert_same(untouched, tiny_net())

    assert_same(trained(3, saving(tmp_path)), trained(3, Watch()))
    assert Checkpoints(tmp_path, "this task").restore("training", *tiny_net()) == 3


def flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0x40]) + content[position + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:0],
        lambda content: b"no safetensors file" + content,
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: flipped(content, 12),
        lambda content: flipped(content, len(content) - 2),
    ],
    ids=["empty", "garbage", "half", "one byte short", "one byte long", "header altered", "one weight altered"],
)
def test_a_damaged_checkpoint_is_ignored(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    trained(2, saving(tmp_path))
    path = tmp_path / "training.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    untouched = tiny_net()

    assert Checkpoints(tmp_path, "this task").restore("training", *untouched) == 0
    assert_same(untouched, tiny_net())


@pytest.mark.parametrize("answers", [1, 4, 7])
def test_a_stop_raises_stopped_and_the_next_run_ends_as_if_there_had_been_none(tmp_path: Path, answers: int) -> None:
    asked = itertools.count(1)
    watch = Watch(should_stop=lambda: next(asked) == answers, checkpoints=Checkpoints(tmp_path, "this task", 0))

    with pytest.raises(Stopped, match="same checkpoint folder"):
        trained(3, watch)

    assert_same(trained(3, saving(tmp_path)), trained(3, Watch()))


def test_a_loss_that_leaves_the_finite_numbers_raises_diverged_and_is_not_saved(tmp_path: Path) -> None:
    net, optimizer = tiny_net()

    def losses(epoch: int) -> Iterator[Tensor]:
        for loss in training_of(net)(epoch):
            yield loss * torch.nan if epoch == 1 else loss

    with pytest.raises(Diverged, match="training: the loss became nan in epoch 2; lower the learning rate"):
        saving(tmp_path).epochs("training", net, optimizer, 4, losses)

    assert Checkpoints(tmp_path, "this task").restore("training", *tiny_net()) == 1


def test_every_epoch_reports_its_fraction_and_its_mean_loss() -> None:
    parameter = nn.Linear(1, 1)
    reports: list[Progress] = []

    def losses(epoch: int) -> Iterator[Tensor]:
        for constant in (1.0, 2.0, 6.0):
            yield 0 * parameter.weight.sum() + constant + epoch

    Watch(reports.append).epochs("training", parameter, torch.optim.Adam(parameter.parameters()), 2, losses)

    assert reports == [Progress("training", 0.5, 1, 2, 3.0), Progress("training", 1.0, 2, 2, 4.0)]


def test_checkpoints_are_written_at_most_once_in_the_given_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("zstci.progress.time.monotonic", lambda: now)
    checkpoints = Checkpoints(tmp_path, "this task", every_seconds=5)

    written = []
    for epoch, now in enumerate([104.0, 105.0, 109.9, 110.0], start=1):  # noqa: B007 - the clock reads it
        checkpoints.save("training", epoch, *tiny_net())
        written.append(checkpoints.restore("training", *tiny_net()))

    assert written == [0, 2, 2, 4]


def test_clearing_removes_checkpoints_and_half_written_ones_only(tmp_path: Path) -> None:
    for name in ("fine_tuning.safetensors", "translating.safetensors", "fine_tuning.safetensors.partial"):
        (tmp_path / name).write_bytes(b"")
    for name in ("weights.safetensors", "notes.txt"):
        (tmp_path / name).write_text("mine")

    Checkpoints(tmp_path).clear()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "weights.safetensors"]


def test_without_a_folder_nothing_is_written_and_nothing_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    trained(1, Watch(checkpoints=Checkpoints(None, every_seconds=0)))
    Checkpoints(None).clear()
    Checkpoints(tmp_path / "never made").clear()

    assert list(tmp_path.iterdir()) == []
