from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zstci.samplers import class_members, epoch_batches

sizes = st.lists(st.integers(1, 12), min_size=1, max_size=9)


def shuffled_labels(class_sizes: list[int], seed: int) -> torch.Tensor:
    labels = torch.repeat_interleave(torch.arange(len(class_sizes)), torch.tensor(class_sizes))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(deadline=None, max_examples=40)
@given(class_sizes=sizes, seed=st.integers(0, 10**6))
def test_members_are_the_positions_of_each_class_in_label_order(class_sizes: list[int], seed: int) -> None:
    labels = shuffled_labels(class_sizes, seed)

    members = class_members(labels)

    assert [group.tolist() for group in members] == [
        [i for i, label in enumerate(labels.tolist()) if label == wanted] for wanted in range(len(class_sizes))
    ]


def test_a_label_that_no_image_has_gives_no_empty_class() -> None:
    assert [group.tolist() for group in class_members(torch.tensor([5, 2, 5]))] == [[1], [0, 2]]


@settings(deadline=None, max_examples=60)
@given(class_sizes=sizes, classes=st.integers(1, 6), images=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_every_batch_holds_whole_classes_of_k_images(
    class_sizes: list[int], classes: int, images: int, seed: int
) -> None:
    labels = shuffled_labels(class_sizes, seed)

    batches = epoch_batches(class_members(labels), classes, images, seeded(seed))

    per_batch = min(classes, len(class_sizes))
    assert len(batches) == len(class_sizes) // per_batch  # the last partial batch is dropped
    seen: Counter[int] = Counter()
    for batch in batches:
        of_batch = Counter(labels[batch].tolist())
        assert len(of_batch) == per_batch
        assert set(of_batch.values()) == {images}
        seen.update(of_batch.keys())
    assert set(seen.values()) == {1}  # no class comes twice in an epoch


@settings(deadline=None, max_examples=40)
@given(class_sizes=sizes, images=st.integers(1, 30), seed=st.integers(0, 10**6))
def test_a_class_with_fewer_images_gives_all_of_them_equally_often(
    class_sizes: list[int], images: int, seed: int
) -> None:
    members = class_members(shuffled_labels(class_sizes, seed))

    (batch,) = epoch_batches(members, len(class_sizes), images, seeded(seed))

    drawn = Counter(batch.tolist())
    for group in members:
        times = [drawn[position] for position in group.tolist()]
        assert sum(times) == images
        assert max(times) - min(times) <= 1


@settings(deadline=None, max_examples=25)
@given(class_sizes=sizes, classes=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_the_same_seed_draws_the_same(class_sizes: list[int], classes: int, seed: int) -> None:
    members = class_members(shuffled_labels(class_sizes, 0))

    first, again = (epoch_batches(members, classes, 8, seeded(seed)) for _ in range(2))

    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in again]


def test_fewer_classes_than_a_batch_holds_make_one_batch_of_them_all() -> None:
    labels = torch.tensor([0, 1, 0, 1, 2])

    (batch,) = epoch_batches(class_members(labels), 4, 8, seeded(0))

    assert Counter(labels[batch].tolist()) == {0: 8, 1: 8, 2: 8}


@pytest.mark.parametrize(("classes_of_task", "steps"), [(10, 102), (20, 255)])
def test_51_epochs_of_4_x_8_are_the_published_number_of_steps(classes_of_task: int, steps: int) -> None:
    members = class_members(torch.arange(classes_of_task).repeat(10))

    assert sum(len(epoch_batches(members, 4, 8, seeded(epoch))) for epoch in range(51)) == steps


def test_the_classes_of_the_dropped_batch_differ_from_epoch_to_epoch() -> None:
    labels = torch.arange(5).repeat(8)
    members, random = class_members(labels), seeded(0)

    dropped = [set(range(5)) - set(labels[torch.cat(epoch_batches(members, 4, 8, random))].tolist()) for _ in range(40)]

    assert set.union(*dropped) == set(range(5))
