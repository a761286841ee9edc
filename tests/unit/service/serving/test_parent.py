import copy
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray

from service.serving import bundle, candidates
from service.serving.engine import OnnxEngine, Vectors
from service.serving.index import PrototypeIndex
from service.serving.index_choice import Choice, IndexFacts
from service.serving.parent import Parent, came_from, index_of
from service.serving.torch_engine import TorchEngine
from tests.unit.service.serving.learnt import NAMES, learnt
from zstci.prototypes import Prototypes

SHORT = Choice(exact_up_to=1000)
MARK = "this one"


def normal(seed: int, *shape: int) -> Vectors:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def families(count: int, dim: int = 32) -> Vectors:
    centres = normal(0, count // 20, dim)
    return centres[np.arange(count) % len(centres)] + 0.3 * normal(1, count, dim)


def metric(seed: int, size: float) -> Vectors:
    return np.triu(normal(seed, 32, 32)) * np.float32(size) + np.eye(32, dtype=np.float32)


def prototypes(ids: list[int], means: Vectors) -> Prototypes:
    nothing = torch.zeros(len(ids), dtype=torch.int64)
    return Prototypes(tuple(f"c{i}" for i in ids), torch.from_numpy(means), nothing, nothing)


@pytest.fixture
def stored(tmp_path):
    """An index of 3,000 classes as the next update finds it: in a file."""

    def of(metric: Vectors | None) -> PrototypeIndex:
        index = PrototypeIndex.of(families(3000), metric, SHORT)
        index.write(tmp_path / "index.faiss")
        return PrototypeIndex.read(tmp_path / "index.faiss", metric, index.facts)

    return of


def test_a_class_came_from_its_row_unless_it_is_new_or_its_mean_has_changed():
    means = families(40)
    before = prototypes(list(range(40)), means)
    changed = np.concatenate([means[:10], means[12:], normal(3, 2, 32)])
    changed[5] += 1

    rows = came_from(before, prototypes([*range(10), *range(12, 42)], changed))

    assert rows.tolist() == [0, 1, 2, 3, 4, -1, 6, 7, 8, 9, *range(12, 40), -1, -1]
    assert came_from(before, before).tolist() == list(range(40))


@pytest.mark.parametrize("kind", ["plain", "whitened", "whitened anew", "whitened for the first time"])
def test_an_index_that_grew_answers_like_one_that_was_built_anew(tmp_path, stored, kind):
    old = None if kind in ("plain", "whitened for the first time") else metric(2, 1 / 8)
    new = old if kind in ("plain", "whitened") else metric(3, 1 / 100)
    means = families(3000)
    after = np.concatenate([means[:10], means[20:], normal(4, 30, 32)])
    after[50] += 0.5
    rows = np.concatenate([np.arange(10), np.arange(20, 3000), np.full(30, -1)])
    rows[50] = -1
    projected = after if new is None else after @ new

    grown = PrototypeIndex.over(projected, new, SHORT, stored(old), rows)
    grown.write(tmp_path / "grown.faiss")

    read = PrototypeIndex.read(tmp_path / "grown.faiss", new, grown.facts)
    built = PrototypeIndex.of(after, new, SHORT)
    assert grown.facts.lists == stored(old).facts.lists == 110
    assert (grown.facts.kind, grown.facts.recall_at_10 >= 0.99) == ("candidates", True)
    assert grown.gap == pytest.approx(built.gap, rel=0.05)
    asked = np.concatenate([after[:100], after[-100:]]) + np.float32(0.01)
    expected = np.linalg.norm((asked[:, None] - after[None]) @ (np.eye(32) if new is None else new), axis=2)
    for index in (grown, read):
        distances, positions = index.search(asked, 10)
        assert np.allclose(distances[:, 0], expected.min(axis=1), atol=1e-4)
        assert np.allclose(distances, np.take_along_axis(expected, positions, 1), atol=1e-4)
        assert shared(positions, expected) >= shared(built.search(asked, 10)[1], expected) - 0.01


def shared(positions: NDArray[np.int64], distances: NDArray[np.float64]) -> float:
    """How many of the ten nearest are among those that were found."""
    nearest = distances.argsort(axis=1)[:, :10].tolist()
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(positions.tolist(), nearest, strict=True)]))


def test_the_same_update_grows_the_same_index(tmp_path, stored):
    after = np.concatenate([families(3000), normal(4, 30, 32)])
    rows = np.concatenate([np.arange(3000), np.full(30, -1)])
    for name in ("one", "two"):
        PrototypeIndex.over(after, None, SHORT, stored(None), rows).write(tmp_path / name)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_index_is_built_anew_where_too_much_is_new_or_lists_grew_too_long(stored):
    means = families(3000)
    moved = PrototypeIndex.over(means + 1, None, SHORT, stored(None), np.full(3000, -1))
    assert moved.facts == PrototypeIndex.of(means + 1, None, SHORT).facts

    assert not candidates.too_few_lists(stored(None)._index, 6000)
    assert candidates.too_few_lists(stored(None)._index, 7000)


def test_what_is_below_the_limit_by_now_is_searched_exactly(stored):
    grown = PrototypeIndex.over(families(3000)[:900], None, SHORT, stored(None), np.arange(900))

    assert grown.facts.kind == "flat"


def test_a_bundle_takes_the_files_of_a_snapshot_that_is_stored_already(tmp_path):
    snapshot = learnt("whitened")
    snapshot.save(tmp_path / "kept")

    written = bundle.write(snapshot, tmp_path / "v1", NAMES, saved=tmp_path / "kept")

    assert bundle.verify(tmp_path / "v1", written.sha256).engine == "onnx"
    assert (tmp_path / "v1" / "serving.safetensors").samefile(tmp_path / "kept" / "serving.safetensors")
    fresh = bundle.write(snapshot, tmp_path / "v2", NAMES)
    assert [fresh.bytes, fresh.index] == [written.bytes, written.index]


def test_a_small_version_is_made_from_its_parent_as_without_one(tmp_path):
    snapshot = learnt("whitened")
    bundle.write(snapshot, tmp_path / "v1", NAMES)
    parent = Parent.of(tmp_path / "v1", snapshot, bundle.verify(tmp_path / "v1"))
    memory = replace(snapshot.memory, prototypes=snapshot.prototypes.without({"digit-1"}))
    smaller = replace(snapshot, memory=memory)

    with_parent = bundle.write(smaller, tmp_path / "v2", NAMES, parent=parent)

    bundle.write(smaller, tmp_path / "v3", NAMES)
    assert with_parent.index.kind == "flat"
    assert (tmp_path / "v2" / "index.faiss").read_bytes() == (tmp_path / "v3" / "index.faiss").read_bytes()


@pytest.fixture
def marked(tmp_path):
    """A version whose engine answers as it did, and is known again."""
    snapshot = learnt("whitened")
    bundle.write(snapshot, tmp_path / "v1", NAMES)
    path = tmp_path / "v1" / "engine.onnx"
    model = onnx.load(path)
    model.doc_string = MARK
    onnx.save(model, path)
    return Parent(tmp_path / "v1", snapshot, None, "onnx", hashlib.sha256(path.read_bytes()).hexdigest())


def is_marked(folder: Path) -> bool:
    return bool(onnx.load(folder / "engine.onnx").doc_string == MARK)


def test_the_engine_of_a_parent_with_the_same_net_is_taken_over_and_no_other(tmp_path, marked):
    snapshot = marked.snapshot
    net = copy.deepcopy(snapshot.net)
    with torch.no_grad():
        net.head.weight += 0.01

    bundle.write(replace(snapshot, task=9), tmp_path / "v2", NAMES, parent=marked)
    bundle.write(replace(snapshot, net=net), tmp_path / "v3", NAMES, parent=marked)

    assert is_marked(tmp_path / "v2")
    assert not is_marked(tmp_path / "v3")
    assert not marked.has_net_of(learnt("zstci")), "another way to the common space"


@pytest.mark.parametrize("damage", ["altered", "gone", "another net's"])
def test_an_engine_that_is_not_what_it_was_is_exported_anew(tmp_path, marked, damage):
    path = marked.folder / "engine.onnx"
    if damage == "altered":  # since the parent was checked, at the begin of a long update
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "gone":  # a copy of a bucket's
        path.unlink()
    else:  # whole, but it answers otherwise
        other = copy.deepcopy(marked.snapshot.net)
        with torch.no_grad():
            other.head.weight += 0.01
        bundle.write(replace(marked.snapshot, net=other), tmp_path / "other", NAMES)
        path.write_bytes((tmp_path / "other" / "engine.onnx").read_bytes())
        marked = replace(marked, engine_sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    written = bundle.write(marked.snapshot, tmp_path / "v2", NAMES, parent=marked)

    assert written.engine == "onnx"
    assert not is_marked(tmp_path / "v2")
    side = marked.snapshot.config.net.input.size
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, side, side), dtype=np.uint8)
    answers = OnnxEngine(tmp_path / "v2" / "engine.onnx").embed(pixels)
    assert np.allclose(answers, TorchEngine(marked.snapshot).embed(pixels), atol=1e-4)


def test_an_index_whose_parent_is_gone_is_built_anew(tmp_path, marked):
    before = replace(marked, index=IndexFacts("candidates", 1.0, lists=10, probes=1, candidates=40))
    (marked.folder / "index.faiss").unlink()

    built = index_of(marked.snapshot, before)

    assert (built.facts.kind, len(built)) == ("flat", 3)
