import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from service.errors import CorruptBundle, StorageFull
from service.serving import bundle
from service.serving.index import PrototypeIndex
from tests.unit.service.serving.learnt import NAMES, learnt, reseal
from zstci import Snapshot
from zstci.errors import InvalidConfig

ROOT = Path(__file__).parents[4]

FILES = (
    "classes.jsonl",
    "engine.onnx",
    "index.faiss",
    "names.json",
    "serving.safetensors",
    "snapshot.json",
    "training.safetensors",
)


@pytest.fixture
def folder(bundles, tmp_path) -> Path:
    return shutil.copytree(bundles("whitened"), tmp_path / "copy")


def test_a_bundle_holds_engine_index_snapshot_and_the_digest_of_each(tmp_path):
    snapshot = learnt("whitened")
    written = bundle.write(snapshot, tmp_path / "versions" / "v1", NAMES)
    folder = tmp_path / "versions" / "v1"

    assert [path.name for path in folder.parent.iterdir()] == ["v1"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "version.json"])
    assert written.bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert written.engine == "onnx"
    manifest = bundle.verify(folder, written.sha256)
    assert (manifest.engine, manifest.sha256) == ("onnx", written.sha256)
    stored = json.loads((folder / bundle.NAMES).read_bytes())
    assert stored == {"digit-0": "the 0", "digit-1": "the 1", "digit-2": "the 2"}


def test_the_next_update_finds_all_of_its_parent_in_a_bundle(folder):
    before, after = learnt("whitened").tensors(), Snapshot.load(folder).tensors()

    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_stored_index_searches_like_the_one_it_was_made_from(folder):
    snapshot = learnt("whitened")
    assert snapshot.memory.metric is not None
    metric, means = snapshot.memory.metric.numpy(), snapshot.prototypes.means.numpy()
    stored, fresh = (
        PrototypeIndex.read(folder / "index.faiss", metric),
        PrototypeIndex.over(snapshot.memory.projected.numpy(), metric),
    )
    found, expected = (one.search(means + np.float32(0.01), 3) for one in (stored, fresh))

    assert stored.gap == fresh.gap > 0
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def test_an_index_that_is_kept_while_it_is_checked_is_that_of_the_file(folder):
    kept = bundle.verify(folder, keep_index=True)

    assert kept.content is not None
    assert kept.content.tobytes() == (folder / "index.faiss").read_bytes()
    assert kept == bundle.verify(folder)
    for damaged in (kept.content[:-1], kept.content ^ 1):
        (folder / "index.faiss").write_bytes(damaged.tobytes())
        with pytest.raises(CorruptBundle, match=r"index\.faiss (was altered|has)"):
            bundle.verify(folder, keep_index=True)


@pytest.mark.parametrize("name", [*FILES, "version.json"])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()

    with pytest.raises(CorruptBundle, match=rf"{name}.* (missing|incomplete).* (restore .* from a copy|or activate)"):
        bundle.verify(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])

    with pytest.raises(CorruptBundle, match=rf"{name} has {len(content) - 1} bytes instead of {len(content)}; restore"):
        bundle.verify(folder)


@pytest.mark.parametrize("name", FILES)
def test_an_altered_file_is_refused(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)

    with pytest.raises(CorruptBundle, match=rf"{name} was altered \(its sha256 does not match\); restore"):
        bundle.verify(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"format": 1, "engine": "onnx", "files": {}, "sha256": "0"}', "was altered"),
    ],
)
def test_a_damaged_manifest_is_refused(folder, content, said):
    (folder / "version.json").write_bytes(content)

    with pytest.raises(CorruptBundle, match=rf"version.json {said}.*restore the folder from a copy"):
        bundle.verify(folder)


def test_a_manifest_with_another_engine_is_refused(folder):
    content = json.loads((folder / "version.json").read_text())
    (folder / "version.json").write_text(json.dumps(content | {"engine": "torch"}))

    with pytest.raises(CorruptBundle, match=r"version.json was altered; restore"):
        bundle.verify(folder)


def test_another_format_is_refused_and_named(folder):
    reseal(folder, format=2)

    with pytest.raises(CorruptBundle, match="has format 2, this program reads 1; use the one that wrote it"):
        bundle.verify(folder)


@pytest.mark.parametrize("name", ["engine.onnx.data", "index.faiss.partial", "serving.safetensors.partial"])
def test_leftovers_of_something_else_are_refused(folder, name):
    (folder / name).write_bytes(b"half")

    with pytest.raises(CorruptBundle, match=rf"{name} is none of this version's files; remove it, or restore"):
        bundle.verify(folder)


def test_what_a_file_manager_leaves_is_no_damage(folder):
    (folder / ".DS_Store").write_bytes(b"x")

    bundle.verify(folder)


def test_a_manifest_never_leads_out_of_its_folder(folder):
    (folder.parent / "secret").write_bytes(b"x")
    reseal(folder, files={"../secret": bundle._facts(folder.parent / "secret")})

    with pytest.raises(CorruptBundle):
        bundle.verify(folder)


def test_a_whole_bundle_in_the_place_of_another_is_refused(folder):
    with pytest.raises(CorruptBundle, match="is whole, but another version than the one that was published here"):
        bundle.verify(folder, "0" * 64)


@pytest.mark.parametrize("where", ["nothing", "copy/version.json"])
def test_a_place_without_a_bundle_is_refused(folder, where):
    with pytest.raises(CorruptBundle, match=r"has no version.json: no version, or an incomplete one"):
        bundle.verify(folder.parent / where)


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path):
    snapshot = learnt("whitened")
    elsewhere = replace(snapshot, config=replace(snapshot.config, device="cuda:7"))  # found out after the weights
    with pytest.raises(InvalidConfig, match="not on this machine"):
        bundle.write(elsewhere, tmp_path / "v1", NAMES)

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_no_bundle_and_goes_with_the_next_write(tmp_path, folder):
    for left in (".v1.partial-123", "..v1.partial-124.partial-124"):
        shutil.copytree(folder, tmp_path / left)
        (tmp_path / left / "version.json").unlink()
    with pytest.raises(CorruptBundle, match="incomplete"):
        bundle.verify(tmp_path / ".v1.partial-123")

    bundle.write(learnt("whitened"), tmp_path / "v1", NAMES)

    bundle.verify(tmp_path / "v1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "v1"]


@pytest.mark.slow
def test_a_writer_killed_at_the_last_moment_leaves_no_bundle_and_no_obstacle(tmp_path, folder):
    code = (
        "import os, signal, sys; from pathlib import Path; from service.serving import bundle; "
        "from zstci import Snapshot; "
        "sys.addaudithook(lambda event, args: event == 'os.rename' and str(args[1]) == sys.argv[2]"
        " and os.kill(os.getpid(), signal.SIGKILL)); "
        "bundle.write(Snapshot.load(sys.argv[1]), Path(sys.argv[2]), {})"
    )
    target = tmp_path / "versions" / "v1"
    process = subprocess.run([sys.executable, "-c", code, str(folder), str(target)], cwd=ROOT, check=False)

    assert process.returncode == -signal.SIGKILL
    assert not target.exists()
    bundle.write(Snapshot.load(folder), target, NAMES)
    bundle.verify(target)
    assert [path.name for path in target.parent.iterdir()] == ["v1"]


WRITERS = {
    "bytes": lambda full: full.write_bytes(b"x" * 9999),
    "faiss": lambda full: PrototypeIndex.of(np.zeros((99, 99), dtype=np.float32), None).write(full),
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_named_whoever_meets_it(tmp_path, writer):
    (tmp_path / "full").symlink_to("/dev/full")

    with (
        pytest.raises(StorageFull, match=r"no room left on the disk of .*; free some"),
        bundle._full_disk_named(tmp_path),
    ):
        WRITERS[writer](tmp_path / "full")


def test_a_version_is_never_overwritten(folder):
    before = (folder / "version.json").stat().st_mtime_ns
    with pytest.raises(InvalidConfig, match="a version is never overwritten"):
        bundle.write(learnt("ncm"), folder, NAMES)

    assert (folder / "version.json").stat().st_mtime_ns == before
    bundle.verify(folder)
