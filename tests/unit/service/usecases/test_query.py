import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from service.serving.live import LiveModel
from service.usecases.query import _scores, answer
from tests.brute_force import distances_to
from tests.pictures import save_digits
from zstci import ImageFiles, TaskData, Vectors, learn, preset


@pytest.mark.parametrize("number", [1, 2])
def test_an_answer_equals_brute_force_on_the_same_snapshot(store, snapshots, tmp_path, number):
    live, snapshot = LiveModel.load(store.folder(number), number), snapshots[number - 1]
    paths = sorted(save_digits(tmp_path / "images", range(5), skip=20).rglob("*.png"))
    found = answer(live, live.snapshot.embed(ImageFiles(paths)), top_k=10)

    for path, one in zip(paths, found, strict=True):
        expected = distances_to(snapshot, path)
        assert [prediction.class_id for prediction in one.predictions] == list(expected)
        assert [p.distance for p in one.predictions] == pytest.approx(list(expected.values()), abs=1e-4)
        assert one.margin == pytest.approx(one.predictions[1].distance - one.predictions[0].distance)


def test_top_k_cuts_the_list_but_not_the_scores(store):
    live = LiveModel.load(store.folder(2), 2)
    query = live.snapshot.prototypes.means[:1]
    [all_of_them], [first] = answer(live, query, 5), answer(live, query, 1)

    assert first.predictions == all_of_them.predictions[:1]
    assert first.margin == all_of_them.margin
    assert sum(prediction.score for prediction in all_of_them.predictions) == pytest.approx(1.0)


def test_with_one_class_there_is_no_margin():
    config = preset("default").override(**{"net.backbone": "vectors:4", "net.weights": "none"})
    values = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    live = LiveModel.of(learn(None, TaskData(Vectors(values), ("only",) * 5), config), 1)
    [found] = answer(live, live.snapshot.prototypes.means, 5)

    assert found.margin is None
    assert [(p.class_id, p.score) for p in found.predictions] == [("only", 1.0)]


@given(st.floats(0.01, 100), st.floats(0, 50))
def test_scores_do_not_depend_on_the_unit_of_distance(gap, away):
    # On the line between two classes a gap apart, seen from `away` beside it.
    midway = torch.tensor([[(gap / 2) ** 2 + away**2] * 2]).sqrt()
    at_first = torch.tensor([[0.0, gap]])

    assert _scores(midway, gap)[0].tolist() == [0.5, 0.5]
    assert _scores(at_first, gap)[0, 0].item() == pytest.approx(0.982, abs=1e-3)


def test_classes_at_the_same_place_share_the_score():
    assert _scores(torch.tensor([[0.0, 0.0]]), 0.0).tolist() == [[0.5, 0.5]]
