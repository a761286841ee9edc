"""Several processes that make one update together end where one process alone does."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.pictures import save_digits
from tests.unit.zstci import tiny, together
from zstci import Progress, Snapshot, distributed, learn
from zstci.batchnorm import WholeBatchNorm
from zstci.distributed import ALONE, Team

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * together.PATIENCE)]

# Of the largest number in each tensor. Measured: at most 2e-10 where convolutions learn, 0 where only the head does.
TOLERANCE = 1e-5
PAPER_TOLERANCE = 1e-2  # single precision; measured: 1.4e-3, in biases that are hardly more than one step of Adam


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    together.make_files(folder)
    together.run(2, folder, "equal", "stopped", "different")
    return folder


def differences(found: Snapshot, expected: Snapshot) -> dict[str, float]:
    first, second = tiny.tensors_of(found), tiny.tensors_of(expected)
    assert sorted(first) == sorted(second)
    return {name: _difference(first[name], second[name]) for name in first}


def _difference(found: Tensor, expected: Tensor) -> float:
    if not found.is_floating_point():
        assert torch.equal(found, expected)
        return 0.0
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def assert_close(found: Snapshot, expected: Snapshot, tolerance: float = TOLERANCE) -> None:
    apart = {name: value for name, value in differences(found, expected).items() if value > tolerance}
    assert not apart
    assert found.prototypes.ids == expected.prototypes.ids
    assert (found.task, found.config) == (expected.task, expected.config)
    assert found.memory.translation.keys() == expected.memory.translation.keys()


@pytest.mark.parametrize("name", [*together.DOUBLE, *together.SINGLE])
def test_two_processes_learn_what_one_learns(two: Path, name: str) -> None:
    tolerance = PAPER_TOLERANCE if name == "paper" else TOLERANCE
    assert_close(together.load(two, name), together.all_tasks(name, two), tolerance)


@pytest.mark.parametrize("name", [*together.DOUBLE, *together.SINGLE])
def test_every_process_ends_with_the_same_numbers(two: Path, name: str) -> None:
    first, second = ((two / f"{name}-{rank}.sha256").read_text() for rank in (0, 1))

    assert first == second


def test_three_processes_share_batches_of_two_images(tmp_path: Path) -> None:
    together.run(3, tmp_path, "small")

    for name in ("one-class", "two-images"):
        assert_close(together.load(tmp_path, name), together.all_tasks(name, tmp_path))


def test_a_stop_is_heard_by_all_and_the_update_goes_on_from_its_checkpoint(two: Path) -> None:
    stopped = sorted(path.name for path in two.glob("*.stopped"))
    places = ("checkpoints-fine_tuning", "checkpoints-translating", "left-fine_tuning")
    assert stopped == [f"{place}-{rank}.stopped" for place in places for rank in (0, 1)]

    tiny.assert_same_snapshot(Snapshot.load(two / "resumed"), Snapshot.load(two / "paper"))
    assert list((two / "checkpoints").iterdir()) == []


def test_only_the_first_process_reports(two: Path) -> None:
    assert int((two / "reports-0").read_text()) > 0
    assert int((two / "reports-1").read_text()) == 0


def test_one_process_goes_on_where_two_stopped(two: Path) -> None:
    name = "paper"
    reports: list[Progress] = []
    parent, data = Snapshot.load(two / "parent"), together.data_of(name, two)[2]

    resumed = learn(parent, data, together.config_of(name), reports.append, checkpoints=two / "left")

    assert [report.epoch for report in reports if report.stage == "fine_tuning"] == [2]
    assert_close(resumed, Snapshot.load(two / name), PAPER_TOLERANCE)


def test_processes_that_were_given_different_images_are_refused(two: Path) -> None:
    for rank in (0, 1):
        assert "the same parent, images and settings" in (two / f"refused-{rank}").read_text()


def test_an_error_in_one_process_ends_all(tmp_path: Path) -> None:
    save_digits(tmp_path / "damaged", [0, 1], 4)
    (tmp_path / "damaged" / "digit-1" / "3.png").write_bytes(b"no image")  # the eighth image: the second process's

    complaint = together.run(2, tmp_path, "broken", code=1)

    assert "UnreadableImage: 3.png cannot be read" in complaint
    assert not list(tmp_path.glob("learnt-*"))


def test_the_example_runs_as_written(tmp_path: Path) -> None:
    lines = textwrap.dedent((distributed.__doc__ or "").split("\n\n", 2)[2].rpartition("\n\nAll draw")[0])
    script, _, command = lines.rpartition("\n\n")
    save_digits(tmp_path / "birds", [0, 1], 3, size=32)
    (tmp_path / "add_birds.py").write_text(script)
    torchrun, *arguments = command.split()
    assert (torchrun, arguments[-1]) == ("torchrun", "add_birds.py")
    path = os.pathsep.join([str(together.ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
        timeout=together.PATIENCE,
    )
    assert done.returncode == 0, done.stderr

    assert Snapshot.load(tmp_path / "birds-1").prototypes.ids == ("digit-0", "digit-1")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_shares_make_up_the_whole(count: int, size: int) -> None:
    rows = torch.arange(count)
    shares = [rows[Team(rank, size).share(count)].tolist() for rank in range(size)]
    even = [Team(rank, size).even_share(count).tolist() for rank in range(size)]

    assert sorted(row for share in shares for row in share) == rows.tolist()
    assert {len(share) for share in even} == {-(-count // size)}
    for share, padded in zip(shares, even, strict=True):
        assert padded[: len(share)] == share


def test_every_share_of_a_batch_holds_some_of_every_class() -> None:
    labels = torch.arange(4).repeat_interleave(8)
    for size in (2, 3, 8):
        for rank in range(size):
            counts = torch.bincount(labels[Team(rank, size).share(len(labels))], minlength=4)
            assert int(counts.min()) >= 8 // size
            assert int(counts.max()) <= -(-8 // size)


def test_a_team_of_one_hands_back_what_it_was_given() -> None:
    given = torch.ones(3, 2, requires_grad=True)

    assert ALONE.whole(given, 3) is given
    assert ALONE.once(given) is given
    assert ALONE.summed([given])[0] is given
    assert ALONE.share(3) == slice(0, 3, 1)
    assert distributed.current() == ALONE


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(3), nn.BatchNorm2d(3, affine=False)], ids=["affine", "plain"])
def test_batchnorm_of_the_whole_batch_is_batchnorm(layer: nn.BatchNorm2d) -> None:
    layer = layer.double().train()
    other = nn.BatchNorm2d(3, affine=layer.affine).double().train()
    inputs = torch.randn(4, 3, 5, 5, dtype=torch.float64) * 3 + 1
    mine, theirs = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()

    with WholeBatchNorm(lambda part: part):
        found = layer(mine)
    expected = other(theirs)
    found.pow(3).sum().backward()
    expected.pow(3).sum().backward()

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine.grad, theirs.grad)
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name])
