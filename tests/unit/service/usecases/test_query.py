import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from service.serving import bundle
from service.serving.decode import decode_all
from service.serving.live import LiveModel
from service.usecases.query import _scores, answer
from tests.brute_force import distances_to
from tests.pictures import save_digits
from tests.unit.service.serving.learnt import KINDS, NAMES, learnt, live_of
from zstci import TaskData, Vectors, learn, preset


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_equals_brute_force_on_the_same_snapshot(tmp_path, kind):
    """All of the way: the bytes of a file, the exported net, the stored index."""
    snapshot = learnt(kind)
    bundle.write(snapshot, tmp_path / "version", NAMES)
    live = LiveModel.load(tmp_path / "version", 1)
    paths = sorted(save_digits(tmp_path / "images", range(5), skip=20).rglob("*.png"))
    pixels = decode_all([path.read_bytes() for path in paths], live.input, 1000)

    found = answer(live, NAMES, live.embed(pixels), top_k=10)

    for path, one in zip(paths, found, strict=True):
        expected = distances_to(snapshot, path)
        assert [prediction.class_id for prediction in one.predictions] == list(expected)
        assert [prediction.name for prediction in one.predictions] == [NAMES[name] for name in expected]
        assert [p.distance for p in one.predictions] == pytest.approx(list(expected.values()), abs=1e-4)
        assert one.margin == pytest.approx(one.predictions[1].distance - one.predictions[0].distance)


def test_top_k_cuts_the_list_but_not_the_scores():
    live, query = live_of(learnt("zstci"), 2), learnt("zstci").prototypes.means[:1].numpy()
    [all_of_them], [first] = answer(live, {}, query, 5), answer(live, {}, query, 1)

    assert first.predictions == all_of_them.predictions[:1]
    assert first.margin == all_of_them.margin
    assert sum(prediction.score for prediction in all_of_them.predictions) == pytest.approx(1.0)


def test_a_class_is_shown_by_its_name_and_by_its_id_where_it_has_none():
    live, query = live_of(learnt("ncm"), 1), learnt("ncm").prototypes.means[:1].numpy()
    [found] = answer(live, {"digit-0": "nought"}, query, 3)

    assert {p.class_id: p.name for p in found.predictions} == {
        "digit-0": "nought",
        "digit-1": "digit-1",
        "digit-2": "digit-2",
    }


def test_with_one_class_there_is_no_margin():
    config = preset("default").override(**{"net.backbone": "vectors:4", "net.weights": "none"})
    values = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    snapshot = learn(None, TaskData(Vectors(values), ("only",) * 5), config)
    [found] = answer(live_of(snapshot, 1), {}, snapshot.prototypes.means.numpy(), 5)

    assert found.margin is None
    assert [(p.class_id, p.score) for p in found.predictions] == [("only", 1.0)]


@given(st.floats(0.01, 100), st.floats(0, 50))
def test_scores_do_not_depend_on_the_unit_of_distance(gap, away):
    # On the line between two classes a gap apart, seen from `away` beside it.
    midway = np.sqrt(np.array([[(gap / 2) ** 2 + away**2] * 2], dtype=np.float32))
    at_first = np.array([[0.0, gap]], dtype=np.float32)

    assert _scores(midway, gap)[0].tolist() == [0.5, 0.5]
    assert _scores(at_first, gap)[0, 0].item() == pytest.approx(0.982, abs=1e-3)


def test_classes_at_the_same_place_share_the_score():
    assert _scores(np.zeros((1, 2), dtype=np.float32), 0.0).tolist() == [[0.5, 0.5]]
