import gc
import json
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from service.errors import CorruptBundle, NoClassesYet, VersionNotLoaded
from service.serving import bundle
from service.serving.engine import OnnxEngine
from service.serving.live import LiveModel, ModelSlot
from service.serving.torch_engine import TorchEngine
from tests.pictures import save_digits
from tests.unit.service.serving.learnt import KINDS, learnt, live_of, reseal
from zstci import ImageFiles, Snapshot
from zstci.errors import UnknownStrategy
from zstci.manifest import digest


def small(version: int) -> LiveModel:
    return live_of(learnt("whitened"), version)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_version_knows_and_embeds_what_its_snapshot_does(bundles, tmp_path, kind):
    snapshot, live = learnt(kind), LiveModel.load(bundles(kind), 7)
    files = ImageFiles(sorted(save_digits(tmp_path, [3, 4]).rglob("*.png")))
    pixels = files.plain(torch.arange(len(files)), live.input).numpy()

    assert isinstance(live.engine, OnnxEngine)
    assert (live.version, live.ids, live.input) == (7, snapshot.prototypes.ids, snapshot.config.net.input)
    assert np.array_equal(live.counts, snapshot.prototypes.counts)
    assert np.array_equal(live.hops, snapshot.prototypes.hops)
    assert np.allclose(live.embed(pixels), snapshot.embed(files), atol=1e-5)


def test_where_onnx_answers_the_torch_net_is_never_built(bundles, tmp_path):
    folder = shutil.copytree(bundles("zstci"), tmp_path / "copy")
    stored = json.loads((folder / "snapshot.json").read_text())
    stored["config"]["net"]["backbone"] = "cannot-be-built"
    (folder / "snapshot.json").write_text(json.dumps(stored | {"sha256": digest(stored)}))
    reseal(folder)
    with pytest.raises(UnknownStrategy):
        Snapshot.load(folder)

    assert len(LiveModel.load(folder, 1).index) == 5


def test_a_version_without_an_exported_engine_is_answered_by_torch(bundles, tmp_path):
    folder = shutil.copytree(bundles("zstci"), tmp_path / "copy")
    (folder / "engine.onnx").unlink()
    reseal(folder, engine="torch")

    live, pixels = LiveModel.load(folder, 1), np.full((2, 3, 8, 8), 100, dtype=np.uint8)

    assert isinstance(live.engine, TorchEngine)
    assert np.allclose(live.embed(pixels), LiveModel.load(bundles("zstci"), 1).embed(pixels), atol=1e-5)


@pytest.mark.parametrize("name", ["engine.onnx", "index.faiss", "serving.safetensors", "version.json"])
def test_a_damaged_version_is_not_loaded(bundles, tmp_path, name):
    folder = shutil.copytree(bundles("ncm"), tmp_path / "copy")
    (folder / name).write_bytes((folder / name).read_bytes()[:-20])

    with pytest.raises(CorruptBundle, match=name):
        LiveModel.load(folder, 1)


def test_an_index_of_another_version_is_found_out(bundles, tmp_path):
    folder = shutil.copytree(bundles("ncm"), tmp_path / "copy")
    shutil.copy(bundles("zstci") / "index.faiss", folder)
    reseal(folder)

    with pytest.raises(CorruptBundle, match=r"3 classes but 5 of them in index.faiss"):
        LiveModel.load(folder, 1)


def test_a_slot_without_a_model_says_what_to_do():
    slot = ModelSlot()

    assert (slot.version, slot.loaded) == (None, ())
    for ask in (lambda: slot.current, lambda: slot.get(1)):
        with pytest.raises(NoClassesYet, match="add some with zstci add DIR"):
            ask()


def test_the_last_two_versions_answer_and_the_error_names_them():
    slot = ModelSlot()
    for version in (5, 6, 7):
        slot.swap(small(version))

    assert (slot.version, slot.current.version, slot.loaded) == (7, 7, (7, 6))
    assert slot.get(6).version == 6
    with pytest.raises(VersionNotLoaded, match=r"version 5 is not loaded; loaded: 7 and 6\. .* activate version 5"):
        slot.get(5)


def test_rolling_back_and_forward_keeps_both():
    slot = ModelSlot()
    for version in (6, 7, 6):
        slot.swap(small(version))

    assert (slot.version, slot.loaded) == (6, (6, 7))
    slot.swap(slot.get(7))
    assert (slot.version, slot.loaded) == (7, (7, 6))


def test_a_request_in_flight_finishes_on_the_version_it_started(bundles):
    slot = ModelSlot()
    slot.swap(LiveModel.load(bundles("whitened"), 1))
    started = slot.current
    for version in (2, 3, 4):
        slot.swap(LiveModel.load(bundles("zstci"), version))

    pixels = np.full((1, 3, 8, 8), 100, dtype=np.uint8)
    _, positions = started.index.search(started.embed(pixels), 10)
    assert (started.version, len(started.index), positions.shape) == (1, 3, (1, 3))
    assert (slot.current.version, len(slot.current.index)) == (4, 5)


def test_no_request_sees_parts_of_two_versions(bundles):
    models = [LiveModel.load(bundles(kind), number) for number, kind in ((1, "whitened"), (2, "zstci"))]
    slot, over = ModelSlot(), threading.Event()
    slot.swap(models[0])
    pixels = np.full((1, 3, 8, 8), 100, dtype=np.uint8)

    def ask() -> set[tuple[int, int, int]]:
        seen = set()
        while not over.is_set():
            live = slot.current
            distances, _ = live.index.search(live.embed(pixels), 10)
            seen.add((live.version, len(live.ids), distances.shape[1]))
        return seen

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        for turn in range(200):
            slot.swap(models[turn % 2])
            time.sleep(0.002)
        over.set()
    assert set().union(*(one.result() for one in asking)) == {(1, 3, 3), (2, 5, 5)}


def test_a_replaced_model_is_freed_when_its_last_request_lets_go():
    slot = ModelSlot()
    slot.swap(small(1))
    request, seen = slot.current, weakref.ref(slot.current)
    slot.swap(small(2))
    slot.swap(small(3))

    gc.collect()
    assert seen() is request
    del request
    gc.collect()
    assert seen() is None


def test_names_are_replaced_whole_and_an_unknown_class_is_shown_by_its_id():
    slot = ModelSlot()
    assert slot.name_of("c1") == "c1"
    slot.names = {"c1": "cat"}

    assert (slot.name_of("c1"), slot.name_of("c2")) == ("cat", "c2")


def test_versions_with_the_same_engine_share_it_and_others_do_not(bundles):
    first = LiveModel.load(bundles("whitened"), 1)
    same, other = bundle.verify(bundles("whitened")), bundle.verify(bundles("zstci"))

    assert LiveModel.read(bundles("whitened"), 2, same, [first]).engine is first.engine
    assert LiveModel.read(bundles("zstci"), 3, other, [first]).engine is not first.engine
    assert LiveModel.read(bundles("whitened"), 4, same).engine is not first.engine
