import json
import signal
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.zstci import tiny
from zstci import Snapshot, learn
from zstci.errors import CorruptSnapshot, InvalidConfig, UnsupportedSnapshot
from zstci.manifest import CLASSES, FORMAT, MANIFEST, SERVING, TRAINING, digest, ids_as_lines, read_serving_facts
from zstci.translators import TRANSLATORS

ROOT = Path(__file__).parents[3]
TEST = tiny.vectors("01234", 5, skip=4)


def learnt(**changes: Any) -> Snapshot:
    config = tiny.vector_config(**{"regularizer": "lwf", "translator": "zstci", **changes})
    return learn(learn(None, tiny.vectors("01"), config), tiny.vectors("234"), config)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return learnt()


@pytest.fixture
def folder(snapshot: Snapshot, tmp_path: Path) -> Path:
    snapshot.save(tmp_path / "snapshot")
    return tmp_path / "snapshot"


def assert_answers_alike(first: Snapshot, second: Snapshot) -> None:
    assert torch.equal(first.embed(TEST.inputs), second.embed(TEST.inputs))
    distances, names = first.classify(TEST.inputs, k=3)
    again, names_again = second.classify(TEST.inputs, k=3)
    assert torch.equal(distances, again)
    assert names == names_again


@pytest.mark.parametrize("classifier", ["ncm", "whitened"])
@pytest.mark.parametrize("translator", TRANSLATORS)
def test_a_snapshot_survives_the_disk_bit_for_bit(tmp_path, translator, classifier):
    saved = learnt(translator=translator, classifier=classifier)
    before = tiny.tensors_of(saved)
    saved.save(tmp_path / "snapshot")

    loaded = Snapshot.load(tmp_path / "snapshot")

    tiny.assert_same_snapshot(loaded, saved)
    tiny.assert_same_tensors(tiny.tensors_of(saved), before)
    assert_answers_alike(loaded, saved)
    assert (loaded.memory.query is not None) == (translator == "zstci")
    assert (loaded.memory.metric is not None) == (classifier == "whitened")


def test_a_convolutional_snapshot_survives_the_disk_bit_for_bit(tmp_path):
    config = tiny.image_config(**{"regularizer": "mas", "train.batchnorm": "train"})
    saved = learn(None, tiny.images("012"), config)
    saved.save(str(tmp_path / "deep" / "er" / "snapshot"))

    loaded = Snapshot.load(str(tmp_path / "deep" / "er" / "snapshot"))

    tiny.assert_same_snapshot(loaded, saved)
    assert torch.equal(loaded.embed(tiny.images("345").inputs), saved.embed(tiny.images("345").inputs))
    assert not any(module.training for module in loaded.net.modules())
    assert not any(parameter.requires_grad for parameter in loaded.net.parameters())
    tiny.assert_same_snapshot(learn(loaded, tiny.images("34"), config), learn(saved, tiny.images("34"), config))


def test_a_frozen_snapshot_of_one_class_survives_the_disk(tmp_path):
    saved = learn(None, tiny.vectors("7"), tiny.vector_config())
    saved.save(tmp_path / "snapshot")

    tiny.assert_same_snapshot(Snapshot.load(tmp_path / "snapshot"), saved)


def test_class_ids_may_be_any_text(tmp_path, snapshot):
    ids = ("Möwe", "海鸥", "a/b\\c", 'quo"te\n', " ")
    named = replace(snapshot, memory=replace(snapshot.memory, prototypes=replace(snapshot.prototypes, ids=ids)))
    named.save(tmp_path / "snapshot")

    assert Snapshot.load(tmp_path / "snapshot").prototypes.ids == ids


@pytest.mark.parametrize("classifier", ["ncm", "whitened"])
def test_what_serving_needs_beside_engine_and_index_is_read_without_the_net(tmp_path, classifier):
    saved = learnt(classifier=classifier)
    saved.save(tmp_path / "snapshot")

    facts = read_serving_facts(tmp_path / "snapshot")

    assert (facts.ids, facts.input) == (saved.prototypes.ids, saved.config.net.input)
    assert np.array_equal(facts.counts, saved.prototypes.counts)
    assert np.array_equal(facts.hops, saved.prototypes.hops)
    assert (facts.metric is None) == (classifier == "ncm")
    if facts.metric is not None:
        assert torch.equal(torch.from_numpy(facts.metric), saved.tensors()["metric"])


def test_serving_needs_no_training_state(snapshot, folder):
    (folder / TRAINING).unlink()

    served = Snapshot.load(folder, training=False)

    assert_answers_alike(served, snapshot)
    assert served.importance == {}
    with pytest.raises(CorruptSnapshot, match=f"{TRAINING} is missing; restore it"):
        Snapshot.load(folder)


def test_the_importance_is_not_in_the_file_that_serving_reads(snapshot, folder):
    assert snapshot.importance["ewc"]["head.weight"].numpy().tobytes() not in (folder / SERVING).read_bytes()
    assert snapshot.importance["ewc"]["head.weight"].numpy().tobytes() in (folder / TRAINING).read_bytes()


def test_the_files_are_safetensors_and_json_and_nothing_else(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted([CLASSES, SERVING, TRAINING, MANIFEST])
    json.loads((folder / MANIFEST).read_text())
    assert [json.loads(line) for line in (folder / CLASSES).read_text().splitlines()]
    for name in (SERVING, TRAINING):
        content = (folder / name).read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        assert all(set(entry) == {"dtype", "shape", "data_offsets"} for entry in header.values())


@pytest.mark.parametrize("name", [CLASSES, SERVING, TRAINING, MANIFEST])
def test_a_truncated_file_is_refused(folder, name):
    content = (folder / name).read_bytes()
    for size in (0, 5, len(content) // 2, len(content) - 1):
        (folder / name).write_bytes(content[:size])
        with pytest.raises(CorruptSnapshot, match=f"{name} .*restore it from a copy"):
            Snapshot.load(folder)


@pytest.mark.parametrize("name", [CLASSES, SERVING, TRAINING, MANIFEST])
def test_a_flipped_bit_anywhere_is_refused(folder, name):
    content = (folder / name).read_bytes()
    for place in range(0, len(content), max(1, len(content) // 50)):
        flipped = bytearray(content)
        flipped[place] ^= 1
        (folder / name).write_bytes(flipped)
        try:
            unchanged = json.loads(flipped) == json.loads(content)  # a flipped blank between JSON's words says the same
        except ValueError:
            unchanged = False
        if not unchanged:
            with pytest.raises((CorruptSnapshot, UnsupportedSnapshot), match="snapshot"):
                Snapshot.load(folder)


@pytest.mark.parametrize("name", [CLASSES, SERVING, TRAINING, MANIFEST])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    with pytest.raises(CorruptSnapshot, match=r"missing; restore it|no snapshot, or an incomplete one"):
        Snapshot.load(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("task", 7), ("classes", ["a", "b", "c", "d", "e"]), ("freedom", 0), ("config", {}), ("files", {})],
)
def test_an_edited_manifest_is_refused(folder, key, value):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {key: value}))

    with pytest.raises(CorruptSnapshot, match=r"snapshot\.json was altered; restore it from a copy"):
        Snapshot.load(folder)


def test_a_snapshot_of_the_first_format_with_its_classes_in_the_manifest_still_loads(snapshot, folder):
    manifest = json.loads((folder / MANIFEST).read_text()) | {"format": 1, "classes": list(snapshot.prototypes.ids)}
    del manifest["files"][CLASSES]
    (folder / CLASSES).unlink()
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": digest(manifest)}, indent=1))

    loaded = Snapshot.load(folder)

    assert loaded.prototypes.ids == read_serving_facts(folder).ids == snapshot.prototypes.ids
    assert_answers_alike(loaded, snapshot)


def test_thousands_of_classes_keep_their_names_and_their_order():
    ids = tuple(f"class {number}\n\u2028\u00e9 {number % 7}" for number in range(5000))
    assert [name for line in ids_as_lines(ids).splitlines() for name in json.loads(line)] == list(ids)


@pytest.mark.parametrize("version", [0, FORMAT + 1, "2", None])
def test_another_format_version_is_refused(folder, version):
    manifest = json.loads((folder / MANIFEST).read_text()) | {"format": version}
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": digest(manifest)}))

    with pytest.raises(
        UnsupportedSnapshot, match=f"has format {version}, this program reads {FORMAT}; use the version"
    ):
        Snapshot.load(folder)


@pytest.mark.parametrize("content", ["[]", "3", "{}", "null", '{"format": 1}'])
def test_json_that_is_no_manifest_is_refused(folder, content):
    (folder / MANIFEST).write_text(content)
    with pytest.raises(CorruptSnapshot, match="cannot be read"):
        Snapshot.load(folder)


def test_a_place_without_a_snapshot_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(CorruptSnapshot, match="no snapshot, or an incomplete one"):
            Snapshot.load(place)


def test_tensors_of_another_snapshot_are_refused(folder, tmp_path):
    other = learnt(translator="linear")
    other.save(tmp_path / "other")
    (folder / SERVING).write_bytes((tmp_path / "other" / SERVING).read_bytes())

    with pytest.raises(CorruptSnapshot, match=SERVING):
        Snapshot.load(folder)


@pytest.mark.parametrize("taken", ["folder", "file"])
def test_a_snapshot_is_never_written_over(snapshot, tmp_path, taken):
    target = tmp_path / "snapshot"
    snapshot.save(target) if taken == "folder" else target.write_text("mine")
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InvalidConfig, match=r"snapshot exists already; .*choose another folder"):
        snapshot.save(target)

    assert sorted(tmp_path.rglob("*")) == before


CRASHES = {
    # The disk is full: no file may grow above 4 kB.
    "full disk": "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
    # kill -9 at the last moment: every file is written, and only the rename into place is left.
    "killed": "import os, signal; "
    "sys.addaudithook(lambda event, args: event == 'os.rename' and str(args[1]) == sys.argv[2]"
    " and os.kill(os.getpid(), signal.SIGKILL))",
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_while_saving_leaves_nothing_at_the_target(snapshot, folder, tmp_path, crash):
    target = tmp_path / "copies" / "copy"
    load = "import sys; from zstci import Snapshot; snapshot = Snapshot.load(sys.argv[1])"
    code = f"{load}; {CRASHES[crash]}; snapshot.save(sys.argv[2])"

    process = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(target)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert process.returncode == (-signal.SIGKILL if crash == "killed" else 1), process.stderr
    assert not target.exists()
    if crash == "full disk":
        assert list(target.parent.iterdir()) == []
    snapshot.save(target)  # what the crash left behind is in nobody's way
    tiny.assert_same_snapshot(Snapshot.load(target), snapshot)


def test_the_nearest_classes_come_first(snapshot):
    distances, names = snapshot.classify(TEST.inputs, k=99)

    assert distances.shape == (25, 5)  # no more than there are classes
    assert (distances.diff(dim=1) >= 0).all()
    assert all(sorted(row) == list("01234") for row in names)
    assert snapshot.classify(TEST.inputs)[1] == [row[:1] for row in names]
