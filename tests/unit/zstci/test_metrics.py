import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zstci.metrics import (
    accuracy,
    average_accuracy,
    average_forgetting,
    mean_accuracy,
    recall_at,
    weighted_accuracy,
)

percent = st.floats(0, 100)
# Row k has k + 1 entries: tasks that do not exist yet have no accuracy.
matrices = st.integers(1, 6).flatmap(
    lambda tasks: st.tuples(*(st.lists(percent, min_size=k + 1, max_size=k + 1) for k in range(tasks)))
)


@settings(deadline=None, max_examples=50)
@given(matrices)
def test_a_k_is_the_mean_over_the_tasks_so_far(matrix: tuple[list[float], ...]) -> None:
    for k, found in enumerate(average_accuracy(matrix)):
        total = 0.0
        for j in range(k + 1):
            total += matrix[k][j]
        assert found == pytest.approx(total / (k + 1))
    assert mean_accuracy(matrix) == pytest.approx(sum(average_accuracy(matrix)) / len(matrix))


@settings(deadline=None, max_examples=50)
@given(matrices)
def test_f_k_is_the_mean_fall_from_the_best_earlier_accuracy(matrix: tuple[list[float], ...]) -> None:
    found = average_forgetting(matrix)

    assert len(found) == len(matrix)
    assert found[0] == 0
    for k in range(1, len(matrix)):
        falls = []
        for j in range(k):
            best = -float("inf")
            for before in range(k):
                if before >= j:  # a[before, j] exists only once task j has been learnt
                    best = max(best, matrix[before][j])
            falls.append(best - matrix[k][j])
        assert found[k] == pytest.approx(sum(falls) / k)


def test_forgetting_by_hand() -> None:
    matrix = [[90.0], [80.0, 70.0], [85.0, 60.0, 50.0]]

    assert average_forgetting(matrix) == pytest.approx([0.0, 90 - 80, ((90 - 85) + (70 - 60)) / 2])


def test_a_task_that_got_better_has_negative_forgetting() -> None:
    assert average_forgetting([[50.0], [60.0, 10.0]]) == pytest.approx([0.0, -10.0])


@settings(deadline=None, max_examples=50)
@given(matrices, st.lists(st.integers(1, 9), min_size=6, max_size=6))
def test_weighted_accuracy_counts_every_class_once(matrix: tuple[list[float], ...], classes: list[int]) -> None:
    for k, found in enumerate(weighted_accuracy(matrix, classes)):
        of_each_class = [matrix[k][j] for j in range(k + 1) for _ in range(classes[j])]
        assert found == pytest.approx(sum(of_each_class) / len(of_each_class))


@settings(deadline=None, max_examples=50)
@given(matrices)
def test_with_equal_tasks_weighting_changes_nothing(matrix: tuple[list[float], ...]) -> None:
    assert weighted_accuracy(matrix, [7] * len(matrix)) == pytest.approx(average_accuracy(matrix))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_accuracy_is_the_share_of_hits_in_percent(pairs: list[tuple[int, int]]) -> None:
    predicted, truth = torch.tensor(pairs).T

    assert accuracy(predicted, truth) == pytest.approx(100 * sum(p == t for p, t in pairs) / len(pairs))


@settings(deadline=None, max_examples=50)
@given(st.data(), st.integers(1, 4), st.integers(1, 8))
def test_recall_at_k_is_the_share_of_queries_whose_class_is_retrieved(data: st.DataObject, k: int, count: int) -> None:
    rows = data.draw(st.lists(st.permutations(range(5)).map(lambda p: list(p[:k])), min_size=count, max_size=count))
    truth = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))

    found = recall_at(torch.tensor(rows), torch.tensor(truth))

    assert found == pytest.approx(100 * sum(t in row for row, t in zip(rows, truth, strict=True)) / count)
