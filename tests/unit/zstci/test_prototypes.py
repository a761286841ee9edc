import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from zstci.errors import InvalidData
from zstci.prototypes import Prototypes, class_means

DIM = 3


def images(seed: int, count: int) -> Tensor:
    return torch.randn(count, DIM, generator=torch.Generator().manual_seed(seed))


def learnt(before: Prototypes, vectors: Tensor, labels: list[str]) -> Prototypes:
    """One task: its own means merged into what was known."""
    ids = tuple(dict.fromkeys(labels))
    targets = torch.tensor([ids.index(label) for label in labels])
    return before.merged(ids, *class_means(vectors, targets, len(ids)))


def by_id(prototypes: Prototypes) -> dict[str, tuple[Tensor, int]]:
    return {name: (prototypes.means[i], int(prototypes.counts[i])) for i, name in enumerate(prototypes.ids)}


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), targets=st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_class_means_equal_a_loop_over_classes(seed: int, targets: list[int]) -> None:
    vectors = images(seed, len(targets))

    means, counts = class_means(vectors, torch.tensor(targets), 5)

    for wanted in range(5):
        rows = [vectors[i].double() for i, target in enumerate(targets) if target == wanted]
        assert int(counts[wanted]) == len(rows)
        expected = sum(rows, torch.zeros(DIM, dtype=torch.float64)) / max(len(rows), 1)
        torch.testing.assert_close(means[wanted], expected.float())


tasks = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), labels=tasks, order=st.randoms(use_true_random=False))
def test_whatever_the_split_and_the_order_a_prototype_is_the_mean_of_all_images(
    seed: int, labels: list[list[str]], order: random.Random
) -> None:
    parts = [(images(seed + i, len(names)), names) for i, names in enumerate(labels)]
    shuffled = order.sample(parts, len(parts))

    forwards, otherwise = Prototypes.empty(DIM), Prototypes.empty(DIM)
    for part in parts:
        forwards = learnt(forwards, *part)
    for part in shuffled:
        otherwise = learnt(otherwise, *part)
    at_once = learnt(Prototypes.empty(DIM), torch.cat([v for v, _ in parts]), [name for _, n in parts for name in n])

    assert forwards.ids == at_once.ids  # first seen, first listed
    for found in (forwards, otherwise):
        assert by_id(found).keys() == by_id(at_once).keys()
        for name, (mean, count) in by_id(at_once).items():
            torch.testing.assert_close(by_id(found)[name][0], mean, rtol=1e-4, atol=1e-5)
            assert by_id(found)[name][1] == count


def test_a_merge_leaves_other_classes_bit_for_bit_and_the_original_untouched() -> None:
    before = learnt(Prototypes.empty(DIM), images(0, 6), list("aabbcc"))
    means, counts = before.means.clone(), before.counts.clone()

    after = learnt(before, images(1, 4), list("bbdd"))

    assert after.ids == ("a", "b", "c", "d")
    assert after.counts.tolist() == [2, 4, 2, 2]
    assert torch.equal(after.means[[0, 2]], before.means[[0, 2]])
    assert torch.equal(before.means, means)
    assert torch.equal(before.counts, counts)


def test_a_new_class_is_stored_exactly_as_given() -> None:
    vectors = images(0, 2) * 7  # far from length 1: nothing is normalised

    stored = Prototypes.empty(DIM).merged(("a", "b"), vectors, torch.tensor([3, 4]))

    assert torch.equal(stored.means, vectors)
    assert stored.hops.tolist() == [0, 0]


def test_translating_moves_every_mean_counts_a_hop_and_does_not_normalise() -> None:
    before = learnt(Prototypes.empty(DIM), images(0, 4), list("aabb")).mapped(lambda u: u)
    grown = learnt(before, images(1, 2), list("cc"))

    after = grown.mapped(lambda u: 5 * u + 1)

    assert torch.equal(after.means, 5 * grown.means + 1)
    assert after.hops.tolist() == [2, 2, 1]
    assert torch.equal(after.counts, grown.counts)
    assert grown.hops.tolist() == [1, 1, 0]


def test_a_class_can_be_removed_and_the_others_keep_what_they_have() -> None:
    before = learnt(Prototypes.empty(DIM), images(0, 6), list("abcabc")).mapped(lambda u: u)

    after = before.without(["b"])

    assert after.ids == ("a", "c")
    assert torch.equal(after.means, before.means[[0, 2]])
    assert after.counts.tolist() == [2, 2]
    assert after.hops.tolist() == [1, 1]
    assert len(before) == 3


def test_all_classes_can_be_removed_and_new_ones_learnt_afterwards() -> None:
    nothing = learnt(Prototypes.empty(DIM), images(0, 2), list("ab")).without(["a", "b"])
    assert len(nothing) == 0
    assert nothing.means.shape == (0, DIM)

    assert learnt(nothing, images(1, 2), list("cc")).ids == ("c",)


def test_removing_a_class_that_is_not_there_says_which() -> None:
    with pytest.raises(InvalidData, match="no class 'x' to remove; `prototypes"):
        learnt(Prototypes.empty(DIM), images(0, 2), list("ab")).without(["a", "x"])


def test_an_empty_memory_is_not_translated() -> None:
    def refuse(vectors: Tensor) -> Tensor:
        raise AssertionError("there is nothing to translate")

    assert len(Prototypes.empty(DIM).mapped(refuse)) == 0
